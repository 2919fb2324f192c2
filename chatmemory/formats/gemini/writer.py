"""The writer of Gemini's contents; see :mod:`chatmemory.formats.gemini`."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any, Literal

from chatmemory.core.arguments import tuple_of
from chatmemory.core.messages import (
    AiMessage,
    ChatMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.formats import CannotExpressError
from chatmemory.formats.gemini.part_writer import answer_parts, content_part, function_response
from chatmemory.formats.gemini.reader import (
    ATTRIBUTE,
    NO_SIGNATURE,
    clean_contents,
    clean_parts,
    read_answer,
    read_contents,
    read_result,
)
from chatmemory.formats.kept_parts import (
    Half,
    given_up,
    is_same_answer,
    kept_pieces,
    with_attributes,
    without_lone_halves,
    write_transcript,
)
from chatmemory.formats.rules import Names, Repair, Rules, tell
from chatmemory.formats.validity import make_valid

_HALVES: tuple[tuple[Literal["call", "result"], str, str], ...] = (
    ("call", "code", "executableCode"),
    ("result", "code", "codeExecutionResult"),
    ("call", "tool", "toolCall"),
    ("result", "tool", "toolResponse"),
)
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


def to_gemini(messages: Iterable[ChatMessage], on_repair: Callable[[Repair], object] | None = None) -> dict[str, Any]:
    """Return ``contents`` and, with a system message, ``system_instruction``, which belongs into the SDK's ``config``.

    Gemini accepts whatever is returned; a message that it has no place for is an error.

    Args:
        on_repair: called with each repair, in the order of the messages.

    Raises:
        UnsupportedContentError: a ``ValueError``; the format cannot express a message. Nothing is left out in silence.
        TypeError: something is no message.
    """
    given: tuple[ChatMessage, ...] = tuple_of(ChatMessage, messages, "messages")
    valid = make_valid(given, _RULES)
    repairs = [*valid.repairs, *given_up(given, valid, _kept_parts)]
    valid, _ = without_lone_halves(valid, _kept_parts, _half, _with_parts, repairs)
    texts, turns = write_transcript(valid, given, _Writer().speaker_and_parts)
    tell(repairs, on_repair)
    system = [{"text": text} for text in texts]
    contents = [{"role": "model" if speaker == "model" else "user", "parts": parts} for speaker, parts in turns]
    return ({"system_instruction": {"parts": system}} if system else {}) | {"contents": contents}


class _Writer:
    """A writer of one message after the other."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, deque[ToolExecutionRequest]] = defaultdict(deque)
        """The calls that still wait for their responses, by their IDs."""

    def speaker_and_parts(self, message: ChatMessage) -> tuple[str, list[dict[str, Any]]]:
        match message:
            case UserMessage():
                return "user", _user_parts(message)
            case AiMessage():
                self._waiting.clear()
                for request in message.tool_execution_requests:
                    self._waiting[request.id or ""].append(request)
                return "model", _signed(_answer_parts(message))
            case ToolExecutionResultMessage():
                # Each answers a call, and those without an ID in order: that is what was made valid.
                request = self._waiting[message.id or ""].popleft()
                id = {"id": request.id} if request.id else {}
                return "function", [{"functionResponse": id | {"name": request.name} | _response(message)}]
        raise CannotExpressError("%(api)s has no such messages", api="Gemini")


def _user_parts(message: UserMessage) -> list[dict[str, Any]]:
    def is_same(parts: list[dict[str, Any]]) -> bool:
        return read_contents(parts) == list(message.contents)

    kept = kept_pieces(message, ATTRIBUTE, "parts", clean_contents, is_same)
    return _sayable([content_part(content) for content in message.contents] if kept is None else kept)


def _kept_parts(message: AiMessage) -> list[dict[str, Any]] | None:
    """Return the parts that ``from_gemini`` kept aside; None if there are none to write."""
    return kept_pieces(
        message, ATTRIBUTE, "parts", clean_parts, lambda parts: is_same_answer(read_answer(parts), message)
    )


def _half(part: dict[str, Any]) -> Half:
    """Return what a part is in the run of a tool at Gemini."""
    for kind, tool, key in _HALVES:
        if key in part:
            return Half(kind, (tool, str(part[key].get("id"))))
    return Half()


def _with_parts(message: AiMessage, parts: list[dict[str, Any]]) -> AiMessage | None:
    """Return an answer with other parts, which say the same; None if Gemini would get none of them."""
    rest = with_attributes(message, {**message.attributes, ATTRIBUTE: {"parts": parts}})
    return rest if _answer_parts(rest) else None


def _answer_parts(message: AiMessage) -> list[dict[str, Any]]:
    kept = _kept_parts(message)
    parts = _sayable(answer_parts(message) if kept is None else kept)
    # Thinking alone is no answer.
    return parts if any(not part.get("thought") and part.get("text") != "" for part in parts) else []


def _response(message: ToolExecutionResultMessage) -> dict[str, Any]:
    def is_same(parts: list[dict[str, Any]]) -> bool:
        results = [read_result(part) for part in parts]
        return [(result.contents, result.is_error) for result in results] == [(message.contents, message.is_error)]

    kept = kept_pieces(message, ATTRIBUTE, "parts", clean_contents, is_same)
    if kept is None:
        return function_response(message)
    return {key: value for key, value in kept[0]["functionResponse"].items() if key not in ("id", "name")}


def _sayable(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    # Gemini refuses an empty text, unless there is a signature with it.
    return [part for part in parts if part.get("text") != "" or part.get("thoughtSignature")]


def _signed(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the parts with a signature at the first call: Gemini 3 and later refuse one without."""
    first = next((index for index, part in enumerate(parts) if "functionCall" in part), None)
    if first is not None and not parts[first].get("thoughtSignature"):
        parts[first] = parts[first] | {"thoughtSignature": NO_SIGNATURE}
    return parts
