"""The answer in a chat completion, also of servers that do not keep to OpenAI's API."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from chatmemory.assistant.answers import (
    as_it_came,
    broken_off,
    fields_of,
    readable,
    token_count,
    unbroken,
    understood,
    whole_answer,
)
from chatmemory.assistant.deltas import Answered, Thinking, Usage, told_by_errors
from chatmemory.assistant.errors import ModelError
from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.exceptions import gettext_noop as _
from chatmemory.core.extras import extra
from chatmemory.core.messages import AiMessage
from chatmemory.core.serialization.storable import require_json
from chatmemory.formats.openai import from_openai
from chatmemory.formats.openai.reader import ATTRIBUTE, OF_ANSWER, OF_CALL

with extra("openai"):
    import openai

__all__ = ["StreamedAnswer", "read_completion"]

_CUT_OFF = {"length": "the model's limit was reached", "content_filter": "a content filter stopped it"}
"""The finish reasons that leave an answer incomplete, in words."""

_READ = ("content", "refusal", "annotations", "audio", "reasoning_content", "reasoning")
"""The fields of an answer that are read, beside its calls."""


def read_completion(name: str, completion: Any) -> Answered:
    """Return the answer in a completion, and what it used.

    Args:
        name: the name of the model, for errors.
        completion: what the package made of the body, which it does not check.

    Raises:
        ModelError: it is no answer, or not a whole one.
    """
    usage = _usage(getattr(completion, "usage", None))
    with told_by_errors(lambda: usage), readable(name, completion):
        choices = getattr(completion, "choices", None)  # a web page comes as text
        if not choices or not isinstance(choices, list):
            raise ModelError(
                _("%(name)s did not answer with a chat completion. Check OPENAI_BASE_URL. It answered: %(answer)s"),
                name=name,
                answer=as_it_came(completion),
            )
        said = choices[0].message.model_dump(warnings=False)
        calls = [call.model_dump(warnings=False) for call in choices[0].message.tool_calls or ()]
        known = {key: said[key] for key in _READ if said.get(key)}
        answer = _answer(name, known, _others(said, OF_ANSWER), calls, choices[0].finish_reason)
        return Answered(answer, usage)


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

        self.usage: Usage | None = None
        """The tokens of the call, as far as the server has told them."""

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Raise a ``ModelError`` if the connection breaks in the ``with`` block, in which chunks are read."""
        with unbroken(self._name, _says_more), understood(self._name, openai.APIResponseValidationError):
            yield

    def take(self, chunk: Any) -> list[str | Thinking]:
        """Take in a chunk and return what it says: thinking, text, or an empty text as a sign of life.

        Raises:
            ModelError: it is no chunk of an answer.
        """
        self._has_begun = True
        thought = said = ""
        with readable(self._name, chunk):
            self.usage = _usage(getattr(chunk, "usage", None)) or self.usage
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
                    piece = delta.get(name) or ""
                    self._thinking[name] += piece
                    thought = thought or piece  # the second is the same under another name
                _merge(self._extra, _others(delta, OF_ANSWER))
        return [*([Thinking(thought)] if thought else []), *([said] if said or not thought else [])]

    def whole(self) -> Answered:
        """Return the whole answer, and what it used.

        Raises:
            ModelError: the answer is not whole.
        """
        if not self._has_begun:  # such as a web page, which the package reads as no events
            raise ModelError(
                _("%(name)s did not answer as a stream of chat completions. Check OPENAI_BASE_URL."), name=self._name
            )
        if not self._finish_reason:
            raise broken_off(self._name)
        known = {name: said for name, said in (self._text | self._thinking).items() if said}
        return Answered(_answer(self._name, known, self._extra, self._calls, self._finish_reason), self.usage)

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


def _says_more(error: Exception) -> bool:
    if isinstance(error, openai.APITimeoutError):
        return True
    return isinstance(error, openai.OpenAIError) and not isinstance(error, openai.APIConnectionError)


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


def _answer(
    name: str, said: dict[str, Any], extra: dict[str, Any], calls: list[dict[str, Any]], finish_reason: str | None
) -> AiMessage:
    if said.get("reasoning_content"):
        said.pop("reasoning", None)  # the same under another name
    with readable(name, said | {"tool_calls": calls}):
        [message] = from_openai([{"role": "assistant", **said, "tool_calls": list(map(_known_of, calls))}])
        assert isinstance(message, AiMessage)
        kept = dict(message.attributes.get(ATTRIBUTE, {}))
        if extra:
            kept["extra"] = extra
        if any(of_calls := [_others(call, OF_CALL) for call in calls]):
            kept["calls"] = of_calls
    why = _CUT_OFF.get(finish_reason) if isinstance(finish_reason, str) else None
    message = AiMessage(
        message.text,
        message.tool_execution_requests,
        thinking=message.thinking,
        attributes={ATTRIBUTE: kept} if kept else None,
    )
    return whole_answer(name, message, why)


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


def _usage(given: Any) -> Usage | None:
    """Return what a server says that a call used. Whatever is missing or no number of tokens is not known."""
    used = fields_of(given)
    of_input, of_output = fields_of(used.get("prompt_tokens_details")), fields_of(used.get("completion_tokens_details"))
    usage = Usage(
        input_tokens=token_count(used.get("prompt_tokens")),
        output_tokens=token_count(used.get("completion_tokens")),
        cached_input_tokens=token_count(of_input.get("cached_tokens")),
        reasoning_tokens=token_count(of_output.get("reasoning_tokens")),
    )
    return usage if usage != Usage() else None
