"""A request that must not happen twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models
from django.utils.translation import gettext_lazy as _

from chatmemory.models.conversation import Conversation
from chatmemory.models.deletion import cascade
from chatmemory.models.fields import ExactCharField

__all__ = ["IdempotencyKey"]


class IdempotencyKey(models.Model):
    """A key that came with a request, written in the transaction of what the request did.

    It is a row of its own, for a request may add no message, and a message may be deleted.
    """

    conversation = models.ForeignKey(
        Conversation, verbose_name=_("conversation"), on_delete=cascade, related_name="idempotency_keys"
    )
    scope = ExactCharField(_("scope"), max_length=300, help_text=_("Where the key is unique."))
    key = ExactCharField(_("key"), max_length=255)
    fingerprint = models.CharField(_("fingerprint"), max_length=64, help_text=_("SHA-256 of what was asked."))
    account = models.TextField(_("account"), help_text=_("What it did, as JSON; messages by their positions only."))
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    if TYPE_CHECKING:
        conversation_id: Any

    class Meta:
        verbose_name = _("idempotency key")
        verbose_name_plural = _("idempotency keys")
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["scope", "key"], name="chatmemory_key_unique")]

    def __str__(self) -> str:
        return f"{self.scope}: {self.key}"
