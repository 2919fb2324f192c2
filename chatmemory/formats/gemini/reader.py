"""The strict reader of Gemini's contents; see :mod:`chatmemory.formats.gemini`."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from chatmemory.core.contents import Content, TextContent
from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.messages import (
    AiMessage,
    ChatMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.core.serialization.fields import Fields, expected
from chatmemory.formats import CannotExpressError
from chatmemory.formats.gemini.part_reader import ANSWER_PARTS, USER_PARTS, Thought, clean_part, clean_said, read_part
from chatmemory.formats.gemini.part_writer import answer_parts, content_part, function_response

__all__ = ["ATTRIBUTE", "clean_contents", "clean_parts", "from_gemini", "read_answer", "read_contents", "read_result"]

ATTRIBUTE = "gemini"
"""The attribute under which the parts that messages here cannot express are kept, as ``parts``."""

_SYSTEM = {"text": USER_PARTS["text"]}
_SYSTEM_NAMES = ("system_instruction", "systemInstruction")


def from_gemini(data: Any, place: str = "") -> list[ChatMessage]:
    """Read messages from ``{"system_instruction": …, "contents": […]}``, contents, one content, or a response.

    Names may be those of the REST API (``functionCall``) or of the SDK (``function_call``); errors have the former.
    ``null`` is the same as a field that is not there. A response of a function gets the ID of its call; those without
    are put in the order of their calls.

    Args:
        place: what the data is called in errors, ``body`` say.

    Raises:
        InvalidMessageError: a ``ValueError`` that names the place: ``contents[3].parts[0].functionCall.name``.
    """
    if isinstance(data, (list, tuple)):
        return _contents(data, place)
    if not isinstance(data, Mapping):
        raise expected("an object or a list of contents", data, place)
    fields = Fields(data, place)
    at = fields.at
    if "candidates" in data:
        return _candidate(data["candidates"], at("candidates"))
    if "parts" in data:
        return _content(data, place, _Calls())
    fields.refuse_others(*_SYSTEM_NAMES, "contents")
    given = [name for name in _SYSTEM_NAMES if data.get(name) is not None]
    if len(given) > 1:
        raise InvalidMessageError("given twice", at(given[1]), code="repeated")
    system = [message for name in given for message in _system(data[name], at(name))]
    if not isinstance(data.get("contents"), (list, tuple)):
        raise expected("a list of contents", data.get("contents"), at("contents"))
    return [*system, *_contents(data["contents"], at("contents"))]


def _candidate(candidates: Any, place: str) -> list[ChatMessage]:
    if not isinstance(candidates, (list, tuple)):
        raise expected("a list of candidates", candidates, place)
    if len(candidates) != 1:
        raise InvalidMessageError(
            "expected one candidate, got %(count)s; read the content of one", place, count=len(candidates)
        )
    if not isinstance(candidates[0], Mapping):
        raise expected("an object", candidates[0], f"{place}[0]")
    content = candidates[0].get("content")
    if content is None:
        return [AiMessage()]
    if isinstance(content, Mapping) and content.get("role") is None:
        content = {**content, "role": "model"}  # who else; Gemini leaves it out at times, with the parts or without
    return _content(content, f"{place}[0].content", _Calls())


def _system(data: Any, place: str) -> list[ChatMessage]:
    if isinstance(data, str):
        data = {"parts": [{"text": data}]}
    _, parts, place = _parts(data, place)
    texts = [text.text for index, part in enumerate(parts) for text in read_part(part, f"{place}[{index}]", _SYSTEM)]
    try:
        return [SystemMessage("\n\n".join(texts))] if texts else []
    except ValueError as error:
        raise InvalidMessageError(error, place) from error


class _Calls:
    """The calls of the latest answer that wait for their responses."""

    def __init__(self, requests: Sequence[ToolExecutionRequest] = ()) -> None:
        self._requests = requests
        self._taken: set[int] = set()
        # Results without an ID take the first call of the tool's name, whatever its ID.
        self._by_id: defaultdict[tuple[str | None, str | None], deque[int]] = defaultdict(deque)
        self._by_name: defaultdict[str | None, deque[int]] = defaultdict(deque)
        for index, request in enumerate(requests):
            self._by_id[request.id, request.name].append(index)
            self._by_name[request.name].append(index)

    def take(self, result: ToolExecutionResultMessage) -> tuple[int, ToolExecutionResultMessage]:
        """Take the call that a result answers.

        Returns:
            The index of the call, -1 if it has an ID or is not there; and the result with the ID of the call.
        """
        name = result.tool_name
        waiting = self._by_name[name] if result.id is None else self._by_id[result.id, name]
        while waiting:
            index = waiting.popleft()
            if index not in self._taken:
                self._taken.add(index)
                id = self._requests[index].id
                return (-1 if id else index), replace(result, id=id)
        return -1, result


def _contents(data: Iterable[Any], place: str) -> list[ChatMessage]:
    messages: list[ChatMessage] = []
    calls = _Calls()
    for index, item in enumerate(data):
        said = _content(item, f"{place}[{index}]", calls)
        messages += said
        if isinstance(said[-1], AiMessage):
            calls = _Calls(said[-1].tool_execution_requests)
    return messages


def _content(data: Any, place: str, calls: _Calls) -> list[ChatMessage]:
    role, parts, place = _parts(data, place)
    if role == "model":
        answer = read_answer(parts, place)
        if _is_written_so(lambda: answer_parts(answer), parts):
            return [answer]
        kept = {ATTRIBUTE: {"parts": parts}}
        return [AiMessage(answer.text, answer.tool_execution_requests, thinking=answer.thinking, attributes=kept)]
    if not parts:
        raise InvalidMessageError("expected at least one part, got none", place, code="empty")
    messages: list[ChatMessage] = []
    for is_response, group in groupby(enumerate(parts), lambda item: _is_response(item[1])):
        some = list(group)
        if is_response:
            found = [calls.take(read_result(part, f"{place}[{index}]")) for index, part in some]
            messages += [result for _, result in sorted(found, key=lambda item: item[0])]
        else:
            messages.append(_user([part for _, part in some], place, some[0][0]))
    return messages


def _parts(data: Any, place: str) -> tuple[str, list[Any], str]:
    """Return the role and the parts of a content, and the place of the parts."""
    fields = Fields(data, place)

    def read(fields: Fields) -> tuple[str, Any]:
        role = fields.choice("role", ("user", "model", "function", "system")) if fields.has("role") else "user"
        return role, fields.value("parts", (list, tuple), "a list of parts") if fields.has("parts") else []

    role, parts = fields.build(read)
    at = fields.at("parts")
    return role, [clean_part(part, f"{at}[{index}]") for index, part in enumerate(parts)], at


def _is_response(part: Any) -> bool:
    return isinstance(part, Mapping) and "functionResponse" in part


def _user(parts: list[Any], place: str, first: int) -> UserMessage:
    contents = read_contents(parts, place, first)
    said = [clean_said(part) for part in parts]
    same = _is_written_so(lambda: [content_part(content) for content in contents], said)
    return UserMessage(contents=contents, attributes=None if same else {ATTRIBUTE: {"parts": said}})


def _is_written_so(write: Callable[[], Any], parts: Any) -> bool:
    """Return whether writing what was read makes the parts again, so that they need not be kept."""
    try:
        return bool(write() == parts)
    except CannotExpressError:  # the name of a tool that is empty, say
        return False


def read_contents(parts: Sequence[Any], place: str = "", first: int = 0) -> list[Content]:
    """Read a user's parts, which are no responses of functions."""
    return [
        content
        for index, part in enumerate(parts, first)
        for content in read_part(part, f"{place}[{index}]", USER_PARTS)
    ]


