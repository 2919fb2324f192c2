"""The thinking in LlamaIndex's messages that a provider signed."""

from __future__ import annotations

from llama_index.core.base.llms.types import ChatMessage, ThinkingBlock

__all__ = ["without_signed_thinking"]


def without_signed_thinking(message: ChatMessage) -> ChatMessage | None:
    """Return a message without the thinking that a provider signed; None if it has none."""
    rest = [
        block
        for block in message.blocks
        if not (isinstance(block, ThinkingBlock) and block.additional_information.get("signature"))
    ]
    return None if len(rest) == len(message.blocks) else message.model_copy(update={"blocks": rest})
