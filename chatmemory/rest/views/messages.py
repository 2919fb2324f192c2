"""The messages of a conversation: the history, one message, and additions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django_filters.rest_framework import DjangoFilterBackend
from rest_framework import status
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from chatmemory.core.numbers import whole_number
from chatmemory.database import operations
from chatmemory.database.batches import rows_of
from chatmemory.database.change import Change
from chatmemory.database.target import Target
from chatmemory.models import MAX_LIMIT, Conversation, Message
from chatmemory.rest.access import may_read_words
from chatmemory.rest.bodies import read_batch
from chatmemory.rest.filters import MessageFilter, StrictOrderingFilter
from chatmemory.rest.memory_bounds import require_bounded, require_room
from chatmemory.rest.pagination import MessagePagination
from chatmemory.rest.preconditions import memory_tag, precondition, unless_repeated
from chatmemory.rest.problems import invalid
from chatmemory.rest.records import change_and_read, record_read, recorded_change
from chatmemory.rest.serializers import MessageSerializer, change_to_data, message_items
from chatmemory.rest.views.base import ChatMemoryViewSet
from chatmemory.staff import READ_WORDS, WRITE_WORDS

__all__ = ["MessageViewSet"]


class MessageViewSet(ChatMemoryViewSet):
    """The history of a conversation."""

    serializer_class = MessageSerializer
    acts = {
        "list": READ_WORDS,
        "retrieve": READ_WORDS,
        "create": WRITE_WORDS,
        "pin": ("change",),
        "unpin": ("change",),
    }
    pagination_class = MessagePagination
    filter_backends = [DjangoFilterBackend, StrictOrderingFilter]
    filterset_class = MessageFilter
    ordering_fields = ["position"]
    ordering = ["position"]

    def list(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """Return the history, in pages."""
        conversation = self.conversation()
        history = self.filter_queryset(conversation.messages.all())
        page = self.paginate_queryset(history)
        record_read(request, conversation)
        return self.get_paginated_response(message_items(page or [], self.message_format))

    def create(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """Add one message or a batch, all or none. The same ``Idempotency-Key`` never adds twice."""
        conversation, key = self.conversation(), self.idempotency_key()
        messages = read_batch(request.data, self.message_format)
        require_room(conversation, messages)
        target = Target.of(conversation, unless_repeated(precondition(request), key))
        change = recorded_change(request, target, lambda: operations.add(target, messages, idempotency_key=key))
        answer = change_to_data(change, self.format_name)
        return Response(answer, status=status.HTTP_201_CREATED, headers={"ETag": self._tag(change)})

    def retrieve(self, request: Request, conversation_id: str, position: str, **kwargs: Any) -> Response:
        """Return one message. It may be synthetic."""
        conversation = self.conversation()
        row = self._row(conversation, position)
        record_read(request, conversation)
        return Response(message_items([row], self.message_format)[0])

    def pin(self, request: Request, conversation_id: str, position: str, **kwargs: Any) -> Response:
        """Pin a message of the memory, so that the window never evicts it."""
        conversation = self.conversation()
        require_bounded(conversation)
        return self._change_pin(conversation, position, operations.pin)

    def unpin(self, request: Request, conversation_id: str, position: str, **kwargs: Any) -> Response:
        """Unpin a message of the memory."""
        return self._change_pin(self.conversation(), position, operations.unpin)

    def _change_pin(
        self, conversation: Conversation, position: str, change_pin: Callable[[Target, int], Change]
    ) -> Response:
        if self.request.data != {}:
            raise invalid("", "expected no body, or {}")
        target = Target.of(conversation, precondition(self.request))
        known = self._row(conversation, position).position
        change, row = change_and_read(
            self.request,
            target,
            lambda: change_pin(target, known),
            # Nobody changes it before the end. The change itself may have deleted it: KEEP_HISTORY.
            lambda made: (
                next((row for row in made.evicted if row.position == known), None)
                or rows_of(made.conversation).get(position=known)
            ),
        )
        [item] = message_items([row], self.message_format, with_words=may_read_words(self.request))
        done = change_to_data(change, self.format_name)
        answer = {"item": item, "memory": done["memory"], "version": done["version"]}
        return Response(answer, headers={"ETag": self._tag(change)})

    def _row(self, conversation: Conversation, position: str) -> Message:
        known = whole_number(position, most=MAX_LIMIT)
        row: Message | None = rows_of(conversation).filter(position=known).first() if known is not None else None
        if row is None:
            raise NotFound("There is no message at this position.")
        return row

    def _tag(self, change: Change) -> str:
        conversation = change.conversation
        return memory_tag(conversation, conversation.version, self.request.query_params.get("format"))
