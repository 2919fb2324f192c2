"""A memory as requests of Pydantic AI, whose mapping to providers keeps few of their rules.

So the memory is made valid here, by what the strictest of them demand. Thinking is sent only as the response that it
came in, kept beside the answer: Pydantic AI would write what has no signature as text of the answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from pydantic import ValidationError
from pydantic_ai.messages import (
    FileUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    ThinkingPart,
)

from chatmemory.core.contents import TextContent
from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.messages import AiMessage, ChatMessage, CustomMessage
from chatmemory.formats import CannotExpressError, naming_message
from chatmemory.formats.kept_parts import is_same_answer, with_attributes
from chatmemory.formats.pydantic_ai.parts import answer, item_of, model_message
from chatmemory.formats.rules import Names, Repair, Rules
from chatmemory.formats.thinking import Thinking, bound, without_stale_thinking
from chatmemory.formats.validity import make_valid

__all__ = ["PREFIX", "kept_beside", "to_pydantic_ai"]

RESPONSE = "pydantic_ai_response"
"""The attribute of an answer with the response that it came in, if messages cannot express that."""

PREFIX = "pydantic_ai_prefix"
"""The attribute with the digest of what stood before it."""

_NO_TIME = datetime.fromtimestamp(0, UTC)  # it is not sent
_RULES = Rules(
    ids=Names(r"[^a-zA-Z0-9_-]", 40),
    unique_ids=True,
    tool_names=Names(r"[^a-zA-Z0-9_-]", 64),
    object_arguments=True,
    blank_texts=False,
    text_errors=True,
    user_first=True,
    says_nothing=lambda message: not (message.text or "").strip() and _kept(message) is None,
)


def to_pydantic_ai(
    messages: Sequence[ChatMessage], provider: str, *, thinking: Thinking, file_urls: bool
) -> list[ModelMessage]:
    """Return requests and responses in turn.

    Args:
        messages: the memory.
        provider: the provider; what was kept of another one is not sent.
        thinking: the answers whose thinking may be sent.
        file_urls: whether files may be sent by their URLs.

    Raises:
        UnsupportedContentError: a ``ValueError``; a custom message, or a file by its URL.
    """
    repairs: list[Repair] = []
    valid = make_valid(messages, _RULES)
    valid = without_stale_thinking(valid, messages, thinking, _without_thinking, repairs)
    written: list[ModelMessage] = []
    for position, message in zip(valid.positions, valid.messages, strict=True):
        with naming_message(messages, position):
            made = _response(message, provider) if isinstance(message, AiMessage) else _request(message, file_urls)
        before = written[-1] if written else None
        if isinstance(made, ModelRequest) and isinstance(before, ModelRequest):
            written[-1] = replace(before, parts=[*before.parts, *made.parts])
        elif isinstance(made, ModelResponse) and isinstance(before, ModelResponse):
            thoughts = [part for part in made.parts if isinstance(part, ThinkingPart)]
            others = [part for part in made.parts if not isinstance(part, ThinkingPart)]
            first = thoughts if not any(isinstance(part, ThinkingPart) for part in before.parts) else []
            written[-1] = replace(before, parts=[*first, *before.parts, *others])
        else:
            written.append(made)
    return list(map(_with_short_ids, written)) if provider == "mistral" else written


def _with_short_ids(message: Any) -> Any:
    """Return a message whose calls have IDs of nine letters and digits, which Mistral demands."""
    parts = []
    for part in message.parts:
        id = getattr(part, "tool_call_id", None)
        if id is not None and not re.fullmatch("[a-zA-Z0-9]{9}", id):
            part = replace(part, tool_call_id=sha256(id.encode()).hexdigest()[:9])
        parts.append(part)
    return replace(message, parts=parts)


def kept_beside(message: AiMessage, response: ModelResponse, messages: Sequence[ChatMessage], tools: Any) -> AiMessage:
    """Return an answer that keeps its response, if this has more than text, plain thinking and calls.

    Args:
        message: the answer, made of the response.
        response: the response.
        messages: those that it answers.
        tools: the tools of the request, as JSON has them.
    """
    [plain] = json.loads(ModelMessagesTypeAdapter.dump_json([response]))
    if not any(_has_more(part) for part in plain["parts"]):
        return message
    kept = {"provider_name": response.provider_name, "parts": plain["parts"]}
    return bound(with_attributes(message, {**message.attributes, RESPONSE: kept}), PREFIX, messages, tools)


def _has_more(part: Mapping[str, Any]) -> bool:
    known = part["part_kind"] in ("text", "thinking", "tool-call")
    return bool(not known or part.get("signature") or part.get("provider_details"))


def _kept(message: AiMessage) -> ModelResponse | None:
    """Return the response that was kept beside an answer, as long as it says what the answer says."""
    kept = message.attributes.get(RESPONSE)
    if not isinstance(kept, Mapping):
        return None
    data = {"kind": "response", "provider_name": kept.get("provider_name"), "parts": kept.get("parts")}
    try:
        [response] = ModelMessagesTypeAdapter.validate_json(json.dumps([data], default=dict))
        is_same = isinstance(response, ModelResponse) and is_same_answer(answer(response), message)
    except (ValidationError, InvalidMessageError, TypeError):
        return None  # anybody may write attributes
    return response if is_same and isinstance(response, ModelResponse) else None


def _without_thinking(message: AiMessage) -> AiMessage | None:
    kept = _kept(message)
    if kept is None or not any(isinstance(part, ThinkingPart) for part in kept.parts):
        return None
    parts = [part for part in message.attributes[RESPONSE]["parts"] if part["part_kind"] != "thinking"]
    rest = {**message.attributes, RESPONSE: {**message.attributes[RESPONSE], "parts": parts}}
    return AiMessage(message.text, message.tool_execution_requests, attributes=rest)


def _response(message: AiMessage, provider: str) -> ModelMessage:
    kept = _kept(message)
    if kept is not None and kept.provider_name == provider:
        return kept
    return model_message(replace(message, thinking=None), _NO_TIME)


def _request(message: ChatMessage, file_urls: bool) -> ModelMessage:
    if isinstance(message, CustomMessage):
        raise CannotExpressError("%(api)s has no such messages", api="Pydantic AI")
    for content in getattr(message, "contents", ()):
        item = item_of(content)
        if isinstance(item, str) and not isinstance(content, TextContent):
            raise CannotExpressError("%(api)s needs the data of a file in Base64, or its URL", api="Pydantic AI")
        if isinstance(item, FileUrl) and not file_urls:
            raise CannotExpressError(
                "%(api)s may download the URL of a file in this process; give the file's data, or allow it by "
                "PydanticAiChatModel(file_urls=True)",
                api="Pydantic AI",
            )
    return model_message(message, _NO_TIME)
