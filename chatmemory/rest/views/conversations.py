"""Conversations: list, create, read, change, erase."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from django.db import IntegrityError, router, transaction
from django.urls import reverse
from django.utils.http import urlencode
from django_filters.rest_framework import DjangoFilterBackend
from rest_framework import mixins, status
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from chatmemory.database import operations
from chatmemory.database.change import Change
from chatmemory.database.idempotency import find_key, fingerprint, keys_of_owner, made_by, scope_of_owner
from chatmemory.database.retry import retry
from chatmemory.database.target import Target
from chatmemory.models import WINDOW_SETTINGS, Conversation, ConversationQuerySet, IdempotencyKey
from chatmemory.rest.access import is_for_others, may_read_words, require, require_reachable, single_owner
from chatmemory.rest.filters import WORD_FILTERS, ConversationFilter, StrictOrderingFilter
from chatmemory.rest.memory_bounds import require_bounded
from chatmemory.rest.pagination import ConversationPagination
from chatmemory.rest.preconditions import conversation_tag, not_modified, precondition
from chatmemory.rest.problems import Conflict
from chatmemory.rest.records import change_to_record, record_change, record_read, recorded
from chatmemory.rest.serializers import ConversationSerializer, message_items
from chatmemory.rest.views.base import ChatMemoryViewSet
from chatmemory.staff import READ_WORDS, WRITE_WORDS

__all__ = ["ConversationViewSet"]


class ConversationViewSet(mixins.ListModelMixin, ChatMemoryViewSet):
    """Your conversations."""

    serializer_class = ConversationSerializer
    acts = {
        "list": ("view",),
        "retrieve": ("view",),
        "create": ("add",),
        "partial_update": ("change",),
        "destroy": ("delete",),
    }
    pagination_class = ConversationPagination
    filter_backends = [DjangoFilterBackend, StrictOrderingFilter]
    filterset_class = ConversationFilter
    ordering_fields = ["updated_at", "created_at"]
    ordering = ["-updated_at", "-id"]

    def get_queryset(self) -> ConversationQuerySet:
        if any(self.request.query_params.get(name) for name in WORD_FILTERS):
            require(self.request, *READ_WORDS)
        return self.conversations()

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Return the conversations, in pages."""
        answer = super().list(request, *args, **kwargs)
        record_read(request)
        return answer

    def create(self, request: Request, **kwargs: Any) -> Response:
        """Make a conversation. The same ``Idempotency-Key`` never makes a second one."""
        owner, key = single_owner(request, *self.acts[self.action]), self.idempotency_key()
        serializer = self.get_serializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        given = serializer.validated_data
        self._require_for_metadata(given)
        asked = fingerprint(json.dumps(request.data, sort_keys=True))
        database = router.db_for_write(Conversation)
        for _attempt in range(5):
            try:
                answer = retry(database, partial(self._make, database, owner, given, key, asked))
                break
            except IntegrityError:
                found = self._find_key(database, owner, key, asked) if key else None
                if found:
                    answer = json.loads(found.account)
                    break
                self._refuse_taken(database, owner, given.get("memory_id"))
        else:
            raise Conflict("Other requests create and erase a conversation with this memory_id. Try again.")
        headers = {"Location": self._address(answer["id"])}
        return Response(answer, status=status.HTTP_201_CREATED, headers=headers)

    def retrieve(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """Return its settings and counters."""
        conversation = self.conversation()
        answer = self.get_serializer(conversation).data
        tag = conversation_tag(conversation, answer)
        fresh = not_modified(request, tag)
        if fresh:
            return fresh
        record_read(request, conversation)
        return Response(answer, headers={"ETag": tag})

    def partial_update(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """Change title, metadata or window. A smaller window evicts at once; the answer says what left."""
        conversation = self.conversation()
        target = Target.of(conversation, precondition(request, self._tag))
        serializer = self.get_serializer(conversation, data=request.data, partial=True)
        serializer.is_valid(raise_exception=True)
        given = serializer.validated_data
        window = {name: given[name] for name in WINDOW_SETTINGS if name in given}
        if window:
            require_bounded(conversation)
        described = {name: given[name] for name in ("title", "metadata") if name in given}
        self._require_for_metadata(given)

        def transact() -> Change:
            with transaction.atomic(using=target.key.database):
                change = operations.set_window(target, **window)
                for name, value in described.items():
                    setattr(change.conversation, name, value)
                if described:
                    change.conversation.save(update_fields=described)
                change.conversation.refresh_from_db(using=target.key.database)
                account = {**window, "described": list(described), **change_to_record(change)}
                record_change(request, change.conversation, account)
            return change

        change = retry(target.key.database, transact)
        changed = change.conversation
        evicted = message_items(change.evicted, self.message_format, with_words=may_read_words(request))
        described_now = self.get_serializer(changed).data
        tag = conversation_tag(changed, described_now)
        return Response({**described_now, "evicted": evicted}, headers={"ETag": tag})

    def destroy(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """Erase it and everything in it."""
        conversation = self.conversation()
        target = Target.of(conversation, precondition(request, self._tag))

        def erase() -> None:
            record_change(request, conversation, {}, act="delete")
            operations.erase(target)

        recorded(request, target.key.database, erase)
        return Response(status=status.HTTP_204_NO_CONTENT)

    def _tag(self, conversation: Conversation) -> str:
        return conversation_tag(conversation, self.get_serializer(conversation).data)

    def _require_for_metadata(self, given: dict[str, Any]) -> None:
        if "metadata" in given:
            require(self.request, *WRITE_WORDS)

    def _make(self, database: str, owner: Any, given: dict[str, Any], key: str | None, asked: str) -> Any:
        with transaction.atomic(using=database):
            conversation = Conversation(owner=owner, **given)
            if key is not None:
                conversation.pk = made_by(owner, key, conversation.pk, database)
            conversation.save(force_insert=True, using=database)
            require_reachable(self.request, database, conversation.pk)
            record_change(self.request, conversation, {}, act="add")
            answer = self.get_serializer(conversation).data
            if key is not None:
                IdempotencyKey.objects.using(database).create(
                    conversation=conversation,
                    scope=scope_of_owner(owner),
                    key=key,
                    fingerprint=asked,
                    account=JSONRenderer().render(answer).decode(),
                )
        return answer

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
            raise Conflict(
                f"There is a conversation with the memory_id {taken.memory_id!r} already. Use it, or take another ID.",
                conversation=self._address(taken.pk),
            )

    def _address(self, conversation_id: Any) -> str:
        """Return the address of the conversation for the same user."""
        match = self.request.resolver_match
        assert match is not None
        prefix = f"{match.namespace}:" if match.namespace else ""
        arguments = {**match.kwargs, "conversation_id": conversation_id}
        address = reverse(f"{prefix}conversation-detail", kwargs=arguments)
        owner = self.request.query_params.get("owner")
        query = f"?{urlencode({'owner': owner})}" if owner is not None else ""
        return self.request.build_absolute_uri(address + query)
