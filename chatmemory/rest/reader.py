"""What a request's user may read of messages: all of it, all but instructions and tool results, or none of it.

Each response with messages uses a ``Reader``, so that a project's instructions are in no response to its users. What is
hidden has no influence on a response either: it is left out before anything is counted, ranked, paged or tagged. Token
counts are not hidden.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass
from typing import Any

from django.db.models import Case, F, Value, When
from django.db.models.functions import Greatest, Length
from rest_framework.request import Request

from chatmemory import staff
from chatmemory.core.messages import (
    STOPPED,
    AiMessage,
    ChatMessage,
    ChatMessageType,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
)
from chatmemory.database.reading import CHARS
from chatmemory.models import TYPES, Message
from chatmemory.rest.access import is_for_others, may_read_text

HIDDEN = "[hidden]"
"""The text in the place of instructions, which cannot be empty in any format."""

_CHARS_OF_TOKEN = 4
"""In most languages; it need not be exact."""

_SHOWN_ATTRIBUTES = ("cut_off", STOPPED)
"""What a chat shows beside an answer. Other attributes may have calls and results in a form of their own."""


@dataclass(frozen=True, kw_only=True)
class Reader:
    """What of messages may be shown. The messages themselves, their number and their tokens always may."""

    text: bool = True
    """Any of their text."""

    instructions: bool = True
    """System messages."""

    tools: bool = True
    """The arguments of tool calls, and their results."""

    @classmethod
    def of(cls, request: Request) -> Reader:
        """Return what the user of a request may read."""
        if is_for_others(request):
            return cls(text=may_read_text(request))
        user = request.user
        return cls(instructions=staff.sees(user, "instructions"), tools=staff.sees(user, "tools"))

    @property
    def hidden_types(self) -> set[str]:
        """The types of messages whose text is hidden."""
        hidden = {ChatMessageType.SYSTEM: self.instructions, ChatMessageType.TOOL_EXECUTION_RESULT: self.tools}
        return {type.value for type, is_shown in hidden.items() if not is_shown}

    @property
    def searched_types(self) -> list[str]:
        """The types of messages that may have an influence on a search; empty for all."""
        hidden = self.hidden_types
        return [name for name, _label in TYPES if name not in hidden] if hidden else []

    @property
    def chars(self) -> Any:
        """The characters of a message that count for the end of a page, counted by the database.

        The end must not tell how long hidden text is. Its tokens are shown, so they stand for its characters.
        """
        by_tokens = Value(_CHARS_OF_TOKEN) * F("token_count")
        cases = [When(type__in=self.hidden_types, then=by_tokens)]
        if not self.tools:
            cases.append(When(type=ChatMessageType.AI.value, then=Greatest(Length("text"), by_tokens)))
        return Case(*cases, default=CHARS) if self.hidden_types else CHARS

    def message(self, message: ChatMessage) -> ChatMessage:
        """Return a message with a placeholder for what is hidden. It has its type, its calls and their IDs."""
        match message:
            case SystemMessage() if not self.instructions:
                return SystemMessage(HIDDEN)
            case ToolExecutionResultMessage() if not self.tools:
                return ToolExecutionResultMessage(message.id, message.tool_name, "", is_error=message.is_error)
            case AiMessage() if not self.tools and (message.tool_execution_requests or message.attributes):
                calls = [ToolExecutionRequest(call.id, call.name) for call in message.tool_execution_requests]
                shown = {name: message.attributes[name] for name in _SHOWN_ATTRIBUTES if name in message.attributes}
                return AiMessage(message.text, calls, thinking=message.thinking, attributes=shown)
        return message

    def rows(self, rows: Iterable[Message]) -> list[Message]:
        """Return rows with placeholders for what is hidden, as unsaved copies. Their ``text`` is then empty."""
        return [self._row(row) for row in rows]

    def _row(self, row: Message) -> Message:
        message = self.message(row.message)
        if message is row.message:
            return row
        shown = copy(row)
        shown.message = message
        if row.type in self.hidden_types:
            shown.text = ""
        return shown
