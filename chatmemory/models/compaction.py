"""The compaction of a conversation: its lease, its failures, and hashes of erased summaries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models
from django.utils.translation import gettext_lazy as _

from chatmemory.models.conversation import Conversation
from chatmemory.models.deletion import cascade

LONGEST_ERROR = 500
"""The maximum number of characters of a stored error."""


class Compaction(models.Model):
    """The lease for summarising a conversation, the failures since the last summary, and hashes of erased summaries.

    It has its own row, so that leases and changes of the memory never wait for each other.
    """

    conversation = models.OneToOneField(
        Conversation,
        verbose_name=_("conversation"),
        on_delete=cascade,
        primary_key=True,
        related_name="compaction",
    )
    lease = models.PositiveBigIntegerField(default=0, editable=False)
    leased_until = models.DateTimeField(null=True, editable=False)
    failures = models.PositiveIntegerField(_("failures"), default=0, help_text=_("Since the last summary."))
    failed_at = models.DateTimeField(_("failed at"), null=True, blank=True)
    retry_at = models.DateTimeField(_("not before"), null=True, blank=True)
    error = models.CharField(_("error"), max_length=LONGEST_ERROR, blank=True, default="")
    # SHA-256 of the texts of the last erased summaries, so that no rewrite restores them.
    erased = models.TextField(blank=True, default="", editable=False)

    if TYPE_CHECKING:
        conversation_id: Any

    class Meta:
        verbose_name = _("compaction")
        verbose_name_plural = _("compactions")
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.conversation_id}: {self.failures} failures"
