"""The addresses of the API, without those of its description."""

from __future__ import annotations

from django.urls import path, register_converter

from chatmemory.assistant.project import has_assistant
from chatmemory.rest.turns.views import TurnViewSet
from chatmemory.rest.views.compaction import CompactionViewSet
from chatmemory.rest.views.conversations import ConversationViewSet
from chatmemory.rest.views.memory import MemoryViewSet
from chatmemory.rest.views.messages import MessageViewSet
from chatmemory.rest.views.stores import StoreViewSet

__all__ = ["api_urlpatterns"]


class _MemoryIdConverter:
    """Any text: a memory ID may hold slashes and line breaks."""

    regex = r"[\s\S]+"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


register_converter(_MemoryIdConverter, "chatmemory_memory_id")

api_urlpatterns = [
    path("conversations/", ConversationViewSet.as_view({"get": "list", "post": "create"}), name="conversation-list"),
    path(
        "conversations/<str:conversation_id>/",
        ConversationViewSet.as_view({"get": "retrieve", "patch": "partial_update", "delete": "destroy"}),
        name="conversation-detail",
    ),
    path(
        "conversations/<str:conversation_id>/messages/",
        MessageViewSet.as_view({"get": "list", "post": "create"}),
        name="message-list",
    ),
    path(
        "conversations/<str:conversation_id>/messages/<str:position>/",
        MessageViewSet.as_view({"get": "retrieve"}),
        name="message-detail",
    ),
    path(
        "conversations/<str:conversation_id>/messages/<str:position>/pin/",
        MessageViewSet.as_view({"post": "pin"}),
        name="message-pin",
    ),
    path(
        "conversations/<str:conversation_id>/messages/<str:position>/unpin/",
        MessageViewSet.as_view({"post": "unpin"}),
        name="message-unpin",
    ),
    path(
        "conversations/<str:conversation_id>/memory/",
        MemoryViewSet.as_view({"get": "retrieve", "put": "update", "delete": "destroy"}),
        name="memory",
    ),
    path(
        "conversations/<str:conversation_id>/memory/preview/",
        MemoryViewSet.as_view({"post": "preview"}),
        name="memory-preview",
    ),
    path(
        "conversations/<str:conversation_id>/memory/clear-tool-results/",
        MemoryViewSet.as_view({"post": "clear_tool_results"}),
        name="memory-clear-tool-results",
    ),
    path(
        "conversations/<str:conversation_id>/memory/replay/",
        MemoryViewSet.as_view({"post": "replay"}),
        name="memory-replay",
    ),
    path(
        "conversations/<str:conversation_id>/compaction/",
        CompactionViewSet.as_view({"get": "retrieve", "post": "compact"}),
        name="compaction",
    ),
    path(
        "stores/<chatmemory_memory_id:memory_id>/",
        StoreViewSet.as_view({"get": "retrieve", "put": "update", "delete": "destroy"}),
        name="store",
    ),
]
"""All but the OpenAPI document and its page, which are an extra."""

if has_assistant():
    api_urlpatterns += [
        path(
            "conversations/<str:conversation_id>/turns/",
            TurnViewSet.as_view({"get": "retrieve", "post": "take", "delete": "stop"}),
            name="turns",
        ),
        path(
            "conversations/<str:conversation_id>/turns/stream/",
            TurnViewSet.as_view({"get": "follow"}),
            name="turn-stream",
        ),
    ]
