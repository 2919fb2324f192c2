"""ChatGPT's messages as messages of this app.

====================================  ==================================================================
in the export                         here
====================================  ==================================================================
user                                  a user message; a text for each part
assistant, to all                     an answer, with the thoughts before it as its thinking
assistant, on the channel "analysis"  a thought
assistant, to a tool                  an answer that calls the tool; arguments that are no JSON object are
                                      put into one, under ``input``. Calls without anything in between are
                                      one answer
tool, after a call                    the result of a call of this tool, of the first that has none yet;
                                      several of one call are one result with several texts
system, and custom instructions       a system message
everything else                       a custom message, with ``role``, ``name``, ``kind`` and ``text``; with
                                      ``hidden`` if ChatGPT does not show it
no content at all                     none; it is counted
====================================  ==================================================================

Pictures, recordings and files are not part of the conversations in an export; a text stands for each, such as
``[image_asset_pointer: sediment://file_0001]`` or ``[file: report.pdf]``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
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
_ANALYSIS = "analysis"
_HIDDEN = "is_visually_hidden_from_conversation"


@dataclass
class Messages:
    """The messages that were made of one branch."""

    found: list[FoundMessage] = field(default_factory=list)

    empty: int = 0
    """The number of messages of the branch that have no content."""


@dataclass
class _Call:
    """A call whose result may follow."""

    id: str
    tool: str

    index: int | None = None
    """The index of its result among the messages found."""

    contents: list[TextContent] = field(default_factory=list)
    """The contents of its result."""


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
        self._calls: list[_Call] = []  # of the last answer
        self._unanswered: list[_Call] = []  # of answers before it

    def read(self, data: dict[str, Any]) -> None:
        author, recipient = _object(data, "author"), data.get("recipient")
        role, kind = author.get("role"), _object(data, "content").get("content_type")
        texts = [text for text in texts_of(data) if text.strip() and not is_blank(text)]
        if role == "user":
            texts += attachments_of(data)
        if role == "assistant" and isinstance(recipient, str) and recipient not in ("all", ""):
            self._call_of(recipient, data, texts)
        elif role == "tool" and self._calls:
            self._result(data, texts or [""], self._called(author.get("name")))
        elif not texts:
            self.messages.empty += 1
        elif role == "assistant" and (kind in _THINKING or data.get("channel") == _ANALYSIS):
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
        call = _Call(str(data.get("id") or tool), tool)
        request = ToolExecutionRequest(call.id, tool, _arguments("\n".join(texts)))
        last = self.messages.found[-1] if self._calls else None
        if last is not None and isinstance(last.message, AiMessage) and not self._thoughts:
            requests = [*last.message.tool_execution_requests, request]
            message = AiMessage(None, requests, thinking=last.message.thinking)
            self.messages.found[-1] = replace(last, message=message, native=[*last.native, data])
            self._calls.append(call)
            return
        self._answer(AiMessage(None, [request], thinking=self._thinking()), data)
        self._unanswered = [call for call in (*self._unanswered, *self._calls) if call.index is None]
        self._calls = [call]

    def _called(self, tool: Any) -> _Call:
        """Return the call that a message of a tool answers: the first of this tool that has no result, or its last."""
        for calls in self._calls, self._unanswered:
            if of_tool := [call for call in calls if _is_of(call.tool, tool)]:
                break
        else:
            of_tool = self._calls
        return next((call for call in of_tool if call.index is None), of_tool[-1])

    def _say(self, role: Any, name: Any, kind: Any, data: dict[str, Any], texts: list[str]) -> None:
        text, hidden = "\n".join(texts), _object(data, "metadata").get(_HIDDEN) is True
        if role == "assistant" and not hidden:
            self._calls, self._unanswered = [], []
            self._answer(AiMessage(text, thinking=self._thinking()), data)
        elif kind == _INSTRUCTIONS or (role == "system" and kind != _CONTEXT):
            self._interrupt(SystemMessage(text), data)
        elif role == "user" and kind != _CONTEXT and not hidden:
            self._interrupt(UserMessage([TextContent(part) for part in texts]), data)
        else:
            known = {"role": role, "name": name, "kind": kind, "text": text}
            attributes: dict[str, Any] = {key: value for key, value in known.items() if isinstance(value, str)}
            if hidden:  # what ChatGPT put in between
                self._add(CustomMessage({**attributes, "hidden": True}), [data])
            else:
                self._interrupt(CustomMessage(attributes), data)

    def _interrupt(self, message: ChatMessage, data: dict[str, Any]) -> None:
        """Add a message that ends the answer before it."""
        self._calls, self._unanswered = [], []
        self.end()
        self._add(message, [data])

    def _answer(self, message: AiMessage, data: dict[str, Any]) -> None:
        self._add(message, [*self._thoughts, data])
        self._thoughts = []

    def _result(self, data: dict[str, Any], texts: list[str], call: _Call) -> None:
        call.contents += map(TextContent, texts)
        message = ToolExecutionResultMessage(call.id, call.tool, contents=call.contents)
        found = self.messages.found
        if call.index is None:
            call.index = len(found)
            self._add(message, [data])
        else:
            before = found[call.index]
            found[call.index] = replace(before, message=message, native=[*before.native, data])

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


def _is_of(called: str, tool: Any) -> bool:
    """Return whether a message of ``tool`` may answer a call: "file_search" answers "file_search.msearch"."""
    return isinstance(tool, str) and (f"{called}.".startswith(f"{tool}.") or tool.startswith(f"{called}."))


def _arguments(text: str) -> str:
    if not text:
        return "{}"
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        parsed = None
    return text if isinstance(parsed, dict) else json.dumps({"input": text}, ensure_ascii=False)
