"""A conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Cast, Coalesce
from django.utils.translation import gettext_lazy as _

from chatmemory.conf import default_limit, default_model, default_window
from chatmemory.core.window import WindowKind, check_kind, check_limit
from chatmemory.models.deletion import cascade
from chatmemory.models.fields import ExactCharField
from chatmemory.models.identifiers import MEMORY_ID_CHARS, new_memory_id, uuid7
from chatmemory.models.owners import require_owner

if TYPE_CHECKING:
    from chatmemory.database.conversation_memory import ConversationMemory

__all__ = [
    "COUNTERS",
    "MAX_LIMIT",
    "WINDOWS",
    "WINDOW_SETTINGS",
    "Conversation",
    "ConversationQuerySet",
    "WindowSettings",
]

MAX_LIMIT = 2_147_483_647  # of an integer column, everywhere

WINDOWS = [(WindowKind.MESSAGES.value, _("messages")), (WindowKind.TOKENS.value, _("tokens"))]


class WindowSettings(TypedDict, total=False):
    """The columns that bound a memory, as keyword arguments. None, like a missing one, means: as it is."""

    window: str | None
    """``"messages"`` or ``"tokens"``."""

    limit: int | None
    """The most messages or tokens, above zero."""

    model: str | None
    """The model whose tokens are counted."""

    always_keep_system_message_first: bool | None
    """Whether a new system message goes to the front of the memory."""


WINDOW_SETTINGS = tuple(WindowSettings.__annotations__)
"""The names of :class:`WindowSettings`."""

COUNTERS = ("version", "next_position", "message_count", "retained_count", "retained_tokens", "purged_count")
"""The columns that every change writes, with ``updated_at``."""

# The columns that save() never writes, because another object of the row may have changed them, with the values of a
# new row.
_NOT_SAVED: dict[str, Any] = {**dict.fromkeys(COUNTERS, 0), "turn": 0, "turn_until": None}


class ConversationQuerySet(models.QuerySet["Conversation"]):
    """Conversations."""

    def owned_by(self, owner: Any) -> ConversationQuerySet:
        """Return the conversations of one user; with None those that have no owner.

        Raises:
            ValueError: ``owner`` is an anonymous or unsaved user.
        """
        return self.filter(owner=owner) if require_owner(owner) is not None else self.filter(owner__isnull=True)

    def with_evicted(self, has: bool = True) -> ConversationQuerySet:
        """Return the conversations of which messages have left the memory; with False the others."""
        evicted = Q(next_position__gt=F("retained_count"))
        return self.filter(evicted if has else ~evicted)


class Conversation(models.Model):
    """A row for the messages under one memory ID, and for the window that bounds the memory.

    Create one with ``Conversation.objects.create(owner=user, window="tokens", limit=4000)``; every field is optional.
    :attr:`memory` has all that reads or changes the memory; no other code may write the counters.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    memory_id = ExactCharField(
        _("memory ID"),
        max_length=MEMORY_ID_CHARS,
        default=new_memory_id,
        blank=True,
        help_text=_("What the application calls this conversation. Unique per owner."),
    )
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("owner"),
        on_delete=cascade,
        null=True,
        blank=True,
        related_name="chatmemory_conversations",
    )
    # In a unique constraint two nulls differ: with a null owner, memory IDs would not be unique.
    owner_key = models.GeneratedField(
        expression=Coalesce(Cast("owner", models.CharField(max_length=255)), models.Value("")),
        output_field=ExactCharField(max_length=255),
        db_persist=True,
    )
    title = models.CharField(_("title"), max_length=255, blank=True, default="")
    metadata = models.JSONField(_("metadata"), blank=True, default=dict)

    window = models.CharField(_("window"), max_length=8, choices=WINDOWS, default=default_window)
    limit = models.PositiveIntegerField(
        _("limit"),
        default=default_limit,
        validators=[MinValueValidator(1), MaxValueValidator(MAX_LIMIT)],
        help_text=_("At most so many messages or tokens, as the window says. Change it with set_window()."),
    )
    model = ExactCharField(
        _("model"), max_length=255, default=default_model, help_text=_("The model whose tokens are counted.")
    )
    always_keep_system_message_first = models.BooleanField(_("always keep system message first"), default=False)

    version = models.PositiveIntegerField(_("version"), default=0, editable=False)
    next_position = models.PositiveIntegerField(_("next position"), default=0, editable=False)
    message_count = models.PositiveIntegerField(_("messages said"), default=0, editable=False)
    retained_count = models.PositiveIntegerField(_("messages retained"), default=0, editable=False)
    retained_tokens = models.PositiveBigIntegerField(_("tokens retained"), default=0, editable=False)
    purged_count = models.PositiveIntegerField(
        _("messages deleted"), default=0, editable=False, help_text=_("Evicted ones, that history is not to keep.")
    )

    # The assistant's turn that is under way: see chatmemory.assistant.turns.
    turn = models.PositiveBigIntegerField(default=0, editable=False)
    turn_until = models.DateTimeField(null=True, editable=False)

    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    updated_at = models.DateTimeField(_("last activity"), auto_now=True)

    objects = ConversationQuerySet.as_manager()

    if TYPE_CHECKING:
        owner_id: Any
        messages: Any
        memory: ConversationMemory  # set by the app's ready(), for it is made of modules that import this one

    class Meta:
        verbose_name = _("conversation")
        verbose_name_plural = _("conversations")
        indexes = [
            models.Index(fields=["owner", "-updated_at"], name="chatmemory_conv_owner_updated"),
            models.Index(fields=["-updated_at"], name="chatmemory_conv_updated"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["memory_id", "owner_key"],
                name="chatmemory_conv_memory_id_unique",
                violation_error_message=_("This owner has a conversation with this memory ID already."),
            ),
            models.CheckConstraint(
                condition=Q(window__in=[value for value, _label in WINDOWS]), name="chatmemory_conv_window_known"
            ),
            models.CheckConstraint(condition=Q(limit__gte=1), name="chatmemory_conv_limit_positive"),
            models.CheckConstraint(
                condition=Q(message_count__lte=F("next_position")) & Q(retained_count__lte=F("next_position")),
                name="chatmemory_conv_counters",
            ),
        ]

    def __str__(self) -> str:
        return self.title or self.memory_id

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Save the row, but never the counters and the turn: this object may have been read before others wrote them.

        Raises:
            ValueError: a new row has no such window, or a limit that is not above zero.
        """
        if self._state.adding:
            check_kind(self.window)
            check_limit(self.limit, "limit")
            for name, value in _NOT_SAVED.items():  # a copy of another conversation has none of its messages
                setattr(self, name, value)
        elif not args and kwargs.get("update_fields") is None and not kwargs.get("force_insert"):
            left_alone = {*_NOT_SAVED, *self.get_deferred_fields()}
            kwargs["update_fields"] = [
                field.name
                for field in self._meta.concrete_fields
                if not (field.primary_key or field.generated or field.attname in left_alone)
            ]
        super().save(*args, **kwargs)

    @property
    def evicted_count(self) -> int:
        """The number of messages that were in the memory and left it, synthetic ones included."""
        return self.next_position - self.retained_count
