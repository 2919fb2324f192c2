"""A model with a memory, like LangChain4j's AI Services. It needs Django only for memories in Django's database."""

from chatmemory.assistant.assistant import Assistant
from chatmemory.assistant.begun import BegunTurn
from chatmemory.assistant.errors import (
    AnswerDeletedError,
    AssistantError,
    ConversationBusyError,
    ModelError,
    NothingSaidError,
    ToolError,
    TooManyToolInvocationsError,
    TurnLostError,
    WindowTooSmallError,
)
from chatmemory.assistant.model import ChatModel
from chatmemory.assistant.pieces import Answered, Thinking
from chatmemory.assistant.summarizer import SUMMARY_PROMPT, ChatModelSummarizer
from chatmemory.assistant.tool_context import ToolContext
from chatmemory.assistant.tools import Tool, ToolSpecification
from chatmemory.assistant.turns.base import Added
from chatmemory.assistant.usage import Usage

__all__ = [
    "SUMMARY_PROMPT",
    "Added",
    "AnswerDeletedError",
    "Answered",
    "Assistant",
    "AssistantError",
    "BegunTurn",
    "ChatModel",
    "ChatModelSummarizer",
    "ConversationBusyError",
    "ModelError",
    "NothingSaidError",
    "Thinking",
    "TooManyToolInvocationsError",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolSpecification",
    "TurnLostError",
    "Usage",
    "WindowTooSmallError",
]
