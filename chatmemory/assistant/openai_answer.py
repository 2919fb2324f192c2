"""The answer in a chat completion, also of servers that do not keep to OpenAI's API."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from chatmemory.assistant.errors import ModelError
from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.extras import extra
from chatmemory.core.messages import AiMessage
from chatmemory.core.serialization.storable import require_json
from chatmemory.formats.openai import from_openai
from chatmemory.formats.openai.reader import ATTRIBUTE, OF_ANSWER, OF_CALL

with extra("openai"):
    import openai

__all__ = ["StreamedAnswer", "read_completion", "understood"]

_CUT_OFF = {"length": "the model's limit was reached", "content_filter": "a content filter stopped it"}
"""The finish reasons that leave an answer incomplete, in words."""

_READ = ("content", "refusal", "annotations", "audio", "reasoning_content", "reasoning")
"""The fields of an answer that are read, beside its calls."""

_MOST_SHOWN = 300

_logger = logging.getLogger("chatmemory.assistant")


def _as_it_came(answer: Any) -> str:
    """Return the beginning of what a server answered, in its own words."""
    if hasattr(answer, "model_dump"):
        answer = answer.model_dump(exclude_none=True, warnings=False)
    text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False, default=str)
    text = " ".join(text.split())
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


@contextmanager
def understood(name: str) -> Iterator[None]:
    """Raise a ``ModelError`` for an answer in the ``with`` block that is not what its header says it is."""
    try:
        yield
    except openai.APIResponseValidationError as error:
        raise ModelError(f"{name} did not answer as its header says, but: {_as_it_came(error.body)}") from error
    except json.JSONDecodeError as error:
        raise ModelError(f"{name} answered with broken JSON: {_as_it_came(error.doc)}") from error
    except UnicodeDecodeError as error:
        raise ModelError(f"{name} answered with text that is not {error.encoding}: {error.object[:60]!r}") from error


def read_completion(name: str, completion: Any) -> AiMessage:
    """Return the answer in a completion.

    Args:
        name: the name of the model, for errors.
        completion: what the package made of the body, which it does not check.

    Raises:
        ModelError: it is no answer, or not a whole one.
    """
    choices = getattr(completion, "choices", None)  # a web page comes as text
    if not choices or not isinstance(choices, list):
        raise ModelError(
            f"{name} did not answer with a chat completion. Check OPENAI_BASE_URL. It answered: "
            f"{_as_it_came(completion)}"
        )
    with _readable(name, completion):
        said = choices[0].message.model_dump(warnings=False)
        calls = [call.model_dump(warnings=False) for call in choices[0].message.tool_calls or ()]
        known = {key: said[key] for key in _READ if said.get(key)}
        return _answer(name, known, _others(said, OF_ANSWER), calls, choices[0].finish_reason)


class StreamedAnswer:
    """An answer that comes in pieces."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._text = {"content": "", "refusal": ""}
        self._thinking = {"reasoning_content": "", "reasoning": ""}
        self._extra: dict[str, Any] = {}
        self._calls: list[dict[str, Any]] = []
        self._calls_by_index: dict[int | None, dict[str, Any]] = {}
        self._has_begun = False
        self._finish_reason: str | None = None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Raise a ``ModelError`` if the connection breaks in the ``with`` block, in which chunks are read."""
        try:
            with understood(self._name):
                yield
        except (ModelError, openai.APITimeoutError):
            raise
        except Exception as error:
            # Some versions of the package let through exceptions of their HTTP library.
            if isinstance(error, openai.OpenAIError) and not isinstance(error, openai.APIConnectionError):
                raise
            _logger.warning("The stream of %s broke off", self._name, exc_info=True)
            raise self._broken_off() from error

    def take(self, chunk: Any) -> str:
        """Take in a chunk and return its text.

        Raises:
            ModelError: it is no chunk of an answer.
        """
        self._has_begun = True
        said = ""
        with _readable(self._name, chunk):
            for choice in (chunk.choices or [])[:1]:  # the last chunk may have none, but the usage
                self._finish_reason = choice.finish_reason or self._finish_reason
                delta = {} if choice.delta is None else choice.delta.model_dump(warnings=False)
                for piece in delta.get("tool_calls") or ():
                    self._add(piece)
                for name in self._text:
                    piece = delta.get(name) or ""
                    self._text[name] += piece
                    said += piece
                for name in self._thinking:
                    self._thinking[name] += delta.get(name) or ""
                _merge(self._extra, _others(delta, OF_ANSWER))
        return said

    def whole(self) -> AiMessage:
        """Return the whole answer.

        Raises:
            ModelError: the answer is not whole.
        """
        if not self._has_begun:  # such as a web page, which the package reads as no events
            raise ModelError(f"{self._name} did not answer as a stream of chat completions. Check OPENAI_BASE_URL.")
        if not self._finish_reason:
            raise self._broken_off()
        known = {name: said for name, said in (self._text | self._thinking).items() if said}
        return _answer(self._name, known, self._extra, self._calls, self._finish_reason)

    def _add(self, piece: dict[str, Any]) -> None:
        function = piece.get("function") or {}
        id, name, arguments = piece.get("id") or "", function.get("name") or "", function.get("arguments") or ""
        call = self._calls_by_index.get(piece.get("index"))
        if call is None or (name and _is_other(call, id, name, arguments)):
            call = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
            self._calls_by_index[piece.get("index")] = call
            self._calls.append(call)
        call["id"] = call["id"] or id
        if name != call["function"]["name"]:  # some servers repeat it, and some send it in pieces
            call["function"]["name"] += name
        call["function"]["arguments"] += arguments
        _merge(call, _others(piece, OF_CALL))

    def _broken_off(self) -> ModelError:
        return ModelError(f"{self._name} broke off in the middle of its answer.")


def _is_other(call: dict[str, Any], id: str, name: str, arguments: str) -> bool:
    """Return whether a piece that names a tool begins another call than the one at its index.

    Gemini sends one index for all calls, and Ollama no IDs. A new ID alone is not enough: some servers send one with
    each piece. Nor is a name, which some repeat with each piece.
    """
    if call["id"]:
        return bool(id and id != call["id"])
    before = call["function"]
    if not before["name"]:
        return False
    is_complete = _is_json(before["arguments"]) or not (before["arguments"] or arguments)
    return is_complete or bool(name != before["name"])


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _merge(into: dict[str, Any], others: Mapping[str, Any]) -> None:
    """Add what came with another piece: lists grow, objects are filled, and of anything else the last one counts."""
    for key, value in others.items():
        there = into.get(key)
        if isinstance(there, dict) and isinstance(value, Mapping):
            _merge(there, value)
        elif isinstance(there, list) and isinstance(value, list):
            there.extend(value)
        else:
            into[key] = value


def _others(said: Mapping[str, Any], known: Sequence[str]) -> dict[str, Any]:
    """Return the fields whose meaning is not known, and that a database can hold."""
    return {key: value for key, value in said.items() if key not in known and value is not None and _is_kept(value)}


def _is_kept(value: Any) -> bool:
    try:
        require_json(value, "", 5)
    except InvalidMessageError:
        return False
    return True


@contextmanager
def _readable(name: str, answer: Any) -> Iterator[None]:
    try:
        yield
    except ModelError:
        raise
    except InvalidMessageError as error:
        raise ModelError(f"{name} gave an answer that cannot be kept: {error}") from error
    except Exception as error:  # the package checks no types
        raise ModelError(f"{name} gave an answer that cannot be understood: {_as_it_came(answer)}") from error


def _answer(
    name: str, said: dict[str, Any], extra: dict[str, Any], calls: list[dict[str, Any]], finish_reason: str | None
) -> AiMessage:
    if said.get("reasoning_content"):
        said.pop("reasoning", None)  # the same under another name
    with _readable(name, said | {"tool_calls": calls}):
        [message] = from_openai([{"role": "assistant", **said, "tool_calls": list(map(_known_of, calls))}])
        assert isinstance(message, AiMessage)
        kept = dict(message.attributes.get(ATTRIBUTE, {}))
        if extra:
            kept["extra"] = extra
        if any(of_calls := [_others(call, OF_CALL) for call in calls]):
            kept["calls"] = of_calls
    why = _CUT_OFF.get(finish_reason) if isinstance(finish_reason, str) else None
    if message.tool_execution_requests and why:
        raise ModelError(f"The tool calls of {name} were cut off: {why}.")
    if not (message.text or message.tool_execution_requests):
        raise ModelError(f"{name} returned an empty answer{f': {why}' if why else ''}.")
    # Beside the text, which stays what the model said.
    attributes = ({ATTRIBUTE: kept} if kept else {}) | ({"cut_off": why} if why else {})
    return AiMessage(
        message.text, message.tool_execution_requests, thinking=message.thinking, attributes=attributes or None
    )


def _known_of(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call as OpenAI has it. Some servers send no ID, or no arguments where a tool has no parameters."""
    known = {"id": call.get("id") or "", "type": call.get("type") or "function"}
    function = call.get("function")
    if isinstance(function, Mapping):
        arguments = function.get("arguments")
        if isinstance(arguments, Mapping):  # parsed already
            arguments = json.dumps(arguments, ensure_ascii=False)
        known["function"] = {"name": function.get("name"), "arguments": arguments or "{}"}
    return known
