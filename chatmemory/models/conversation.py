"""A conversation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models, router
from django.db.models import F, Q
from django.db.models.functions import Cast, Coalesce
from django.utils.translation import gettext_lazy as _

from chatmemory.conf import default_limit, default_model, default_window
from chatmemory.fields import ExactCharField
from chatmemory.identifiers import MEMORY_ID_CHARS, new_memory_id, uuid7
from chatmemory.managers import ConversationQuerySet
from chatmemory.messages import ChatMessage
from chatmemory.models.deletion import cascade
from chatmemory.window import WindowKind, check_kind, check_limit

if TYPE_CHECKING:
    from chatmemory.conversation_memory import ConversationMemory
    from chatmemory.ledger import Change
    from chatmemory.trial import WindowTrial

__all__ = ["BOUNDS", "COUNTERS", "MAX_LIMIT", "WINDOWS", "Conversation"]

MAX_LIMIT = 2_147_483_647  # of an integer column, everywhere

WINDOWS = [(WindowKind.MESSAGES.value, _("messages")), (WindowKind.TOKENS.value, _("tokens"))]

BOUNDS = ("window", "limit", "model", "always_keep_system_message_first")
"""What bounds the memory of the row."""

COUNTERS = ("version", "next_position", "message_count", "retained_count", "retained_tokens", "purged_count")
"""What every change writes of the row, with ``updated_at``."""

# What other objects of the row may have written since it was read, and what it is at first.
_NOT_SAVED: dict[str, Any] = {**dict.fromkeys(COUNTERS, 0), "turn": 0, "turn_until": None}


class Conversation(models.Model):
    """The messages under one memory ID, and the window that bounds what the model gets of them.

    Create one with ``Conversation.objects.create(owner=user, window="tokens", limit=4000)``; every field is optional.
    Change its memory through :attr:`memory`, its window through :meth:`set_window`: the counters are theirs to keep.
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
    # Databases take two nulls for different, so that nobody's memory IDs would not be unique.
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

    # Who makes the model answer: chatmemory.assistant.
    turn = models.PositiveBigIntegerField(default=0, editable=False)
    turn_until = models.DateTimeField(null=True, editable=False)

    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    updated_at = models.DateTimeField(_("last activity"), auto_now=True)

    objects = ConversationQuerySet.as_manager()

    if TYPE_CHECKING:
        owner_id: Any
        messages: Any

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
    def memory(self) -> ConversationMemory:
        """The memory of this conversation, under the window of its row."""
        from chatmemory.conversation_memory import ConversationMemory

        return ConversationMemory(self)

    @property
    def evicted_count(self) -> int:
        """How many messages were in the memory and left it, synthetic ones included."""
        return self.next_position - self.retained_count

    def add_messages(self, messages: Iterable[ChatMessage], *, idempotency_key: str | None = None) -> Change:
        """What ``memory.add()`` does, with an account of it.

        Args:
            messages: all or none of them are added.
            idempotency_key: 1 to 255 characters. A second call with the same key and messages changes nothing and
                gives the account of the first.

        Raises:
            Conversation.DoesNotExist: it has been erased.
            TypeError: one of them is no message.
            ValueError: a text or key that no database can hold.
            IdempotencyConflictError: the key came before, with other messages.
        """
        from chatmemory.changes import add
        from chatmemory.ledger import Target

        return add(Target.of(self), messages, idempotency_key=idempotency_key)

    async def aadd_messages(self, messages: Iterable[ChatMessage], *, idempotency_key: str | None = None) -> Change:
        """Async twin of :meth:`add_messages`."""
        return await sync_to_async(self.add_messages)(messages, idempotency_key=idempotency_key)

    def set_window(
        self,
        *,
        window: str | None = None,
        limit: int | None = None,
        model: str | None = None,
        always_keep_system_message_first: bool | None = None,
    ) -> Change:
        """Change what is given of the window, and evict at once what no longer fits.

        A wider window never brings messages back. Another ``model`` counts the retained messages again.

        Raises:
            Conversation.DoesNotExist: it has been erased.
            ValueError: no such window, model, or limit above zero.
        """
        from chatmemory.changes import set_window
        from chatmemory.ledger import Target

        return set_window(
            Target.of(self),
            window=window,
            limit=limit,
            model=model,
            always_keep_system_message_first=always_keep_system_message_first,
        )

    async def aset_window(
        self,
        *,
        window: str | None = None,
        limit: int | None = None,
        model: str | None = None,
        always_keep_system_message_first: bool | None = None,
    ) -> Change:
        """Async twin of :meth:`set_window`."""
        return await sync_to_async(self.set_window)(
            window=window,
            limit=limit,
            model=model,
            always_keep_system_message_first=always_keep_system_message_first,
        )

    def try_window(
        self,
        *,
        window: str | None = None,
        limit: int | None = None,
        model: str | None = None,
        always_keep_system_message_first: bool | None = None,
        messages: Iterable[ChatMessage] = (),
    ) -> WindowTrial:
        """What :meth:`set_window`, and then adding ``messages``, would do; nothing is written.

        Raises:
            Conversation.DoesNotExist: it has been erased.
            TypeError: one of ``messages`` is no message.
            ValueError: no such window, model or limit above zero; a text that no database can hold.
        """
        from chatmemory.trial import try_window

        return try_window(
            self,
            window=window,
            limit=limit,
            model=model,
            always_keep_system_message_first=always_keep_system_message_first,
            messages=messages,
        )

    async def atry_window(
        self,
        *,
        window: str | None = None,
        limit: int | None = None,
        model: str | None = None,
        always_keep_system_message_first: bool | None = None,
        messages: Iterable[ChatMessage] = (),
    ) -> WindowTrial:
        """Async twin of :meth:`try_window`."""
        return await sync_to_async(self.try_window)(
            window=window,
            limit=limit,
            model=model,
            always_keep_system_message_first=always_keep_system_message_first,
            messages=messages,
        )

    def to_format(self, name: str) -> Any:
        """The memory as it is sent to a model, in a format of the registry: ``"openai"``, say.

        The model's API accepts it; ``memory_repaired`` is sent if something had to be changed for that.

        Raises:
            ValueError: there is no such format, or it cannot express a message.
        """
        from chatmemory.sending import written_memory

        return written_memory(self, self.memory.messages(), name)

    async def ato_format(self, name: str) -> Any:
        """Async twin of :meth:`to_format`."""
        return await sync_to_async(self.to_format)(name)

    def memory_at(self, version: int) -> list[ChatMessage]:
        """The messages that the model got at ``version``, from 0 (none) to the current one.

        What a message was answered from is the memory at its ``added_in`` less one. With ``KEEP_HISTORY = False``
        the evicted ones are gone from the past as well.

        Raises:
            ValueError: there was no such version.
        """
        # Never a replica, which may not know the version yet.
        database = router.db_for_write(Conversation, instance=self)
        current = Conversation.objects.using(database).values_list("version", flat=True).get(pk=self.pk)
        if isinstance(version, bool) or not isinstance(version, int) or not 0 <= version <= current:
            raise ValueError(f"version must be from 0 to {current}, but is: {version!r}")
        return [row.message for row in self.messages.using(database).in_memory_at(version)]

    async def amemory_at(self, version: int) -> list[ChatMessage]:
        """Async twin of :meth:`memory_at`."""
        return await sync_to_async(self.memory_at)(version)
