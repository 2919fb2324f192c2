"""A message of a conversation: its row, the columns with its text, and its pins.

``text`` is what people read and search. ``payload`` is JSON text with only what ``text`` cannot express. It is null for
a plain text message, so most rows are read without parsing. It is text and not a JSON column, because PostgreSQL's JSON
would reorder keys and rewrite numbers, and messages must be returned exactly as they were said.

``pins`` contains the versions in which the message was pinned and unpinned: ``"3-7 9-"`` means that it was pinned in
version 3, unpinned in version 7, and pinned again in version 9. Therefore, past memories know their pins.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn

from django.db import models
from django.db.models import F, Q
from django.db.models.fields.related_descriptors import ReverseManyToOneDescriptor
from django.utils.functional import cached_property
from django.utils.translation import gettext_lazy as _

from chatmemory.core.entries import EvictionReason
from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.json_text import MAX_DOCUMENT_CHARS, dumps, loads, require_storable
from chatmemory.core.messages import AiMessage, ChatMessage, ChatMessageType, SystemMessage, UserMessage
from chatmemory.core.serialization import message_to_data, read_message
from chatmemory.models.conversation import Conversation
from chatmemory.models.deletion import cascade

OPEN = "-"
"""The end of ``pins`` while the message is pinned."""


if TYPE_CHECKING:
    Descriptor = ReverseManyToOneDescriptor[Any]
else:
    Descriptor = ReverseManyToOneDescriptor


class SaidMessages(Descriptor):
    @cached_property
    def related_manager_cls(self) -> Any:
        # Django's methods accept only rows, so their own errors about a message would be misleading.
        refused = dict.fromkeys(["add", "aadd", "create", "acreate", "set", "aset"], staticmethod(refuse_to_add))
        return type("SaidMessagesManager", (super().related_manager_cls,), refused)


TYPES = [
    (ChatMessageType.SYSTEM.value, _("System")),
    (ChatMessageType.USER.value, _("User")),
    (ChatMessageType.AI.value, _("AI")),
    (ChatMessageType.TOOL_EXECUTION_RESULT.value, _("Tool result")),
    (ChatMessageType.CUSTOM.value, _("Custom")),
]
EVICTION_REASONS = [(reason.value, _(reason.label)) for reason in EvictionReason]

ORDER_STEP = 2**32
"""The distance of consecutive messages in ``memory_order``: room for 32 halvings."""

LONGEST_SEARCH = 100
"""The maximum number of characters of a search, because a database may compare all of them at each position."""

ERASED_TEXT = "[erased]"
"""The text of a message after its text was erased. A custom message has no text."""

PINNED = Q(evicted_in__isnull=True, pins__endswith=OPEN)
"""The condition for a message to be in the memory and pinned."""

# evicted_in is null in all of these. Ordering by it lets PostgreSQL read the index in order.
_ORDER_OF_RETAINED = ("evicted_in", "memory_order")


class Origin(models.TextChoices):
    SAID = "said", _("said")
    """A message that was said. It is in the history."""

    REWRITE = "rewrite", _("a rewrite")
    """A message that a rewrite added to the memory."""

    COPY = "copy", _("a copy")
    """A copy of another message, which cannot be in this place itself."""

    RESTORED = "restored", _("restored")
    """A copy of a message that had left the memory, because the conversation went back to where it was there."""

    CLEARED = "cleared", _("a cleared tool result")

    SUMMARY = "summary", _("a summary")
    """The summary of evicted messages."""


class WrittenBy(models.TextChoices):
    ASSISTANT = "assistant", _("the assistant")
    """An ``Assistant``: its instructions, the answers of its model, and the results of its tools."""

    CLIENT = "client", _("a client")
    """The owner of the conversation, or their program, over REST."""

    STAFF = "staff", _("staff")
    """A staff user over REST, in the conversation of another user."""

    IMPORT = "import", _("an import")
    """An import from another program."""


STAND_INS = (Origin.CLEARED, Origin.SUMMARY)
"""The origins of messages that replace other messages."""


class MessageQuerySet(models.QuerySet["Message"]):
    """Messages. ``conversation.messages`` contains those of one conversation, in the order said.

    ``conversation.memory`` adds and evicts messages, and updates the counters of the conversation. As everywhere in
    Django, ``bulk_create()``, ``update()`` and ``delete()`` change only the rows. If you use them,
    ``chatmemory_verify`` reports the wrong counters.
    """

    def retained(self) -> MessageQuerySet:
        """Return the messages in the memory, in memory order."""
        return self.filter(evicted_in__isnull=True).order_by(*_ORDER_OF_RETAINED)

    def evicted(self) -> MessageQuerySet:
        """Return the evicted messages, in the order said."""
        return self.filter(evicted_in__isnull=False).order_by("position")

    def history(self) -> MessageQuerySet:
        """Return all messages that were said, retained or evicted, in the order said."""
        return self.filter(origin=Origin.SAID).order_by("position")

    def pinned(self) -> MessageQuerySet:
        """Return the retained messages that are pinned, in memory order."""
        return self.filter(PINNED).order_by(*_ORDER_OF_RETAINED)

    def in_memory_at(self, version: int) -> MessageQuerySet:
        """Return the messages that were in the memory at a version, in memory order."""
        still_there = models.Q(evicted_in__isnull=True) | models.Q(evicted_in__gt=version)
        return self.filter(still_there, added_in__lte=version).order_by("memory_order")


class Message(models.Model):
    """One message of a conversation.

    A row never changes, except for its eviction, its pins, its erasure, and the recount of its tokens for another
    model.
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
    origin = models.CharField(
        _("origin"),
        max_length=16,
        choices=Origin,
        default=Origin.SAID,
        help_text=_("How it came into the memory."),
    )
    written_by = models.CharField(
        _("written by"),
        max_length=16,
        choices=WrittenBy,
        blank=True,
        default="",
        help_text=_("Who added it. Empty: the site's own code."),
    )
    # The first and the last position that the message replaces, if it replaces messages.
    covers_from = models.PositiveIntegerField(_("first message it covers"), null=True, blank=True)
    covers_to = models.PositiveIntegerField(_("last message it covers"), null=True, blank=True)
    pins = models.TextField(_("pinned"), blank=True, default="")
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
            models.CheckConstraint(condition=Q(origin__in=Origin.values), name="chatmemory_msg_origin_known"),
            models.CheckConstraint(
                condition=Q(written_by__in=["", *WrittenBy.values]), name="chatmemory_msg_written_by_known"
            ),
            models.CheckConstraint(
                condition=Q(covers_from__isnull=True, covers_to__isnull=True)
                | Q(covers_from__isnull=False, covers_to__isnull=False, covers_from__lte=F("covers_to")),
                name="chatmemory_msg_covers_whole",
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
        # Without the text, because the admin shows this to staff who may not read messages.
        return f"{self.position} {self.type}"

    def save(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse to write the row: ``conversation.memory`` adds messages, and messages never change.

        Raises:
            TypeError: always.
        """
        if self._state.adding:
            refuse_to_add()
        raise TypeError("a message never changes after it was added; use conversation.memory.set() to rewrite a memory")

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse to delete the row.

        Raises:
            TypeError: always.
        """
        raise TypeError(
            "a single message cannot be deleted, because the counters of its conversation would be wrong: "
            "conversation.memory.set() and clear() evict messages, chatmemory_purge deletes evicted messages, and "
            "conversation.delete() deletes everything"
        )

    def refresh_from_db(
        self,
        using: str | None = None,
        fields: Iterable[str] | None = None,
        from_queryset: models.QuerySet[Message] | None = None,
    ) -> None:
        """Read the row, or deferred columns, again by its conversation and its primary key."""
        if from_queryset is None and "conversation_id" in vars(self):
            manager = Message._base_manager.db_manager(using, hints={"instance": self})
            from_queryset = manager.filter(conversation=self.conversation_id)
        super().refresh_from_db(using=using, fields=fields, from_queryset=from_queryset)

    @cached_property
    def message(self) -> ChatMessage:
        """The message that the row stores."""
        return from_columns(self.type, self.text, self.payload)

    def native_of(self, framework: str) -> Any:
        """Return ``framework``'s form of the message, decoded from JSON; None if another program added it."""
        native = {} if self.native is None else json.loads(self.native)
        return native.get(framework)

    @property
    def is_retained(self) -> bool:
        return self.evicted_in is None

    @property
    def synthetic(self) -> bool:
        """Whether the message was not said, so that it is not in the history."""
        return self.origin != Origin.SAID

    @property
    def place(self) -> int:
        """The position of the message in the order said: of a restored one, where the message itself is."""
        return self.covers_from if self.origin == Origin.RESTORED and self.covers_from is not None else self.position

    @property
    def is_erased(self) -> bool:
        """Whether the text was erased, because its conversation was anonymised."""
        nothing = "" if self.type == ChatMessageType.CUSTOM else ERASED_TEXT
        return self.payload is None and self.text == nothing

    @property
    def is_pinned(self) -> bool:
        """Whether the message is in the memory and pinned."""
        return self.is_retained and is_pin_open(self.pins)

    def was_pinned_at(self, version: int) -> bool:
        """Return whether the message was in the memory and pinned at a version."""
        left = self.evicted_in is not None and self.evicted_in <= version
        return not left and was_pin_open(self.pins, version)


# Matches what dumps() writes for U+0000, for lone surrogates, and for numbers that may be too long for loads(). The
# lookbehind makes it start only at the first digit; otherwise, it would count the same digits from each of them.
_DOUBTFUL = re.compile(r"\\u0000|[\ud800-\udfff]|(?<![-+.0-9Ee])[-+.0-9Ee]{900}")

_PLAIN: dict[str, Callable[[str], ChatMessage]] = {
    ChatMessageType.USER: UserMessage,
    ChatMessageType.AI: AiMessage,
    ChatMessageType.SYSTEM: SystemMessage,
}


def to_columns(message: ChatMessage) -> dict[str, Any]:
    """Return ``type``, ``text`` and ``payload`` of a message.

    Raises:
        InvalidMessageError: a text contains U+0000 or a lone surrogate.
        TypeError: an attribute has no JSON form.
    """
    whole = message_to_data(message)
    data = {key: value for key, value in whole.items() if key != "type"}
    text = data.pop("text", None)
    contents = data.get("contents")
    if contents is not None:
        text = "\n".join(content["text"] for content in contents if content["type"] == "TEXT")
        if len(contents) == 1 and contents[0]["type"] == "TEXT":
            del data["contents"]
    elif isinstance(message, AiMessage) and text is None:
        data["text"] = None
    for optional in ("toolExecutionRequests", "attributes"):
        if not data.get(optional, True):
            del data[optional]
    payload = dumps(data) if data else None
    if payload is not None and (_DOUBTFUL.search(payload) or len(payload) > MAX_DOCUMENT_CHARS):
        # Reading the JSON back finds what cannot be stored or read again, with the field path.
        read_message(loads(dumps(whole)))
    return {"type": str(message.type), "text": require_storable(text or "", "text"), "payload": payload}


def from_columns(type: str, text: str, payload: str | None) -> ChatMessage:
    """Return the message of a row. Unknown fields of the payload are ignored, because a newer version may have written
    them.

    Raises:
        ValueError: another program wrote an invalid payload.
    """
    if payload is None:
        plain = _PLAIN.get(type)
        if plain is not None:
            return plain(text)
    data = {} if payload is None else loads(payload)
    if not isinstance(data, dict):
        raise InvalidMessageError("expected an object", "payload", code="invalid_type")
    data["type"] = type
    if type in (ChatMessageType.USER, ChatMessageType.TOOL_EXECUTION_RESULT):
        data.setdefault("contents", [{"type": "TEXT", "text": text}])
    elif type in (ChatMessageType.AI, ChatMessageType.SYSTEM):
        data.setdefault("text", text)
    return read_message(data, strict=False)


def refuse_to_add(*args: Any, **kwargs: Any) -> NoReturn:
    """Refuse to insert or move the row of a message.

    Raises:
        TypeError: always.
    """
    raise TypeError(
        'messages cannot be added as rows: use conversation.memory.add(UserMessage("Hi")), which also counts them and '
        "bounds the memory"
    )


_PINS = re.compile("([1-9][0-9]{0,9}-[1-9][0-9]{0,9} )*[1-9][0-9]{0,9}-([1-9][0-9]{0,9})?")


def is_pin_open(pins: str) -> bool:
    """Return whether the message is pinned."""
    return pins.endswith(OPEN)


def was_pin_open(pins: str, version: int) -> bool:
    """Return whether the message was pinned at ``version``."""
    return is_pin_open(pins_until(pins, version))


def open_pin(pins: str, version: int) -> str:
    """Return ``pins`` after pinning the message in ``version``."""
    return f"{pins} {version}{OPEN}".strip()


def close_pin(pins: str, version: int) -> str:
    """Return ``pins`` after unpinning the message in ``version``."""
    return f"{pins}{version}"


def pins_until(pins: str, version: int) -> str:
    """Return ``pins`` as they were at ``version``."""
    found = []
    for pin in pins.split():
        first, _, end = pin.partition(OPEN)
        if int(first) <= version:
            found.append(pin if end and int(end) <= version else f"{first}{OPEN}")
    return " ".join(found)


def last_pin_change(pins: str) -> int:
    """Return the last version in which the message was pinned or unpinned."""
    return _versions(pins)[-1]


def problem_of_pins(pins: str) -> str:
    """Return the form that ``pins`` should have; an empty string if it is correct."""
    if pins and not _PINS.fullmatch(pins):
        return "versions such as '3-7 9-'"
    if any(second <= first for first, second in pairwise(_versions(pins))):
        return "versions in ascending order"
    return ""


def _versions(pins: str) -> list[int]:
    return [int(number) for number in pins.replace(OPEN, " ").split()]
