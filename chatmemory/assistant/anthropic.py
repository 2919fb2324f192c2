"""A model behind Anthropic's Messages, through the ``anthropic`` package (extra ``anthropic``).

Servers that do not keep to Anthropic's API are understood as far as possible, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from chatmemory.assistant.model import Answered, Thinking
from chatmemory.assistant.provider import Answer, Messages, ProviderChatModel, Tools, described
from chatmemory.core.exceptions import extra
from chatmemory.core.exceptions import gettext_noop as _
from chatmemory.core.json_text import is_replaced, with_replacements
from chatmemory.core.kept import REDACTED_THINKING, THINKING_SIGNATURE
from chatmemory.core.messages import AiMessage, UserMessage
from chatmemory.core.usage import Usage
from chatmemory.formats.anthropic import from_anthropic, write_request
from chatmemory.formats.anthropic_cache import Cache, check_cache, mark_request
from chatmemory.formats.kept_parts import with_attributes
from chatmemory.formats.thinking import bound, fresh_answers
from chatmemory.formats.usage import fields_of
from chatmemory.formats.usage import from_anthropic as usage_from_anthropic
from chatmemory.formats.validity import arguments_object

with extra("anthropic"):
    import anthropic
    from anthropic import Anthropic, AsyncAnthropic, default_credentials

_PREFIX = "anthropic_prefix"
"""The attribute of an answer with the digest of what stood before it."""

_CONTAINER = "anthropic_container"
"""The attribute of an answer with calls that names the container in which its code waits for their results."""

_PAUSED = "pause_turn"
_MOST_PAUSES = 10

_GROWS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "compaction_delta": "content",
}
"""The fields of blocks that come in pieces, by the types of the pieces."""


@dataclass(eq=False)
class _Answer(Answer):
    """An answer in one message, or in several if it paused."""

    passed_on = anthropic.AnthropicError
    connection_broke = anthropic.APIConnectionError
    invalid = anthropic.APIResponseValidationError
    cut_off = {
        "max_tokens": "the model's limit was reached",
        "model_context_window_exceeded": "the model's context was full",
        "refusal": "the model refused",
        _PAUSED: "the model paused",
    }
    no_stream = _("%(name)s did not answer as a stream of messages. Check ANTHROPIC_BASE_URL.")

    blocks: list[dict[str, Any]] = field(default_factory=list)
    broken: dict[int, str] = field(default_factory=dict)
    """Arguments of calls that are no JSON objects, by the indexes of their blocks."""

    coming: dict[int, dict[str, Any]] = field(default_factory=dict)
    """The blocks of the message that comes now, by their indexes in it."""

    inputs: dict[int, str] = field(default_factory=dict)
    """Their arguments, as far as they have come."""

    used_before: Usage = field(default_factory=Usage)
    """The tokens of the messages before this one."""

    container: str | None = None

    def requests(self) -> Iterator[dict[str, Any]]:
        yield self.request
        for pauses in count():
            if self.stop_reason != _PAUSED or not self.blocks:
                return
            if pauses == _MOST_PAUSES:
                template = _("%(name)s paused more than %(count)s times, and did not finish its answer.")
                raise self._error(template, count=_MOST_PAUSES)
            self.stop_reason = None
            self.used_before, self.used = self._usage(), {}
            # As it came, and at the end: the API continues a message that it made itself.
            so_far = {"role": "assistant", "content": self.blocks}
            request = _in_container(self.request, self.container)
            yield {**request, "messages": [*self.request["messages"], so_far]}

    def read(self, response: Any) -> None:
        self._use(getattr(response, "usage", None), response)
        content = getattr(response, "content", None)  # a web page comes as text
        if not isinstance(content, list):
            template = _("%(name)s did not answer with a message. Check ANTHROPIC_BASE_URL. It answered: %(answer)s")
            raise self._error(template, answer=response)
        with self._readable(response):
            self.blocks += [_storable(_block(block)) for block in content]
            self.stop_reason = getattr(response, "stop_reason", None)
            self._run_in(getattr(response, "container", None))

    @contextmanager
    def watched(self) -> Iterator[None]:
        with super().watched():
            yield
        self._end_message()

    def take(self, piece: Any) -> list[str | Thinking]:
        self.has_begun = True
        with self._readable(piece):
            match piece.type:
                case "message_start":
                    self._use(getattr(piece.message, "usage", None), piece.message)
                    self._run_in(getattr(piece.message, "container", None))
                case "content_block_start":
                    self.coming[piece.index] = block = _block(piece.content_block)
                    return [_said(block.get("type"), block)]
                case "content_block_delta":
                    return [self._grow(piece.index, fields_of(piece.delta))]
                case "message_delta":
                    self._use(getattr(piece, "usage", None), None)
                    self._run_in(getattr(piece.delta, "container", None))
                    self.stop_reason = piece.delta.stop_reason or self.stop_reason
        return [""]

    def _end_message(self) -> None:
        for index in sorted(self.coming):
            if (text := with_replacements(self.inputs.get(index, ""))).strip():
                if (arguments := arguments_object(text)) is None:
                    self.broken[len(self.blocks)] = text
                else:
                    self.coming[index]["input"] = arguments
            self.blocks.append(_storable(self.coming[index]))
        self.coming, self.inputs = {}, {}

    def _grow(self, index: int, delta: Mapping[str, Any]) -> str | Thinking:
        block, kind = self.coming[index], delta["type"]
        if kind == "input_json_delta":
            self.inputs[index] = self.inputs.get(index, "") + delta["partial_json"]
        elif kind == "citations_delta":
            block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
        elif (key := _GROWS.get(kind)) is not None:
            piece = delta.get(key) or ""
            block[key] = (block.get(key) or "") + piece
            return _said(block.get("type"), {key: piece})
        return ""

    def whole(self) -> Answered:
        answered = super().whole()
        message = answered.message
        if not message.attributes.keys() & {THINKING_SIGNATURE, REDACTED_THINKING}:
            return answered
        return replace(answered, message=bound(message, _PREFIX, self.messages, self.request.get("tools")))

    def _message(self) -> AiMessage:
        with self._readable(self.blocks):
            [message] = from_anthropic([{"role": "assistant", "content": self.blocks}])
            assert isinstance(message, AiMessage)
            if self.broken:
                message = _with_arguments(message, self.blocks, self.broken)
        if self.container is not None and message.tool_execution_requests:
            message = with_attributes(message, {**message.attributes, _CONTAINER: self.container})
        return message

    def _usage(self) -> Usage:
        return self.used_before + usage_from_anthropic(self.used)

    def _run_in(self, container: Any) -> None:
        if isinstance(id := getattr(container, "id", None), str):
            self.container = id


class AnthropicChatModel(ProviderChatModel):
    """A model that gets the memory as ``to_anthropic`` writes and repairs it.

    Signed thinking is kept beside the answer, and sent back as long as nothing before it has changed, or its turn is
    under way. An answer that Anthropic pauses is continued, ten times at most, and is one answer with the usage of all
    requests. After that it is a ``ModelError``.
    """

    answer_class = _Answer
    client_class = Anthropic
    async_client_class = AsyncAnthropic
    keys = ("ANTHROPIC_API_KEY", "ANTHROPIC_CUSTOM_HEADERS")

    def __init__(
        self,
        model: str,
        *,
        client: Anthropic | None = None,
        async_client: AsyncAnthropic | None = None,
        max_tokens: int = 8192,
        cache: Cache = False,
        **options: Any,
    ) -> None:
        """
        Args:
            model: its name.
            client: by default ``Anthropic()``, which reads ``ANTHROPIC_BASE_URL`` and ``ANTHROPIC_API_KEY``.
            async_client: the same for async code, ``AsyncAnthropic()``; see ``ProviderChatModel``.
            max_tokens: the tokens that an answer may have, its thinking included; Anthropic demands a limit. For more
                than about 21,000 the package wants a stream.
            cache: whether Anthropic caches requests, which it does not do by default: True or ``"5m"``, or ``"1h"``
                for what every request of a conversation begins with. See ``chatmemory.formats.anthropic_cache``.
            options: further arguments of ``messages.create()``, such as ``thinking={"type": "adaptive"}``. Tools of
                Anthropic's own in ``tools`` stand before the assistant's.

        Raises:
            ValueError: ``cache`` is something else.
        """
        super().__init__(model, client, async_client, {"max_tokens": max_tokens, **options})
        self._cache = check_cache(cache)

    def missing_key(self) -> str:
        key = super().missing_key()
        return key if key and not _has_other_credentials() else ""

    def _request(self, client: Any, messages: Messages, tools: Tools) -> dict[str, Any]:
        offered = [*self._options.get("tools", ()), *described(tools, "input_schema")]
        request = {"model": self.name, **self._options} | ({"tools": offered} if offered else {})
        request = _in_container(request, _open_container(messages))
        fresh = fresh_answers(messages, _PREFIX, request.get("tools"))
        return request | write_request(messages, thinking=fresh, cache=self._cache)

    def _send(self, client: Any, request: dict[str, Any], *, streams: bool = False) -> Any:
        return client.messages.create(**mark_request(request, self._cache), **({"stream": True} if streams else {}))


def _open_container(messages: Messages) -> str | None:
    """Return the ID of the container in which tools of the turn under way ran; None if there is none."""
    for message in reversed(messages):
        if isinstance(message, UserMessage):
            break
        if isinstance(message, AiMessage) and isinstance(id := message.attributes.get(_CONTAINER), str):
            return id
    return None


def _in_container(request: Mapping[str, Any], id: str | None) -> dict[str, Any]:
    """Return a request in the container with an ID, if there is one, and the request does not name another itself."""
    given = request.get("container")
    if id is None or isinstance(given, str) or (given and given.get("id")):
        return {**request}
    return {**request, "container": id if given is None else {**given, "id": id}}


def _said(kind: Any, block: Mapping[str, Any]) -> str | Thinking:
    if kind == "thinking" and (thought := block.get("thinking")):
        return Thinking(thought)
    return (block.get("text") or "") if kind == "text" else ""


def _block(given: Any) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        given = given.model_dump(mode="json", warnings=False, by_alias=True, exclude_unset=True)
    block = dict(given)
    if block.get("type") == "thinking" and block.get("signature") is None:
        block["signature"] = ""  # some servers sign nothing
    if block.get("type") == "tool_use" and block.get("input") is None:
        block["input"] = {}
    return block


def _storable(block: dict[str, Any]) -> dict[str, Any]:
    """Return a block with texts that databases can store, and no signature if that changes what it signs."""
    storable = with_replacements(block)
    if storable.get("type") == "thinking" and is_replaced(str(block.get("thinking")), str(storable.get("thinking"))):
        storable["signature"] = ""
    return storable


def _with_arguments(message: AiMessage, blocks: Sequence[Mapping[str, Any]], broken: Mapping[int, str]) -> AiMessage:
    """Return an answer whose calls have the arguments that came, though they are no JSON: the model is told so."""
    calls = [index for index, block in enumerate(blocks) if block["type"] == "tool_use"]
    requests = [
        replace(request, arguments=broken.get(index, request.arguments))
        for index, request in zip(calls, message.tool_execution_requests, strict=True)
    ]
    return replace(message, tool_execution_requests=tuple(requests))


def _has_other_credentials() -> bool:
    """Return whether a client finds a token, an identity or the profile of a user who has signed in."""
    try:
        return default_credentials() is not None
    except anthropic.AnthropicError:
        return True  # it is named, and a client says what is wrong with it
