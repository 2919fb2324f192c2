"""The REST API: ``path("api/", include("chatmemory.urls"))``."""

from django.urls import path

from chatmemory.rest.views import ConversationViewSet, MemoryViewSet, MessageViewSet

app_name = "chatmemory"

urlpatterns = [
    path("conversations/", ConversationViewSet.as_view({"get": "list", "post": "create"}), name="conversation-list"),
    path("conversations/<uuid:pk>/", ConversationViewSet.as_view({"get": "retrieve"}), name="conversation-detail"),
    path(
        "conversations/<uuid:conversation_id>/messages/",
        MessageViewSet.as_view({"get": "list", "post": "create"}),
        name="message-list",
    ),
    path(
        "conversations/<uuid:conversation_id>/memory/",
        MemoryViewSet.as_view({"get": "retrieve", "delete": "destroy"}),
        name="memory",
    ),
]
