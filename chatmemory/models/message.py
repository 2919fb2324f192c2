"""A message of a conversation."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NoReturn

from django.db import models
from django.db.models import F, Q
from django.utils.functional import cached_property
from django.utils.translation import gettext_lazy as _

from chatmemory.core.eviction import EvictionReason
from chatmemory.core.messages import ChatMessage, ChatMessageType
from chatmemory.models.conversation import Conversation
from chatmemory.models.deletion import cascade
from chatmemory.models.message_columns import from_columns
from chatmemory.models.said_messages import SaidMessages, refuse_to_add

__all__ = ["EVICTION_REASONS", "LONGEST_SEARCH", "ORDER_STEP", "TYPES", "Message", "MessageQuerySet"]

TYPES = [
    (ChatMessageType.SYSTEM.value, _("System")),
    (ChatMessageType.USER.value, _("User")),
    (ChatMessageType.AI.value, _("AI")),
    (ChatMessageType.TOOL_EXECUTION_RESULT.value, _("Tool result")),
    (ChatMessageType.CUSTOM.value, _("Custom")),
]
EVICTION_REASONS = [
    (EvictionReason.WINDOW.value, _("no room in the window")),
    (EvictionReason.ORPHAN.value, _("its tool call was evicted")),
    (EvictionReason.REPLACED.value, _("replaced by a new system message")),
    (EvictionReason.REWRITTEN.value, _("dropped by a rewrite")),
    (EvictionReason.CLEARED.value, _("the memory was cleared")),
]

ORDER_STEP = 2**32
"""The distance in ``memory_order`` of two messages added one after the other: room for 32 halvings."""

LONGEST_SEARCH = 100
"""The most characters of a search: a database may compare all of them at each character of a text."""


class MessageQuerySet(models.QuerySet["Message"]):
    """Messages; ``conversation.messages`` are those of one conversation, in the order said.

    They are added and evicted by ``conversation.memory``, which updates the counters of the conversation. As everywhere
    in Django, ``bulk_create()``, ``update()`` and ``delete()`` of a queryset change the rows and nothing else; after
    them ``chatmemory_verify`` says what is wrong.
    """

    def retained(self) -> MessageQuerySet:
        """Return the messages that the model gets now, in memory order."""
        # evicted_in is null in all of these; ordering by it lets PostgreSQL read the index in order.
        return self.filter(evicted_in__isnull=True).order_by("evicted_in", "memory_order")

    def evicted(self) -> MessageQuerySet:
        """Return the messages that were in the memory and left it, in the order said."""
        return self.filter(evicted_in__isnull=False).order_by("position")

    def history(self) -> MessageQuerySet:
        """Return every message that was said, retained or evicted, in the order said."""
        return self.filter(synthetic=False).order_by("position")

    def in_memory_at(self, version: int) -> MessageQuerySet:
        """Return the messages that the model got at a version of the memory, in memory order."""
        still_there = models.Q(evicted_in__isnull=True) | models.Q(evicted_in__gt=version)
        return self.filter(still_there, added_in__lte=version).order_by("memory_order")


class Message(models.Model):
    """One message of a conversation.

    The row never changes after it was written, its eviction and erasure aside; only another model's tokens are counted
    anew.
    """

    conversation = models.ForeignKey(
        Conversation, verbose_name=_("conversation"), on_delete=cascade, related_name="messages", db_index=False
    )
    conversation.related_accessor_class = SaidMessages
    position = models.PositiveIntegerField(_("position"), help_text=_("0, 1, 2 … in the order of arrival."))
    type = models.CharField(_("type"), max_length=32, choices=TYPES)
    text = models.TextField(_("text"), blank=True)
    payload = models.TextField(_("payload"), null=True, blank=True)
    native = models.TextField(
        _("native form"),
        null=True,
        blank=True,
        help_text=_("The message as the framework has it that added it: JSON, with the framework's name as its key."),
    )
    token_count = models.PositiveIntegerField(_("tokens"))
    synthetic = models.BooleanField(
        _("synthetic"), default=False, help_text=_("Put into memory by a rewrite, not said.")
    )
    memory_order = models.BigIntegerField(_("memory order"))
    added_in = models.PositiveIntegerField(_("added in version"))
    evicted_in = models.PositiveIntegerField(_("evicted in version"), null=True, blank=True)
    evicted_at = models.DateTimeField(_("evicted at"), null=True, blank=True)
    eviction_reason = models.CharField(
        _("eviction reason"), max_length=16, choices=EVICTION_REASONS, blank=True, default=""
    )
    created_at = models.DateTimeField(_("time"))

    objects = MessageQuerySet.as_manager()

    if TYPE_CHECKING:
        conversation_id: Any

    class Meta:
        verbose_name = _("message")
        verbose_name_plural = _("messages")
        ordering = ["conversation", "position"]  # the order of an index
        default_permissions = ("view",)
        permissions = [
            ("read_message_text", _("Can read what messages say")),
            ("write_message_text", _("Can write messages in other users' conversations")),
        ]
        indexes = [
            models.Index(fields=["conversation", "evicted_in", "memory_order"], name="chatmemory_msg_memory"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["conversation", "position"], name="chatmemory_msg_position_unique"),
            models.CheckConstraint(
                condition=Q(type__in=[value for value, _label in TYPES]), name="chatmemory_msg_type_known"
            ),
            models.CheckConstraint(
                condition=Q(evicted_in__isnull=True, evicted_at__isnull=True, eviction_reason="")
                | Q(
                    evicted_in__isnull=False,
                    evicted_in__gte=F("added_in"),
                    evicted_at__isnull=False,
                    eviction_reason__in=[value for value, _label in EVICTION_REASONS],
                ),
                name="chatmemory_msg_eviction_whole",
            ),
            models.CheckConstraint(condition=Q(added_in__gte=1), name="chatmemory_msg_added_in_positive"),
        ]

    def __str__(self) -> str:
        # No text: the admin shows this to people who may not read what was said.
        return f"{self.position} {self.type}"

    def save(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse to write the row: ``conversation.memory`` adds messages, and what was said stays said.

        Raises:
            TypeError: always.
        """
        if self._state.adding:
            refuse_to_add()
        raise TypeError("a message never changes after it was said; conversation.memory.set() rewrites a memory")

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse to delete the row.

        Raises:
            TypeError: always.
        """
        raise TypeError(
            "a message is not deleted by itself, for the counters of its conversation would be wrong: "
            "conversation.memory.set() and clear() evict messages, chatmemory_purge deletes what was evicted, and "
            "conversation.delete() deletes everything"
        )

    @cached_property
    def message(self) -> ChatMessage:
        """The message of the row."""
        return from_columns(self.type, self.text, self.payload)

    def native_of(self, framework: str) -> Any:
        """Return ``framework``'s own form of the message, decoded from JSON; None if another program added it."""
        native = {} if self.native is None else json.loads(self.native)
        return native.get(framework)

    @property
    def is_retained(self) -> bool:
        """Whether the model gets this message now."""
        return self.evicted_in is None
