"""The writer of Gemini's contents; see :mod:`chatmemory.formats.gemini`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from chatmemory.core.arguments import tuple_of
from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.messages import (
    AiMessage,
    ChatMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.formats import CannotExpressError, UnsupportedContentError
from chatmemory.formats.gemini.part_reader import NO_SIGNATURE
from chatmemory.formats.gemini.part_writer import answer_parts, content_part, function_response
from chatmemory.formats.gemini.reader import ATTRIBUTE, read_answer, read_contents, read_result
from chatmemory.formats.plain import plain
from chatmemory.formats.rules import Names, Repair, Rules
from chatmemory.formats.validity import make_valid

__all__ = ["to_gemini"]


def to_gemini(messages: Iterable[ChatMessage], on_repair: Callable[[Repair], object] | None = None) -> dict[str, Any]:
    """``contents`` and, if there is a system message, ``system_instruction``, which the SDK takes as one of ``config``.

    Gemini accepts the result whatever the memory holds.

    Args:
        on_repair: called with each repair, in the order of the messages.

    Raises:
        UnsupportedContentError: a ``ValueError``; the format cannot express a message. Nothing is left out in silence.
        TypeError: something is no message.
    """
    given: tuple[ChatMessage, ...] = tuple_of(ChatMessage, messages, "messages")
    valid = make_valid(given, _RULES)
    system: list[dict[str, Any]] = []
    turns: list[tuple[str, list[dict[str, Any]]]] = []
    requests: Sequence[ToolExecutionRequest] = ()
    for position, message in zip(valid.positions, valid.messages, strict=True):
        if isinstance(message, SystemMessage):
            system.append({"text": message.text})
            continue
        if isinstance(message, AiMessage):
            requests = message.tool_execution_requests
        try:
            speaker, parts, requests = _parts(message, requests)
        except CannotExpressError as error:
            raise UnsupportedContentError(str(error), position, given[position]) from None
        if turns and turns[-1][0] == speaker:
            turns[-1][1].extend(parts)
        else:
            turns.append((speaker, parts))
    if on_repair is not None:
        for repair in valid.repairs:
            on_repair(repair)
    written: dict[str, Any] = {"system_instruction": {"parts": system}} if system else {}
    contents = [{"role": "model" if speaker == "model" else "user", "parts": parts} for speaker, parts in turns]
    return written | {"contents": contents}


def _parts(
    message: ChatMessage, requests: Sequence[ToolExecutionRequest]
) -> tuple[str, list[dict[str, Any]], Sequence[ToolExecutionRequest]]:
    """Who speaks, what is said, and which calls still wait for their responses."""
    match message:
        case UserMessage():
            return "user", _user_parts(message), ()
        case AiMessage():
            return "model", _signed(_answer_parts(message)), requests
        case ToolExecutionResultMessage():
            # Each answers a call, and those without an ID in order: that is what was made valid.
            request = next(request for request in requests if (request.id or None) == (message.id or None))
            id = {"id": request.id} if request.id else {}
            response = {"functionResponse": id | {"name": request.name} | _response(message)}
            return "function", [response], [other for other in requests if other is not request]
    raise CannotExpressError("Gemini has no such messages")


def _user_parts(message: UserMessage) -> list[dict[str, Any]]:
    kept = _kept(message, lambda parts: read_contents(parts) == list(message.contents))
    return _sayable([content_part(content) for content in message.contents] if kept is None else kept)


def _answer_parts(message: AiMessage) -> list[dict[str, Any]]:
    def is_same(parts: list[dict[str, Any]]) -> bool:
        answer = read_answer(parts)
        return (answer.text, answer.thinking, answer.tool_execution_requests) == (
            message.text,
            message.thinking,
            message.tool_execution_requests,
        )

    kept = _kept(message, is_same)
    parts = _sayable(answer_parts(message) if kept is None else kept)
    # Thinking alone is no answer.
    return parts if any(not part.get("thought") and part.get("text") != "" for part in parts) else []


def _response(message: ToolExecutionResultMessage) -> dict[str, Any]:
    def is_same(parts: list[dict[str, Any]]) -> bool:
        results = [read_result(part) for part in parts]
        return [(result.contents, result.is_error) for result in results] == [(message.contents, message.is_error)]

    kept = _kept(message, is_same)
    if kept is None:
        return function_response(message)
    return {key: value for key, value in kept[0]["functionResponse"].items() if key not in ("id", "name")}


def _kept(
    message: UserMessage | AiMessage | ToolExecutionResultMessage, is_same: Callable[[list[dict[str, Any]]], bool]
) -> list[dict[str, Any]] | None:
    """The parts that ``from_gemini`` kept aside. Attributes are anybody's, so nothing is taken for sure."""
    kept = message.attributes.get(ATTRIBUTE)
    parts = kept.get("parts") if isinstance(kept, Mapping) else None
    if not isinstance(parts, (list, tuple)):
        return None
    try:
        return plain(parts) if is_same(plain(parts)) else None
    except (InvalidMessageError, TypeError, KeyError):
        return None  # they are somebody else's


def _sayable(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    # Gemini refuses an empty text, unless there is a signature with it.
    return [part for part in parts if part.get("text") != "" or part.get("thoughtSignature")]


def _signed(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The parts with a signature at the first call: Gemini 3 and later refuse one without."""
    first = next((index for index, part in enumerate(parts) if "functionCall" in part), None)
    if first is not None and not parts[first].get("thoughtSignature"):
        parts[first] = parts[first] | {"thoughtSignature": NO_SIGNATURE}
    return parts


_RULES = Rules(
    ids=Names(None, 64),
    unique_ids=False,
    needs_ids=False,
    tool_names=Names(r"^[^a-zA-Z_]|[^a-zA-Z0-9_.:-]", 128),
    object_arguments=True,
    blank_texts=False,
    user_first=True,
    says_nothing=lambda message: not _answer_parts(message),
)
