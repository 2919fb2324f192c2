"""The idempotency keys of requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from django.db import models, transaction
from django.utils.translation import gettext_lazy as _

from chatmemory.models.conversation import Conversation, alias_for_writes
from chatmemory.models.conversation_names import kept_names, key_name
from chatmemory.models.deletion import cascade
from chatmemory.models.fields import ExactCharField

OWNER_SCOPE = "owner "
"""The prefix of the scope of keys that created conversations; the owner's primary key follows."""


class IdempotencyKeyQuerySet(models.QuerySet["IdempotencyKey", "IdempotencyKey"]):
    def delete(self) -> tuple[int, dict[str, int]]:
        """Delete the keys, and release the names of those that created conversations."""
        database = alias_for_writes(self)
        if kept_names(database) is None:
            return super().delete()
        with transaction.atomic(using=database):
            self.using(database).release_names()
            return super().delete()

    delete.alters_data = True  # type: ignore[attr-defined]
    delete.queryset_only = True  # type: ignore[attr-defined]

    def release_names(self) -> None:
        """Release the names of the keys that created conversations. Other keys are unique within their conversation."""
        if (names := kept_names(self.db)) is not None:
            for scope, key, conversation in self.of_owners().values_list("scope", "key", "conversation_id"):
                names.release(self.db, key_name(scope, key), conversation)

    def of_owners(self) -> Self:
        """Return the keys of requests that created conversations."""
        return self.filter(scope__startswith=OWNER_SCOPE)


class IdempotencyKey(models.Model):
    """The idempotency key of a request, written in the same transaction as the request's changes.

    It has its own row, because a request may add no message, and a message may be deleted.
    """

    conversation = models.ForeignKey(
        Conversation, verbose_name=_("conversation"), on_delete=cascade, related_name="idempotency_keys"
    )
    scope = ExactCharField(_("scope"), max_length=300, help_text=_("Where the key is unique."))
    key = ExactCharField(_("key"), max_length=255)
    fingerprint = models.CharField(_("fingerprint"), max_length=64, help_text=_("SHA-256 of what was asked."))
    account = models.TextField(_("account"), help_text=_("What it did, as JSON; messages by their positions only."))
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    objects = IdempotencyKeyQuerySet.as_manager()

    if TYPE_CHECKING:
        conversation_id: Any

    class Meta:
        verbose_name = _("idempotency key")
        verbose_name_plural = _("idempotency keys")
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["scope", "key"], name="chatmemory_key_unique")]

    def __str__(self) -> str:
        return f"{self.scope}: {self.key}"

    def delete(self, using: Any = None, keep_parents: bool = False) -> tuple[int, dict[str, int]]:
        """Delete the key, and release its name if it created a conversation."""
        return type(self).objects.using(using or self._state.db).filter(pk=self.pk).delete()
