"""The messages of a memory as entries, and the reasons for their eviction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from itertools import chain, takewhile
from typing import Any, Self

from chatmemory.core.exceptions import gettext_noop as _
from chatmemory.core.messages import AiMessage, ChatMessage, ChatMessageType, ToolExecutionResultMessage
from chatmemory.core.window import Window

RESULT_CLEARED = "[Old tool result cleared]"
"""The text of the placeholder that replaces an old tool result."""

RESULTS_KEPT = 3
"""The default number of tool results, the last of a memory, that stay when the others are cleared."""


class Cause(Enum):
    """The cause for which messages leave the memory."""

    ROOM = auto()
    """The messages made room for others. A summary may cover them later."""

    PLACEHOLDER = auto()
    """The messages made room for others, and placeholders replaced them. A summary may cover them later."""

    SUMMARY = auto()
    """A summary replaced the messages."""

    SUCCESSOR = auto()
    """A message that was added in the same version replaced the messages."""

    SOMEBODY = auto()
    """A user removed the messages, and no summary brings them back."""


class EvictionReason(StrEnum):
    """The reason why a message left the memory.

    Each reason is declared here, with its texts and its cause. The choices, the filters, the REST document and the
    behaviour of the admin, the chat, summaries and replays follow from this declaration.
    """

    label: str
    """The reason as staff read it, marked for translation."""

    chat_label: str
    """The reason as users of the chat read it, marked for translation."""

    explanation: str
    """The reason for programmers: a clause that calls the message "it"."""

    cause: Cause

    def __new__(cls, value: str, *declared: Any) -> Self:
        reason = str.__new__(cls, value)
        reason._value_ = value
        reason.label, reason.chat_label, reason.explanation, reason.cause = declared
        return reason

    @classmethod
    def of(cls, *causes: Cause) -> tuple[Self, ...]:
        """Return the reasons that have one of ``causes``."""
        return tuple(reason for reason in cls if reason.cause in causes)

    WINDOW = (
        "window",
        _("no room in the window"),
        _("no room left"),
        "there was no room in the window",
        Cause.ROOM,
    )
    ORPHAN = (
        "orphan",
        _("its tool call was evicted"),
        _("its tool call was forgotten"),
        "it is a tool result, and its call was evicted",
        Cause.ROOM,
    )
    TOO_LONG = (
        "too_long",
        _("too long for the model"),
        _("too long for the model"),
        "the model refused the request as too long",
        Cause.ROOM,
    )
    TOOL_CLEARED = (
        "tool_cleared",
        _("old tool result, cleared"),
        _("old tool result, a note took its place"),
        "it is an old tool result, and a placeholder replaced it",
        Cause.PLACEHOLDER,
    )
    SUMMARIZED = (
        "summarized",
        _("a summary covers it"),
        _("a summary covers it"),
        "a summary replaced it",
        Cause.SUMMARY,
    )
    REPLACED = (
        "replaced",
        _("replaced by a new system message"),
        _("new instructions"),
        "it is a system message, and there is a new one",
        Cause.SUCCESSOR,
    )
    REWRITTEN = (
        "rewritten",
        _("dropped by a rewrite"),
        _("memory was rewritten"),
        "the memory was rewritten without it",
        Cause.SOMEBODY,
    )
    CLEARED = (
        "cleared",
        _("the memory was cleared"),
        _("memory was cleared"),
        "the memory was cleared",
        Cause.SOMEBODY,
    )
    REWOUND = (
        "rewound",
        _("the conversation went back"),
        _("the conversation went back"),
        "the conversation went back to before it",
        Cause.SOMEBODY,
    )


class MemoryMessages(list[ChatMessage]):
    """The messages of a memory, and how many of them at the start the window does not evict.

    Later requests start with the same messages, so a prompt cache should keep them.
    """

    def __init__(self, messages: Iterable[ChatMessage] = (), lasting: int = 0) -> None:
        super().__init__(messages)
        self.lasting = lasting
        """The number of messages at the start that stay: the system message, pinned messages and summaries."""

    def changed(self, messages: Sequence[ChatMessage]) -> MemoryMessages:
        """Return ``messages``, which were made of these: the same ones stay, and so do added system messages."""
        stay = {id(message) for message in self[: self.lasting]}
        start = takewhile(lambda message: id(message) in stay or message.type is ChatMessageType.SYSTEM, messages)
        return MemoryMessages(messages, sum(1 for _ in start))


@dataclass(eq=False)
class Entry:
    """A message in a memory. Entries are equal only to themselves, even if their messages are equal."""

    message: ChatMessage

    cost: int
    """The part of the window's limit that the message takes: 1, or its tokens."""

    row: Any = None
    """The row of the message. Only the store uses it."""

    pinned: bool = False
    """Whether the window may not evict the message."""

    is_placeholder: bool = False
    """Whether the message replaces a tool result that was cleared."""

    is_summary: bool = False
    """Whether the message is a summary of evicted messages."""

    replaces: Self | None = None
    """The tool result that this placeholder replaced in the current change."""

    @property
    def type(self) -> ChatMessageType:
        return self.message.type

    @property
    def begins_turn(self) -> bool:
        """Whether the message begins a turn: it is a user message, not a summary."""
        return self.type is ChatMessageType.USER and not self.is_summary

    @property
    def holds_summary(self) -> bool:
        """Whether the message contains a summary, by a model's API, of all messages before it.

        An answer's attributes store Anthropic's ``compaction`` blocks and OpenAI's ``compaction`` items.
        """
        if not isinstance(self.message, AiMessage):
            return False
        kept = (value for framework in self.message.attributes.values() for value in _values(framework))
        return any(isinstance(piece, dict) and piece.get("type") == "compaction" for piece in chain(*kept))

    @property
    def is_result(self) -> bool:
        """Whether the message is a tool result."""
        return self.type is ChatMessageType.TOOL_EXECUTION_RESULT

    @property
    def has_calls(self) -> bool:
        """Whether the message calls tools."""
        return isinstance(self.message, AiMessage) and bool(self.message.tool_execution_requests)

    @property
    def tool(self) -> str | None:
        """The name of the tool that returned the result, or None."""
        return self.message.tool_name if isinstance(self.message, ToolExecutionResultMessage) else None

    def says_the_same(self, other: Entry) -> bool:
        return self.message == other.message

    def placeholder(self, text: str, window: Window) -> Self:
        """Return the placeholder that replaces this tool result."""
        result = self.message
        assert isinstance(result, ToolExecutionResultMessage), "only tool results are cleared"
        message = ToolExecutionResultMessage(result.id, result.tool_name, text, is_error=result.is_error)
        return type(self)(message, window.cost(message), is_placeholder=True, replaces=self)


def _values(kept: Any) -> list[list[Any]]:
    return [value for value in kept.values() if isinstance(value, list)] if isinstance(kept, dict) else []
