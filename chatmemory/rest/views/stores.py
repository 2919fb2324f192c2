"""The three methods of a ``ChatMemoryStore`` over HTTP, for programs that are written with LangChain4j."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from django.db import router
from django.http import HttpResponse, HttpResponseBase
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from chatmemory.conf import setting
from chatmemory.core.exceptions import InvalidValueError
from chatmemory.core.json_text import dumps
from chatmemory.core.serialization import message_to_data
from chatmemory.database.change import Change
from chatmemory.database.new_messages import NativeForms, NewMessages
from chatmemory.database.reading import read_rows, request_bound
from chatmemory.formats.schemas import Schema, list_of, ref
from chatmemory.models import Conversation, Message
from chatmemory.models.fields import memory_id_text
from chatmemory.rest.access import require, require_reachable, single_owner
from chatmemory.rest.problems import invalid
from chatmemory.rest.requests import DEFAULT_FORMAT, memory_tag, not_modified, precondition, require_bounded
from chatmemory.rest.serializers import EXAMPLE, WholeSerializer, read_list
from chatmemory.rest.views.viewset import ChatMemoryViewSet, call, record_read, recording
from chatmemory.staff import READ_TEXT, WRITE_TEXT
from chatmemory.stores import DjangoChatMemoryStore

# How messages of other versions of LangChain4j came: they go out the same way. Up to 1.12 a tool result has `text`,
# later `contents`; up to 1.1 an answer has no `attributes`, and one that has cannot be read. Later versions read both.
_FRAMEWORK = "langchain4j"
_AS_TEXT = "text"
_BARE = "without attributes"


class StoreSerializer(WholeSerializer):
    """The memory as LangChain4j's stores have it."""

    def to_internal_value(self, data: Any) -> NewMessages:
        return read_list(
            data,
            "",
            self.context["format"],
            "MAX_MEMORY_MESSAGES",
            _how_they_came,
            written_by=self.context["written_by"],
        )

    def openapi(self) -> Schema:
        return list_of(ref("ChatMessage"), maxItems=setting("MAX_MEMORY_MESSAGES"))


class StoreViewSet(ChatMemoryViewSet):
    """LangChain4j's ChatMemoryStore over HTTP: the three methods, by memory ID."""

    tag = "stores"

    def initial(self, request: Request, *args: object, **kwargs: object) -> None:
        super().initial(request, *args, **kwargs)
        if self.format_name != DEFAULT_FORMAT:
            raise invalid("format", "stores/ takes %(format)s only; leave format out", format=DEFAULT_FORMAT)
        try:
            self.memory_id = memory_id_text(self.kwargs["memory_id"])
        except InvalidValueError as error:
            raise invalid("memory_id", error) from error

    @call("getStore", READ_TEXT, answer=StoreSerializer, headers=("If-None-Match", "ETag"), problems=(413,))
    def retrieve(self, request: Request, memory_id: str, **kwargs: object) -> HttpResponseBase:
        """getMessages.

        All messages of the memory; none where there is no such memory.
        """
        conversation = self._existing()
        fresh = not_modified(request, self._tag(conversation))
        if fresh:
            return fresh
        if conversation:
            require_bounded(conversation)
        rows = read_rows(conversation) if conversation else []
        text = dumps([_row_to_data(row) for row in rows])
        if conversation:
            record_read(request, conversation)
        return HttpResponse(text, content_type="application/json", headers={"ETag": self._tag(conversation)})

    @call("updateStore", WRITE_TEXT, body=StoreSerializer, headers=("If-Match", "ETag"), example=[EXAMPLE])
    def update(self, request: Request, memory_id: str, **kwargs: object) -> Response:
        """updateMessages.

        What the list leaves out is evicted, what it appends was said; nothing else is evicted, because the window is
        yours. Makes the conversation if there is none.
        """
        owner = single_owner(request, *self.call.permission)
        existing = self._existing()
        if existing is None:
            require(request, "add")
        else:
            require_bounded(existing)
        messages = self.asked()
        demanded, record = precondition(request, may_be_new=True), recording(request)
        database = router.db_for_write(Conversation)

        def check(row: Conversation) -> None:
            if not row._state.adding:  # before anything tells of it, such as its version
                require_reachable(request, database, row.pk)
            if demanded:
                demanded(row)

        def check_and_record(change: Change) -> None:
            # A conversation that was made just now has been checked by nobody.
            require_reachable(request, database, change.conversation.pk)
            if record:
                record(change)

        change = DjangoChatMemoryStore(owner).rewrite(
            self.memory_id, messages, precondition=check, most=request_bound(), also=check_and_record
        )
        return Response(status=status.HTTP_204_NO_CONTENT, headers={"ETag": self._tag(change.conversation)})

    @call("deleteStore", ("change",), headers=("If-Match",))
    def destroy(self, request: Request, memory_id: str, **kwargs: object) -> Response:
        """deleteMessages.

        Clears the memory, if there is one. The history keeps everything.
        """
        conversation, demanded = self._existing(), precondition(request, may_be_new=True)
        if conversation is not None:
            with suppress(Conversation.DoesNotExist):
                conversation.memory.clear(precondition=demanded, also=recording(request))
        return Response(status=status.HTTP_204_NO_CONTENT)

    def _tag(self, conversation: Conversation | None) -> str:
        return memory_tag(conversation or Conversation(memory_id=self.memory_id), "store")

    def _existing(self) -> Conversation | None:
        owner = single_owner(self.request, *self.call.permission)
        database = router.db_for_write(Conversation)
        conversation = self.conversations().using(database).named(owner, self.memory_id).first()
        if conversation is not None:
            self.check_object_permissions(self.request, conversation)
        return conversation


def _how_they_came(data: list[Any]) -> NativeForms:
    """Return the note for each message of a list in LangChain4j's JSON, which was read without an error."""
    return NativeForms(_FRAMEWORK, [_how_it_came(item) for item in data])


def _how_it_came(item: dict[str, Any]) -> str | None:
    match item["type"]:
        case "TOOL_EXECUTION_RESULT" if isinstance(item.get("text"), str) and not item.get("attributes"):
            return _AS_TEXT
        case "AI" if item.get("attributes") is None:
            return _BARE
    return None


def _row_to_data(row: Message) -> dict[str, Any]:
    """Return the message of a row in LangChain4j's JSON."""
    data = message_to_data(row.message)
    came = None if row.native is None else row.native_of(_FRAMEWORK)
    if came == _AS_TEXT:
        rest = {key: value for key, value in data.items() if key not in {"contents", "attributes", "type"}}
        return {**rest, "text": row.text, "type": data["type"]}
    if came == _BARE:
        del data["attributes"]
    return data
