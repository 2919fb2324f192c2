"""The memory of LLM chats: history is kept, memory stays small, valid and explainable.

The names in this module need no Django. The store on Django's ORM is in ``chatmemory.stores``, the models are in
``chatmemory.models``.
"""

from chatmemory.core.contents import (
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
from chatmemory.core.exceptions import IdempotencyConflictError, InvalidMessageError
from chatmemory.core.memory import (
    ChatMemory,
    ChatMemoryStore,
    InMemoryChatMemoryStore,
    MessageWindowChatMemory,
    SingleSlotChatMemoryStore,
    TokenWindowChatMemory,
)
from chatmemory.core.messages import (
    AiMessage,
    ChatMessage,
    ChatMessageType,
    CustomMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.core.serialization import message_from_json, message_to_json, messages_from_json, messages_to_json
from chatmemory.core.tokens import OpenAiTokenCountEstimator, TokenCountEstimator

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
