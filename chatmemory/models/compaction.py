"""The compaction of a conversation: who makes a summary now, what failed, and what was erased."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models
from django.utils.translation import gettext_lazy as _

from chatmemory.models.conversation import Conversation
from chatmemory.models.deletion import cascade

LONGEST_ERROR = 500
"""The most characters of an error that are kept."""


class Compaction(models.Model):
    """The lease for making a summary of a conversation, the failures since the last one, and hashes of erased ones.

    It is a row of its own, so that taking a lease never waits for a change of the memory, nor the other way round.
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
    # SHA-256 of the texts of the summaries that were erased last: no rewrite brings them back.
    erased = models.TextField(blank=True, default="", editable=False)

    if TYPE_CHECKING:
        conversation_id: Any

    class Meta:
        verbose_name = _("compaction")
        verbose_name_plural = _("compactions")
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.conversation_id}: {self.failures} failures"
