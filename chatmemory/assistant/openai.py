"""A model behind OpenAI's chat completions, through the ``openai`` package (extra ``openai``).

Many servers speak this API, and few keep to it, so nothing in an answer is taken for granted.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chatmemory.assistant.model import Thinking
from chatmemory.assistant.provider import Answer, Messages, ProviderChatModel, Tools, described
from chatmemory.core.exceptions import extra
from chatmemory.core.exceptions import gettext_noop as _
from chatmemory.core.json_text import MAX_NESTING, is_storable, with_replacements
from chatmemory.core.messages import AiMessage
from chatmemory.core.usage import Usage
from chatmemory.formats.kept_parts import with_attributes
from chatmemory.formats.openai import ATTRIBUTE, OF_ANSWER, OF_CALL, from_openai, to_openai
from chatmemory.formats.usage import from_openai as usage_from_openai

with extra("openai"):
    import openai
    from openai import AsyncOpenAI, OpenAI

_REFUSING = (".openai.com", ".azure.com")
"""The ends of the names of hosts that refuse the fields of other servers."""

_USAGE = "stream_options"

_TEXTS = ("content", "refusal")
_THINKING = ("reasoning_content", "reasoning")
"""The second is the same under another name."""

_READ = (*_TEXTS, *_THINKING, "annotations", "audio")
"""The fields of an answer that are read, beside its calls."""

_logger = logging.getLogger("chatmemory.assistant")


@dataclass(eq=False)
class _Answer(Answer):
    passed_on = openai.OpenAIError
    connection_broke = openai.APIConnectionError
    invalid = openai.APIResponseValidationError
    cut_off = {"length": "the model's limit was reached", "content_filter": "a content filter stopped it"}
    no_stream = _("%(name)s did not answer as a stream of chat completions. Check OPENAI_BASE_URL.")

    tier: Any = None
    said: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    calls: list[dict[str, Any]] = field(default_factory=list)
    calls_by_index: dict[int | None, dict[str, Any]] = field(default_factory=dict)

    def read(self, response: Any) -> None:
        self._use(getattr(response, "usage", None), response)
        self.tier = getattr(response, "service_tier", None)
        choices = getattr(response, "choices", None)  # a web page comes as text
        if not choices or not isinstance(choices, list):
            template = _(
                "%(name)s did not answer with a chat completion. Check OPENAI_BASE_URL. It answered: %(answer)s"
            )
            raise self._error(template, answer=response)
        with self._readable(response):
            said = choices[0].message.model_dump(warnings=False)
            self.said = {key: said[key] for key in _READ if said.get(key)}
            self.extra = _others(said, OF_ANSWER)
            self.calls = [call.model_dump(warnings=False) for call in choices[0].message.tool_calls or ()]
            self.stop_reason = choices[0].finish_reason

    def take(self, piece: Any) -> list[str | Thinking]:
        self.has_begun = True
        with self._readable(piece):
            self._use(getattr(piece, "usage", None), piece)
            self.tier = getattr(piece, "service_tier", None) or self.tier
            delta: dict[str, Any] = {}
            for choice in (piece.choices or [])[:1]:  # the last one may have none, but the usage
                self.stop_reason = choice.finish_reason or self.stop_reason
                delta = {} if choice.delta is None else choice.delta.model_dump(warnings=False)
            for call in delta.get("tool_calls") or ():
                self._add(call)
            for key in (*_TEXTS, *_THINKING):
                if said := delta.get(key):
                    self.said[key] = self.said.get(key, "") + said
            _merge(self.extra, _others(delta, OF_ANSWER))
            text = "".join(delta.get(key) or "" for key in _TEXTS)
            thought = next((thought for key in _THINKING if (thought := delta.get(key))), "")
        return [*([Thinking(thought)] if thought else []), *([text] if text or not thought else [])]

    def _add(self, piece: dict[str, Any]) -> None:
        function = piece.get("function") or {}
        id, name, arguments = piece.get("id") or "", function.get("name") or "", function.get("arguments") or ""
        call = self.calls_by_index.get(piece.get("index"))
        if call is None or (name and _is_other(call, id, name, arguments)):
            call = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
            self.calls_by_index[piece.get("index")] = call
            self.calls.append(call)
        call["id"] = call["id"] or id
        if name != call["function"]["name"]:  # some servers repeat it, and some send it in pieces
            call["function"]["name"] += name
        call["function"]["arguments"] += arguments
        _merge(call, _others(piece, OF_CALL))

    def _message(self) -> AiMessage:
        said = dict(self.said)
        if said.get("reasoning_content"):
            said.pop("reasoning", None)
        with self._readable(said | {"tool_calls": self.calls}):
            calls = list(map(_known_of, self.calls))
            [message] = from_openai(with_replacements([{"role": "assistant", **said, "tool_calls": calls}]))
            assert isinstance(message, AiMessage)
            kept = dict(message.attributes.get(ATTRIBUTE, {}))
            if self.extra:
                kept["extra"] = self.extra
            if any(of_calls := [_others(call, OF_CALL) for call in self.calls]):
                kept["calls"] = of_calls
        return with_attributes(message, {ATTRIBUTE: kept} if kept else {})

    def _usage(self) -> Usage:
        return usage_from_openai(self.used, tier=self.tier) if self.used else Usage()


class OpenAiChatModel(ProviderChatModel):
    """A model that gets the memory as ``to_openai`` writes and repairs it.

    Streams ask for the usage, too. A server that refuses ``stream_options`` is asked again, and from then on, without.
    """

    answer_class = _Answer
    client_class = OpenAI
    async_client_class = AsyncOpenAI
    keys = ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY")

    def __init__(
        self,
        model: str,
        *,
        client: OpenAI | None = None,
        async_client: AsyncOpenAI | None = None,
        thinking_as: str | None = None,
        extras: bool | None = None,
        **options: Any,
    ) -> None:
        """
        Args:
            model: its name.
            client: by default ``OpenAI()``, which reads ``OPENAI_BASE_URL`` and ``OPENAI_API_KEY``.
            async_client: the same for async code, ``AsyncOpenAI()``; see ``ProviderChatModel``.
            thinking_as: the field that the model wants its thinking back in, ``"reasoning_content"`` for DeepSeek; by
                default it is left out.
            extras: whether to send back the fields that a server put on its answers and calls beside those of OpenAI's
                API, as Gemini demands; by default to every server but OpenAI's own, which refuse them.
            options: further arguments of ``chat.completions.create()``, such as ``temperature=0``.
        """
        super().__init__(model, client, async_client, options)
        self._thinking_as = thinking_as
        self._extras = extras
        self._asks_for_usage = True

    def _request(self, client: Any, messages: Messages, tools: Tools) -> dict[str, Any]:
        extras = not client.base_url.host.endswith(_REFUSING) if self._extras is None else self._extras
        request = {
            "model": self.name,
            "messages": to_openai(messages, thinking_as=self._thinking_as, extras=extras),
            **self._options,
        }
        if tools:  # OpenAI refuses an empty list
            request["tools"] = [{"type": "function", "function": one} for one in described(tools, "parameters")]
        return request

    def _send(self, client: Any, request: dict[str, Any], *, streams: bool = False) -> Any:
        create = client.chat.completions.create
        if not streams:
            return create(**request)
        try:
            return create(**self._streaming(request))
        except openai.APIStatusError as error:
            if not self._refuses_usage(error, request):
                raise
            return create(**self._streaming(request))

    async def _asend(self, client: Any, request: dict[str, Any], *, streams: bool = False) -> Any:
        try:
            return await super()._asend(client, request, streams=streams)
        except openai.APIStatusError as error:
            if not (streams and self._refuses_usage(error, request)):
                raise
            return await super()._asend(client, request, streams=streams)

    def _streaming(self, request: dict[str, Any]) -> dict[str, Any]:
        usage = {_USAGE: {"include_usage": True}} if self._asks_for_usage else {}
        return {**usage, **request, "stream": True}

    def _refuses_usage(self, error: openai.APIStatusError, request: dict[str, Any]) -> bool:
        """Return whether the server refused only to tell the usage of a stream; if so, do not ask for that any more."""
        if _USAGE in request or error.status_code not in (400, 422) or _USAGE not in str(error):
            return False
        _logger.info("%s does not tell what a stream used: %s", self.name, error)
        self._asks_for_usage = False
        return True


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
    """Return the fields whose meaning is not known, and that an attribute can hold."""
    return {key: value for key, value in said.items() if key not in known and value is not None and _is_kept(value)}


def _is_kept(value: Any) -> bool:
    return is_storable(with_replacements(value), MAX_NESTING - 5)


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
