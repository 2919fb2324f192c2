"""Conversations: list, create, read, change, erase."""

from __future__ import annotations

import json
from typing import Any

from django.db import IntegrityError, router
from django.utils.http import urlencode
from django_filters.rest_framework import DjangoFilterBackend
from rest_framework import mixins, status
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from chatmemory.database.change import Change
from chatmemory.database.idempotency import find_key, fingerprint, keys_of_owner, make_conversation
from chatmemory.models import DESCRIBED, WINDOW_SETTINGS, Conversation, ConversationQuerySet, IdempotencyKey
from chatmemory.rest.access import is_for_others, require, require_free, require_reachable, single_owner
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
        owner, key = single_owner(request, *self.call.permission), self.idempotency_key()
        given = self.asked()
        self._require_for_metadata(given)
        asked = fingerprint(json.dumps(request.data, sort_keys=True))
        database = router.db_for_write(Conversation)
        for _attempt in range(5):
            try:
                account = make_conversation(
                    lambda: Conversation(owner=owner, **given), database, self._account, key=key, request=asked
                )
                break
            except IntegrityError:
                found = self._find_key(database, owner, key, asked) if key else None
                if found:
                    account = found.account
                    break
                self._refuse_taken(database, owner, given.get("memory_id"))
        else:
            raise Conflict("Other requests create and erase a conversation with this memory_id. Try again.")
        answer = json.loads(account)
        return Response(answer, status.HTTP_201_CREATED, headers={"Location": self._address(answer["id"])})

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

    def _account(self, made: Conversation) -> str:
        require_reachable(self.request, made._state.db or "default", made.pk)
        record_change(self.request, made, {}, act="add")
        return JSONRenderer().render(self.get_serializer(made).data).decode()

    def _find_key(self, database: str, owner: Any, key: str, asked: str) -> IdempotencyKey | None:
        keys = keys_of_owner(owner, key, database)
        if is_for_others(self.request):  # staff who do not reach the conversation must not learn that the key was used
            for record in keys.filter(key=key):
                require_reachable(self.request, database, record.conversation_id)
        return find_key(keys, key, asked)

    def _refuse_taken(self, database: str, owner: Any, memory_id: str | None) -> None:
        taken = Conversation.objects.using(database).named(owner, memory_id).first() if memory_id else None
        if taken is not None:
            require_reachable(self.request, database, taken.pk)
            raise Conflict(members={"conversation": self._address(taken.pk)}, memory_id=repr(taken.memory_id))

    def _address(self, conversation_id: Any) -> str:
        """Return the address of the conversation for the same user."""
        address = self.reverse_action("detail", kwargs={**self.kwargs, "conversation_id": conversation_id})
        owner = self.request.query_params.get("owner")
        return address if owner is None else f"{address}?{urlencode({'owner': owner})}"
