"""The memory of LLM chats: history is kept, memory stays small, valid and explainable.

What is exported here needs no Django; the store on the ORM is in :mod:`chatmemory.stores`, the models in
:mod:`chatmemory.models`.
"""

from chatmemory.codec import message_from_json, message_to_json, messages_from_json, messages_to_json
from chatmemory.contents import (
    Audio,
    AudioContent,
    Content,
    ContentType,
    DetailLevel,
    Image,
    ImageContent,
    PdfFile,
    PdfFileContent,
    TextContent,
    Video,
    VideoContent,
)
from chatmemory.exceptions import IdempotencyConflictError, InvalidMessageError
from chatmemory.memory import ChatMemory, MessageWindowChatMemory, TokenWindowChatMemory
from chatmemory.messages import (
    AiMessage,
    ChatMessage,
    ChatMessageType,
    CustomMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.stores.base import ChatMemoryStore
from chatmemory.stores.in_memory import InMemoryChatMemoryStore, SingleSlotChatMemoryStore
from chatmemory.tokens import OpenAiTokenCountEstimator, TokenCountEstimator

__all__ = [
    "AiMessage",
    "Audio",
    "AudioContent",
    "ChatMemory",
    "ChatMemoryStore",
    "ChatMessage",
    "ChatMessageType",
    "Content",
    "ContentType",
    "CustomMessage",
    "DetailLevel",
    "IdempotencyConflictError",
    "Image",
    "ImageContent",
    "InMemoryChatMemoryStore",
    "InvalidMessageError",
    "MessageWindowChatMemory",
    "OpenAiTokenCountEstimator",
    "PdfFile",
    "PdfFileContent",
    "SingleSlotChatMemoryStore",
    "SystemMessage",
    "TextContent",
    "TokenCountEstimator",
    "TokenWindowChatMemory",
    "ToolExecutionRequest",
    "ToolExecutionResultMessage",
    "UserMessage",
    "Video",
    "VideoContent",
    "message_from_json",
    "message_to_json",
    "messages_from_json",
    "messages_to_json",
]

__version__ = "0.1.0"
