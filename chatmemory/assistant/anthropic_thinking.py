"""The test, from messages alone, of whether anything before an answer changed since Anthropic signed its thinking.

A model does not know the conversation, so it writes beside each answer with signed thinking what it was made from: a
digest of the tools, the system message and the messages that it was given.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from chatmemory.assistant.deltas import Answered
from chatmemory.core.messages import AiMessage, ChatMessage, SystemMessage
from chatmemory.core.serialization.writer import message_to_data
from chatmemory.formats.anthropic.block_writer import REDACTED_THINKING, THINKING_SIGNATURE

__all__ = ["PREFIX", "fresh_thinking", "signed"]

PREFIX = "anthropic_prefix"
"""The attribute of an answer with the digest of what stood before it."""

_DIGITS = 32


def fresh_thinking(messages: Sequence[ChatMessage], tools: Any) -> Collection[int]:
    """Return the indexes of the answers before which nothing has changed since they were written.

    Args:
        messages: the memory.
        tools: the tools of the request, as JSON has them.
    """
    if not any(isinstance(message, AiMessage) and PREFIX in message.attributes for message in messages):
        return []
    return [
        index
        for index, (message, prefix) in enumerate(zip(messages, _prefixes(messages, tools), strict=False))
        if isinstance(message, AiMessage) and message.attributes.get(PREFIX) == prefix
    ]


def signed(answer: Answered, messages: Sequence[ChatMessage], tools: Any) -> Answered:
    """Return an answer that says what its thinking, if it has any that is signed, is bound to.

    Args:
        answer: the answer.
        messages: those that it answers.
        tools: the tools of the request, as JSON has them.
    """
    message = answer.message
    if not message.attributes.keys() & {THINKING_SIGNATURE, REDACTED_THINKING}:
        return answer
    *_, prefix = _prefixes(messages, tools)
    attributes = {**message.attributes, PREFIX: prefix}
    return replace(
        answer,
        message=AiMessage(
            message.text, message.tool_execution_requests, thinking=message.thinking, attributes=attributes
        ),
    )


def _prefixes(messages: Sequence[ChatMessage], tools: Any) -> Iterator[str]:
    """Yield the digest of what stands before each message, and at last of all of them."""
    # Anthropic has the system text apart, before all messages.
    so_far = sha256(_bytes([tools or [], [one.text for one in messages if isinstance(one, SystemMessage)]]))
    for message in messages:
        yield so_far.hexdigest()[:_DIGITS]
        if not isinstance(message, SystemMessage):
            so_far.update(_bytes(message_to_data(message)))
    yield so_far.hexdigest()[:_DIGITS]


def _bytes(value: Any) -> bytes:
    # Databases keep no order of keys. A lone surrogate, which the API would refuse, is no reason to fail here.
    return json.dumps(value, sort_keys=True, default=str).encode()
