"""Conversations: list, create, read, change, erase."""

from __future__ import annotations

import json
from typing import Any

from django.db import IntegrityError, router, transaction
from django.http import HttpResponseBase
from django.urls import reverse
from django_filters.rest_framework import DjangoFilterBackend
from rest_framework import mixins, status
from rest_framework.request import Request
from rest_framework.response import Response

from chatmemory import changes
from chatmemory.idempotency import find_key, fingerprint, scope_of_owner
from chatmemory.json_text import dumps, loads
from chatmemory.ledger import Target
from chatmemory.managers import ConversationQuerySet
from chatmemory.models import Conversation, IdempotencyKey
from chatmemory.rest.base import ChatMemoryViewSet
from chatmemory.rest.filters import ConversationFilter, StrictOrderingFilter
from chatmemory.rest.pagination import ConversationPagination
from chatmemory.rest.permissions import single_owner
from chatmemory.rest.preconditions import conversation_tag, precondition
from chatmemory.rest.problems import Conflict
from chatmemory.rest.serializers import WINDOW_FIELDS, ConversationSerializer, items

__all__ = ["ConversationViewSet"]


class ConversationViewSet(mixins.ListModelMixin, ChatMemoryViewSet):
    """Your conversations."""

    serializer_class = ConversationSerializer
    pagination_class = ConversationPagination
    filter_backends = [DjangoFilterBackend, StrictOrderingFilter]
    filterset_class = ConversationFilter
    ordering_fields = ["updated_at", "created_at"]
    ordering = ["-updated_at", "-id"]

    def get_queryset(self) -> ConversationQuerySet:
        return self.conversations()

    def create(self, request: Request) -> Response:
        """Make a conversation. The same ``Idempotency-Key`` never makes a second one."""
        owner, key = single_owner(request, "add"), self.idempotency_key()
        serializer = self.get_serializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        database = router.db_for_write(Conversation)
        asked = fingerprint(json.dumps(request.data, sort_keys=True))
        try:
            with transaction.atomic(using=database):
                conversation = serializer.save(owner=owner)
                answer = dict(serializer.data)
                if key is not None:
                    IdempotencyKey.objects.using(database).create(
                        conversation=conversation,
                        scope=scope_of_owner(owner),
                        key=key,
                        fingerprint=asked,
                        account=dumps(answer),
                    )
        except IntegrityError:
            found = key and find_key(database, scope_of_owner(owner), key, asked)
            if not found:
                self._refuse_taken(owner, serializer.validated_data.get("memory_id"))
                raise
            answer = loads(found.account)
        location = self._address(answer["id"])
        return Response(answer, status=status.HTTP_201_CREATED, headers={"Location": location})

    def retrieve(self, request: Request, conversation_id: str) -> Response:
        """Its settings and counters."""
        conversation = self.conversation()
        return self.tagged(conversation_tag(conversation), lambda: self.get_serializer(conversation).data)

    def partial_update(self, request: Request, conversation_id: str) -> Response:
        """Change title, metadata or window. A smaller window evicts at once; the answer says what left."""
        conversation = self.conversation()
        target = Target.of(conversation, precondition(request, conversation_tag))
        serializer = self.get_serializer(conversation, data=request.data, partial=True)
        serializer.is_valid(raise_exception=True)
        given = serializer.validated_data
        window = {name: given[name] for name in WINDOW_FIELDS if name in given}
        described = {name: given[name] for name in ("title", "metadata") if name in given}
        with transaction.atomic(using=target.queryset.db):
            change = changes.set_window(target, **window)
            changed = change.conversation
            for name, value in described.items():
                setattr(changed, name, value)
            if described:
                changed.save(update_fields=described)
            changed.refresh_from_db()
        answer = {**self.get_serializer(changed).data, "evicted": items(change.evicted, self.message_format)}
        return Response(answer, headers={"ETag": conversation_tag(changed)})

    def destroy(self, request: Request, conversation_id: str) -> HttpResponseBase:
        """Erase it and everything in it."""
        changes.erase(Target.of(self.conversation(), precondition(request, conversation_tag)))
        return Response(status=status.HTTP_204_NO_CONTENT)

    def _refuse_taken(self, owner: Any, memory_id: str | None) -> None:
        taken = Conversation.objects.owned_by(owner).filter(memory_id=memory_id).first()
        if taken is not None:
            raise Conflict(
                f"There is a conversation with the memory_id {taken.memory_id!r} already. Use it, or take another ID.",
                conversation=self._address(taken.pk),
            )

    def _address(self, conversation_id: Any) -> str:
        match = self.request.resolver_match
        prefix = f"{match.namespace}:" if match and match.namespace else ""
        path = reverse(f"{prefix}conversation-detail", kwargs={"conversation_id": conversation_id})
        return self.request.build_absolute_uri(path)
