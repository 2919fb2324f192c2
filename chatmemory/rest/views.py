"""The views. Every queryset starts from the user who asks; what belongs to another is not found."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django_filters.rest_framework import DjangoFilterBackend
from rest_framework import mixins, status, viewsets
from rest_framework.exceptions import APIException, NotAuthenticated
from rest_framework.filters import OrderingFilter
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer

from chatmemory.models import Conversation, Message
from chatmemory.rest.filters import ConversationFilter, MessageFilter
from chatmemory.rest.pagination import ConversationPagination, MessagePagination
from chatmemory.rest.parsers import StrictJSONParser
from chatmemory.rest.permissions import permission_classes
from chatmemory.rest.serializers import (
    ConversationSerializer,
    MessageSerializer,
    change_to_data,
    memory_to_data,
    read_body,
)

__all__ = ["ConversationViewSet", "MemoryViewSet", "MessageViewSet"]


class Conflict(APIException):
    """The request does not fit what is there."""

    status_code = status.HTTP_409_CONFLICT
    default_code = "conflict"


class _OwnConversations(viewsets.GenericViewSet[Any]):
    """What all views share."""

    parser_classes = [StrictJSONParser]

    def get_permissions(self) -> list[Any]:
        return [permission() for permission in permission_classes()]

    def conversations(self) -> QuerySet[Conversation]:
        user = self.request.user
        return Conversation.objects.owned_by(user) if user.is_authenticated else Conversation.objects.none()

    def conversation(self) -> Conversation:
        return get_object_or_404(self.conversations(), pk=self.kwargs["conversation_id"])


class ConversationViewSet(mixins.CreateModelMixin, mixins.ListModelMixin, mixins.RetrieveModelMixin, _OwnConversations):
    """Your conversations."""

    serializer_class = ConversationSerializer
    pagination_class = ConversationPagination
    filter_backends = [DjangoFilterBackend]
    filterset_class = ConversationFilter

    def get_queryset(self) -> QuerySet[Conversation]:
        return self.conversations()

    def perform_create(self, serializer: BaseSerializer[Conversation]) -> None:
        user = self.request.user
        if not user.is_authenticated:
            raise NotAuthenticated
        try:
            with transaction.atomic():
                serializer.save(owner=user)
        except IntegrityError as error:
            memory_id = serializer.validated_data.get("memory_id")
            if self.conversations().filter(memory_id=memory_id).exists():
                raise Conflict(f"You have a conversation with the memory_id {memory_id!r} already.") from error
            raise


class MessageViewSet(mixins.ListModelMixin, _OwnConversations):
    """The history of a conversation."""

    serializer_class = MessageSerializer
    pagination_class = MessagePagination
    filter_backends = [DjangoFilterBackend, OrderingFilter]
    filterset_class = MessageFilter
    ordering_fields = ["position"]
    ordering = ["position"]

    def get_queryset(self) -> QuerySet[Message]:
        history: QuerySet[Message] = self.conversation().messages.history()
        return history

    def create(self, request: Request, conversation_id: UUID) -> Response:
        """Add one message or a batch, all or none."""
        conversation = self.conversation()
        change = conversation.add_messages(read_body(request.data))
        return Response(change_to_data(change), status=status.HTTP_201_CREATED)


class MemoryViewSet(_OwnConversations):
    """What the model gets of a conversation."""

    def retrieve(self, request: Request, conversation_id: UUID) -> Response:
        return Response(memory_to_data(self.conversation()))

    def destroy(self, request: Request, conversation_id: UUID) -> Response:
        """Clear the memory. History stays."""
        self.conversation().memory.clear()
        return Response(status=status.HTTP_204_NO_CONTENT)
