"""The thinking in LangChain's messages that a provider signed."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

__all__ = ["without_signed_thinking"]


def without_signed_thinking(message: BaseMessage) -> BaseMessage | None:
    """Return an answer without the thinking that a provider signed; None if it has none."""
    if not isinstance(message, AIMessage) or isinstance(message.content, str):
        return None
    rest = [block for block in message.content if not _is_signed(block)]
    return None if len(rest) == len(message.content) else message.model_copy(update={"content": rest})


def _is_signed(block: Any) -> bool:
    match block:
        case {"type": "thinking" | "redacted_thinking"}:
            return True
        case {"type": "reasoning", "extras": {"signature": _}}:
            return True  # the same, in LangChain's own blocks
        case {"type": "non_standard", "value": {"type": "redacted_thinking"}}:
            return True
        case {"type": "reasoning_content", "reasoning_content": {"signature": _} | {"redacted_content": _}}:
            return True  # of Bedrock
    return False
