"""A model with a memory, like LangChain4j's AI Services. It needs Django only for memories in Django's database."""

from chatmemory.assistant.assistant import Assistant
from chatmemory.assistant.errors import (
    AnswerDeletedError,
    AssistantError,
    CallRefusedError,
    ContextTooLongError,
    ConversationBusyError,
    ModelError,
    NothingSaidError,
    ToolError,
    TooManyToolInvocationsError,
    TurnLostError,
    WindowTooSmallError,
)
from chatmemory.assistant.lease import Added
from chatmemory.assistant.model import Answered, ChatModel, Thinking
from chatmemory.assistant.summaries_and_titles import SUMMARY_PROMPT, ChatModelSummarizer
from chatmemory.assistant.tool_arguments import ToolContext
from chatmemory.assistant.tools import Tool, ToolSpecification
from chatmemory.assistant.turn import Turn
from chatmemory.core.usage import Usage

BegunTurn = Turn
"""The earlier name of ``Turn``."""

__all__ = [
    "SUMMARY_PROMPT",
    "Added",
    "AnswerDeletedError",
    "Answered",
    "Assistant",
    "AssistantError",
    "BegunTurn",
    "CallRefusedError",
    "ChatModel",
    "ChatModelSummarizer",
    "ContextTooLongError",
    "ConversationBusyError",
    "ModelError",
    "NothingSaidError",
    "Thinking",
    "TooManyToolInvocationsError",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolSpecification",
    "Turn",
    "TurnLostError",
    "Usage",
    "WindowTooSmallError",
]
