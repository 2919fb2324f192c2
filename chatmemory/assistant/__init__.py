"""A model with a memory, like LangChain4j's AI Services. It needs Django only for memories in Django's database."""

from chatmemory.assistant.assistant import Assistant
from chatmemory.assistant.errors import (
    AnswerDeletedError,
    AssistantError,
    ConversationBusyError,
    ModelError,
    ToolError,
    TooManyToolInvocationsError,
    TurnLostError,
    WindowTooSmallError,
)
from chatmemory.assistant.model import ChatModel
from chatmemory.assistant.summarizer import SUMMARY_PROMPT, ChatModelSummarizer
from chatmemory.assistant.tools import Tool, ToolSpecification
from chatmemory.assistant.turns.base import Added

__all__ = [
    "SUMMARY_PROMPT",
    "Added",
    "AnswerDeletedError",
    "Assistant",
    "AssistantError",
    "ChatModel",
    "ChatModelSummarizer",
    "ConversationBusyError",
    "ModelError",
    "TooManyToolInvocationsError",
    "Tool",
    "ToolError",
    "ToolSpecification",
    "TurnLostError",
    "WindowTooSmallError",
]
