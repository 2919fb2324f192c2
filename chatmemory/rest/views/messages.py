"""The messages of a conversation: the history, one message, and additions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django_filters.rest_framework import DjangoFilterBackend
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from chatmemory.core.arguments import whole_number
from chatmemory.database.change import Change
from chatmemory.database.reading import rows_of
from chatmemory.models import MAX_LIMIT, Conversation, Message
from chatmemory.rest.access import may_read_text
from chatmemory.rest.filters import MessageFilter, MessagePagination, StrictOrderingFilter
from chatmemory.rest.preconditions import precondition
from chatmemory.rest.problems import NotFound, invalid
from chatmemory.rest.requests import require_bounded
from chatmemory.rest.serializers import (
    EXAMPLE,
    ChangeSerializer,
    CountField,
    HistoryItemSerializer,
    MemorySizeSerializer,
    NewMessagesSerializer,
    PageSerializer,
    message_items,
)
from chatmemory.rest.views.viewset import ChatMemoryViewSet, call, change_to_record, record_change, record_read
from chatmemory.staff import READ_TEXT, WRITE_TEXT


class HistoryPageSerializer(PageSerializer):
    """One page."""

    results = HistoryItemSerializer(many=True)


class AdditionSerializer(ChangeSerializer):
    """What an addition did. A system message that is there already is not added."""


class ChangedPinSerializer(serializers.Serializer[Any]):
    """A message that was pinned or unpinned."""

    item = HistoryItemSerializer()
    memory = MemorySizeSerializer()
    version = CountField()


class MessageViewSet(ChatMemoryViewSet):
    """The history: every message that was said, in the memory or no longer."""

    tag = "messages"
    serializer_class = HistoryItemSerializer
    pagination_class = MessagePagination
    filter_backends = [DjangoFilterBackend, StrictOrderingFilter]
    filterset_class = MessageFilter
    ordering_fields = ["position"]
    ordering = ["position"]

    @call("listMessages", READ_TEXT, answer=HistoryPageSerializer)
    def list(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """List the history.

        In the order said, in pages; `ordering=-position` for newest first. Without what is synthetic, unless `origin`
        asks for it.
        """
        conversation = self.conversation()
        history = self.filter_queryset(conversation.messages.all())
        page = self.paginate_queryset(history)
        record_read(request, conversation)
        return self.get_paginated_response(message_items(page or [], self.message_format))

    @call(
        "addMessages",
        WRITE_TEXT,
        body=NewMessagesSerializer,
        answer=AdditionSerializer,
        headers=("Idempotency-Key", "If-Match", "ETag"),
        example=EXAMPLE,
    )
    def create(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """Add messages.

        One, or several that are added all or none. The answer says what was added and what had to leave.
        """
        conversation, key = self.conversation(), self.idempotency_key()
        change = conversation.memory.add_all(self.asked(), idempotency_key=key, **self.terms(key))
        return self.changed(change, status.HTTP_201_CREATED)

    @call("getMessage", READ_TEXT, answer=HistoryItemSerializer)
    def retrieve(self, request: Request, conversation_id: str, position: str, **kwargs: Any) -> Response:
        """Get one message.

        Also if it is synthetic.
        """
        conversation = self.conversation()
        row = self._row(conversation, position)
        record_read(request, conversation)
        return Response(message_items([row], self.message_format)[0])

    @call("pinMessage", ("change",), answer=ChangedPinSerializer, headers=("If-Match", "ETag"), problems=(413,))
    def pin(self, request: Request, conversation_id: str, position: str, **kwargs: Any) -> Response:
        """Pin a message.

        The window never evicts it, nor its tool call or results. A rewrite without it, or clearing the memory, takes it
        out. 400 if it is no longer in the memory, or pinned messages would take more than half of the limit. No body.
        """
        conversation = self.conversation()
        require_bounded(conversation)
        return self._change_pin(conversation, position, conversation.memory.pin)

    @call("unpinMessage", ("change",), answer=ChangedPinSerializer, headers=("If-Match", "ETag"))
    def unpin(self, request: Request, conversation_id: str, position: str, **kwargs: Any) -> Response:
        """Unpin a message.

        What no longer fits the window is evicted. 400 if it is no longer in the memory. No body.
        """
        conversation = self.conversation()
        return self._change_pin(conversation, position, conversation.memory.unpin)

    def _change_pin(self, conversation: Conversation, position: str, change_pin: Callable[..., Change]) -> Response:
        if self.request.data != {}:
            raise invalid("", "expected no body, or {}")
        demanded = precondition(self.request)
        known = self._row(conversation, position).position
        found: list[Message] = []

        def read_and_record(made: Change) -> None:
            # Nobody changes it before the end. The change itself may have deleted it: KEEP_HISTORY.
            gone = next((row for row in made.evicted if row.position == known), None)
            found[:] = [gone or rows_of(made.conversation).get(position=known)]
            record_change(self.request, made.conversation, change_to_record(made))

        change = change_pin(known, precondition=demanded, also=read_and_record)
        [item] = message_items(found, self.message_format, with_text=may_read_text(self.request))
        answer = {"item": item, **change.memory.to_data()}
        return Response(answer, headers={"ETag": self.tag_of(change.conversation)})

    def _row(self, conversation: Conversation, position: str) -> Message:
        known = whole_number(position, most=MAX_LIMIT)
        row: Message | None = rows_of(conversation).filter(position=known).first() if known is not None else None
        if row is None:
            raise NotFound("There is no message at this position.")
        return row
