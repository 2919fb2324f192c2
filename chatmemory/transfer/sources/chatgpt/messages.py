"""ChatGPT's messages as messages of this app.

====================================  ==================================================================
in the export                         here
====================================  ==================================================================
user                                  a user message; a text for each part
assistant, to all                     an answer, with the thoughts before it as its thinking
assistant, to a tool                  an answer that calls the tool; arguments that are no JSON object are
                                      put into one, under ``input``
tool, after a call                    the result of the call; several are one result with several texts
system, and custom instructions       a system message
everything else                       a custom message, with ``role``, ``name``, ``kind`` and ``text``
no content at all                     none; it is counted
====================================  ==================================================================

Pictures, recordings and files are not part of the conversations in an export; a text stands for each, such as
``[image_asset_pointer: sediment://file_0001]`` or ``[file: report.pdf]``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from chatmemory.core.arguments import is_blank
from chatmemory.core.contents import TextContent
from chatmemory.core.messages import (
    AiMessage,
    ChatMessage,
    CustomMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.transfer.found import FoundMessage
from chatmemory.transfer.moments import from_seconds
from chatmemory.transfer.sources.chatgpt.texts import attachments_of, texts_of

__all__ = ["Messages", "messages_of"]

_THINKING = {"thoughts", "reasoning_recap"}
_INSTRUCTIONS = "user_editable_context"
_CONTEXT = "model_editable_context"


@dataclass
class Messages:
    """The messages that were made of one branch."""

    found: list[FoundMessage] = field(default_factory=list)

    empty: int = 0
    """The number of messages of the branch that have no content."""


@dataclass
class _Call:
    """The call that a tool's next message answers."""

    id: str
    name: str


def messages_of(place: str, branch: Iterable[dict[str, Any]]) -> Messages:
    """Return the messages that one branch becomes, in order."""
    reader = _Reader(place)
    for data in branch:
        reader.read(data)
    reader.end()
    return reader.messages


class _Reader:
    def __init__(self, place: str) -> None:
        self._place = place
        self.messages = Messages()
        self._thoughts: list[dict[str, Any]] = []
        self._call: _Call | None = None

    def read(self, data: dict[str, Any]) -> None:
        author, recipient = _object(data, "author"), data.get("recipient")
        role, kind = author.get("role"), _object(data, "content").get("content_type")
        texts = [text for text in texts_of(data) if text.strip() and not is_blank(text)]
        if role == "user":
            texts += attachments_of(data)
        if role == "assistant" and isinstance(recipient, str) and recipient not in ("all", ""):
            self._call_of(recipient, data, texts)
        elif role == "tool" and self._call is not None:
            self._result(data, texts or [""], self._call)
        elif not texts:
            self.messages.empty += 1
        elif role == "assistant" and kind in _THINKING:
            self._thoughts.append(data)
        else:
            self._say(role, author.get("name"), kind, data, texts)

    def end(self) -> None:
        """Add the thoughts that no answer followed as an answer of their own."""
        if self._thoughts:
            self._add(AiMessage(thinking=self._thinking()), self._thoughts)
            self._thoughts = []

    def _thinking(self) -> str | None:
        return "\n\n".join(text for data in self._thoughts for text in texts_of(data)) or None

    def _call_of(self, tool: str, data: dict[str, Any], texts: list[str]) -> None:
        self._call = _Call(str(data.get("id") or tool), tool)
        request = ToolExecutionRequest(self._call.id, tool, _arguments("\n".join(texts)))
        self._answer(AiMessage(None, [request], thinking=self._thinking()), data)

    def _say(self, role: Any, name: Any, kind: Any, data: dict[str, Any], texts: list[str]) -> None:
        self._call = None
        text = "\n".join(texts)
        if role == "assistant":
            self._answer(AiMessage(text, thinking=self._thinking()), data)
            return
        self.end()
        if kind == _INSTRUCTIONS or (role == "system" and kind != _CONTEXT):
            self._add(SystemMessage(text), [data])
        elif role == "user" and kind != _CONTEXT:
            self._add(UserMessage([TextContent(part) for part in texts]), [data])
        else:
            known = {"role": role, "name": name, "kind": kind, "text": text}
            self._add(CustomMessage({key: value for key, value in known.items() if isinstance(value, str)}), [data])

    def _answer(self, message: AiMessage, data: dict[str, Any]) -> None:
        self._add(message, [*self._thoughts, data])
        self._thoughts = []

    def _result(self, data: dict[str, Any], texts: list[str], call: _Call) -> None:
        contents = [TextContent(text) for text in texts]
        last = self.messages.found[-1]
        if isinstance(last.message, ToolExecutionResultMessage):
            message = ToolExecutionResultMessage(call.id, call.name, contents=[*last.message.contents, *contents])
            self.messages.found[-1] = FoundMessage(
                place=last.place, message=message, said_at=last.said_at, native=[*last.native, data]
            )
        else:
            self._add(ToolExecutionResultMessage(call.id, call.name, contents=contents), [data])

    def _add(self, message: ChatMessage, sources: list[dict[str, Any]]) -> None:
        last = sources[-1]
        self.messages.found.append(
            FoundMessage(
                place=f"{self._place}, message {str(last.get('id'))[:100]}",
                message=message,
                said_at=from_seconds(last.get("create_time")),
                native=list(sources),
            )
        )


def _object(data: dict[str, Any], name: str) -> dict[str, Any]:
    value = data.get(name)
    return value if isinstance(value, dict) else {}


def _arguments(text: str) -> str:
    if not text:
        return "{}"
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        parsed = None
    return text if isinstance(parsed, dict) else json.dumps({"input": text}, ensure_ascii=False)
