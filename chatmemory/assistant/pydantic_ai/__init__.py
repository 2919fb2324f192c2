"""Any model of Pydantic AI (extra ``pydantic-ai``), for providers that have no client here."""

from chatmemory.assistant.pydantic_ai.model import PydanticAiChatModel

__all__ = ["PydanticAiChatModel"]
