"""The addresses of the API, without those of its description."""

from __future__ import annotations

import re
from typing import Any

from django.urls import URLPattern, path, register_converter
from django.urls.converters import StringConverter

from chatmemory.assistant.project import has_assistant
from chatmemory.capabilities import filled
from chatmemory.rest.turns.views import TurnViewSet
from chatmemory.rest.views.compaction import CompactionViewSet
from chatmemory.rest.views.conversations import ConversationViewSet
from chatmemory.rest.views.memory import MemoryViewSet, MessageViewSet
from chatmemory.rest.views.stores import StoreViewSet
from chatmemory.rest.views.viewset import Call, ChatMemoryViewSet


class _MemoryIdConverter(StringConverter):
    """Any text: a memory ID may hold slashes and line breaks."""

    regex = r"[\s\S]+"


register_converter(_MemoryIdConverter, "chatmemory_memory_id")


def _route(route: str, name: str, view: type[ChatMemoryViewSet], **actions: str) -> URLPattern:
    return path(route, view.as_view({**actions}, basename=name.partition("-")[0]), name=name)


_ONE = "conversations/<str:conversation_id>/"
_MESSAGE = f"{_ONE}messages/<str:position>/"
_STORE = "stores/<chatmemory_memory_id:memory_id>/"

api_urlpatterns = [
    _route("conversations/", "conversation-list", ConversationViewSet, get="list", post="create"),
    _route(_ONE, "conversation-detail", ConversationViewSet, get="retrieve", patch="partial_update", delete="destroy"),
    _route(f"{_ONE}messages/", "message-list", MessageViewSet, get="list", post="create"),
    _route(_MESSAGE, "message-detail", MessageViewSet, get="retrieve"),
    _route(f"{_MESSAGE}pin/", "message-pin", MessageViewSet, post="pin"),
    _route(f"{_MESSAGE}unpin/", "message-unpin", MessageViewSet, post="unpin"),
    _route(f"{_ONE}memory/", "memory", MemoryViewSet, get="retrieve", put="update", delete="destroy"),
    _route(f"{_ONE}memory/preview/", "memory-preview", MemoryViewSet, post="preview"),
    _route(f"{_ONE}memory/clear-tool-results/", "memory-clear-tool-results", MemoryViewSet, post="clear_tool_results"),
    _route(f"{_ONE}memory/replay/", "memory-replay", MemoryViewSet, post="replay"),
    _route(f"{_ONE}compaction/", "compaction", CompactionViewSet, get="retrieve", post="compact"),
    _route(_STORE, "store", StoreViewSet, get="retrieve", put="update", delete="destroy"),
]
"""All but the page that lists them, and the OpenAPI document and its page, which are an extra."""

if has_assistant():
    api_urlpatterns += [
        _route(f"{_ONE}turns/", "turns", TurnViewSet, get="retrieve", post="take", delete="stop"),
        _route(f"{_ONE}turns/stream/", "turn-stream", TurnViewSet, get="follow"),
    ]

api_urlpatterns += filled("routes")

_PATTERNS: list[Any] = [*api_urlpatterns]

ROUTES: list[tuple[str, str, Any, Call]] = [
    (
        "/" + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", str(pattern.pattern)),
        method,
        pattern.callback,
        getattr(pattern.callback.cls, action).call,
    )
    for pattern in _PATTERNS
    for method, action in pattern.callback.actions.items()
    if method != "head"
]
"""The path, the method, the view and the declaration of each call, in the order of the addresses."""
