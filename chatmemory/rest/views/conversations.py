"""Conversations: list, create, read, change, erase."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import UUID

from django.db import router
from django.utils.http import urlencode
from django_filters.rest_framework import DjangoFilterBackend
from rest_framework import mixins, status
from rest_framework.request import Request
from rest_framework.response import Response

from chatmemory.database.change import Change
from chatmemory.models import DESCRIBED, WINDOW_SETTINGS, Conversation, ConversationQuerySet
from chatmemory.rest.access import require, require_free, require_reachable, single_owner
from chatmemory.rest.filters import TEXT_FILTERS, ConversationFilter, ConversationPagination, StrictOrderingFilter
from chatmemory.rest.problems import Conflict
from chatmemory.rest.requests import conversation_tag, not_modified, precondition, require_bounded
from chatmemory.rest.serializers import (
    ConversationChangeSerializer,
    ConversationSerializer,
    HistoryItemSerializer,
    NewConversationSerializer,
    PageSerializer,
    message_items,
)
from chatmemory.rest.views.creating import create_conversation
from chatmemory.rest.views.viewset import ChatMemoryViewSet, call, change_to_record, record_change, record_read
from chatmemory.staff import READ_TEXT, WRITE_TEXT


class ConversationPageSerializer(PageSerializer):
    """One page."""

    results = ConversationSerializer(many=True)


class ChangedConversationSerializer(ConversationSerializer):
    """A conversation, and what a new window evicted."""

    evicted = HistoryItemSerializer(many=True, help_text="What no longer fits.")

    class Meta(ConversationSerializer.Meta):
        fields = [*ConversationSerializer.Meta.fields, "evicted"]


class ConversationViewSet(mixins.ListModelMixin, ChatMemoryViewSet):
    """The ordered messages under one memory ID, and the settings of its window."""

    tag = "conversations"
    serializer_class = ConversationSerializer
    pagination_class = ConversationPagination
    filter_backends = [DjangoFilterBackend, StrictOrderingFilter]
    filterset_class = ConversationFilter
    ordering_fields = ["updated_at", "created_at"]
    ordering = ["-updated_at", "-id"]

    def get_queryset(self) -> ConversationQuerySet:
        if any(self.request.query_params.get(name) for name in TEXT_FILTERS):
            require(self.request, *READ_TEXT)
        return self.conversations()

    @call("listConversations", ("view",), users=True, answer=ConversationPageSerializer)
    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """List your conversations.

        Last active first, in pages.
        """
        answer = super().list(request, *args, **kwargs)
        record_read(request)
        return answer

    @call(
        "createConversation",
        ("add",),
        users=("memory_id", "title"),
        body=NewConversationSerializer,
        answer=ConversationSerializer,
        creates=True,
        headers=("Idempotency-Key", "Location"),
        problems=(409,),
        example={"memory_id": "support-42", "title": "Support", "window": "messages", "limit": 20},
    )
    def create(self, request: Request, **kwargs: Any) -> Response:
        """Create a conversation.

        Every field is optional. 409 if you have the `memory_id` already.
        """
        owner = single_owner(request, *self.call.permission)
        given = self.asked()
        self._require_for_metadata(given)

        def make(key: UUID) -> Conversation:
            made = Conversation(pk=key, owner=owner, **given)
            made.save(force_insert=True, using=router.db_for_write(Conversation))
            return made

        refuse = partial(self._refuse_taken, owner, given.get("memory_id"))
        created = create_conversation(self, owner, make, asked=request.data, refuse=refuse)
        return Response(created, status.HTTP_201_CREATED, headers={"Location": self._address(created["id"])})

    @call("getConversation", ("view",), users=True, answer=ConversationSerializer, headers=("If-None-Match", "ETag"))
    def retrieve(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """Get a conversation's settings and counters."""
        conversation = self.conversation()
        answer = self.get_serializer(conversation).data
        tag = conversation_tag(conversation, answer)
        fresh = not_modified(request, tag)
        if fresh:
            return fresh
        record_read(request, conversation)
        return Response(answer, headers={"ETag": tag})

    @call(
        "updateConversation",
        ("change",),
        users=("title",),
        body=ConversationChangeSerializer,
        answer=ChangedConversationSerializer,
        headers=("If-Match", "ETag"),
        example={"low_water": 50, "whole_turns": True, "keep_tool_results": 3},
    )
    def partial_update(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """Change title, metadata or window.

        A smaller window evicts at once, and the answer says what. A larger one brings nothing back.
        """
        conversation = self.conversation()
        demanded = precondition(request, self._tag)
        given = self.asked(conversation, partial=True)
        window = {name: given[name] for name in WINDOW_SETTINGS if name in given}
        if window:
            require_bounded(conversation)
        described = {name: given[name] for name in DESCRIBED if name in given}
        self._require_for_metadata(given)

        def describe(change: Change) -> None:
            for name, value in described.items():
                setattr(change.conversation, name, value)
            if described:
                change.conversation.save(update_fields=described)
            change.conversation.refresh_from_db(using=change.conversation._state.db)
            account = {**window, "described": list(described), **change_to_record(change)}
            record_change(request, change.conversation, account)

        change = conversation.memory.set_window(precondition=demanded, also=describe, **window)
        changed = change.conversation
        evicted = message_items(change.evicted, self.message_format, self.reader)
        described_now = self.get_serializer(changed).data
        tag = conversation_tag(changed, described_now)
        return Response({**described_now, "evicted": evicted}, headers={"ETag": tag})

    @call("deleteConversation", ("delete",), users=True, headers=("If-Match",))
    def destroy(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """Erase a conversation.

        With its history. To empty only what the model gets, clear the memory.
        """
        conversation = self.conversation()
        conversation.memory.erase(
            precondition=precondition(request, self._tag),
            also=lambda _change: record_change(request, conversation, {}, act="delete"),
        )
        return Response(status=status.HTTP_204_NO_CONTENT)

    def _tag(self, conversation: Conversation) -> str:
        return conversation_tag(conversation, self.get_serializer(conversation).data)

    def _require_for_metadata(self, given: dict[str, Any]) -> None:
        if "metadata" in given:
            require_free(self.request, *WRITE_TEXT)

    def _refuse_taken(self, owner: Any, memory_id: str | None, database: str) -> None:
        taken = Conversation.objects.using(database).named(owner, memory_id).first() if memory_id else None
        if taken is not None:
            require_reachable(self.request, database, taken.pk)
            raise Conflict(members={"conversation": self._address(taken.pk)}, memory_id=repr(taken.memory_id))

    def _address(self, conversation_id: Any) -> str:
        """Return the address of the conversation for the same user."""
        address = self.reverse_action("detail", kwargs={**self.kwargs, "conversation_id": conversation_id})
        owner = self.request.query_params.get("owner")
        return address if owner is None else f"{address}?{urlencode({'owner': owner})}"