def clean_parts(parts: Iterable[Any]) -> list[Any]:
    """Return the parts of an answer as they are kept."""
    return [clean_part(part, f"[{index}]") for index, part in enumerate(parts)]


def clean_contents(parts: Iterable[Any]) -> list[Any]:
    """Return the parts of a user or a tool as they are kept."""
    return [clean_said(part) for part in clean_parts(parts)]


def read_result(part: Any, place: str = "") -> ToolExecutionResultMessage:
    """Read the response of a function."""
    result: ToolExecutionResultMessage = read_part(part, place, USER_PARTS)
    given = part["functionResponse"]
    said = {key: value for key, value in given.items() if key not in ("id", "name")}
    if _is_written_so(lambda: function_response(result), said):
        return result
    kept = {ATTRIBUTE: {"parts": [clean_said(part)]}}
    return ToolExecutionResultMessage(
        result.id, result.tool_name, contents=result.contents, is_error=result.is_error, attributes=kept
    )


def read_answer(parts: Sequence[Any], place: str = "") -> AiMessage:
    """Read the parts of an answer, without what a message here has no place for."""
    found = [read_part(part, f"{place}[{index}]", ANSWER_PARTS) for index, part in enumerate(parts)]
    texts = [part.text for part in found if isinstance(part, TextContent)]
    thoughts = [part.text for part in found if isinstance(part, Thought)]
    return AiMessage(
        "".join(texts) if texts else None,
        [part for part in found if isinstance(part, ToolExecutionRequest)],
        thinking="".join(thoughts) if thoughts else None,
    )
