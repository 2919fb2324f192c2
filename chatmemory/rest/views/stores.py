"""The three methods of a ``ChatMemoryStore`` over HTTP, for programs that are written with LangChain4j."""

from __future__ import annotations

from contextlib import suppress

from django.db import router
from django.http import HttpResponse, HttpResponseBase
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.json_text import dumps
from chatmemory.database import operations
from chatmemory.database.change import Change
from chatmemory.database.read import read_rows
from chatmemory.database.target import Target
from chatmemory.models import Conversation
from chatmemory.models.identifiers import memory_id_text
from chatmemory.rest.access import require, require_reachable, single_owner
from chatmemory.rest.as_sent import how_they_came, row_to_data
from chatmemory.rest.bodies import read_list
from chatmemory.rest.formats import DEFAULT_FORMAT
from chatmemory.rest.memory_bounds import require_bounded, require_list_bounded
from chatmemory.rest.preconditions import memory_tag, not_modified, precondition
from chatmemory.rest.problems import invalid
from chatmemory.rest.records import record_read, recorded_change
from chatmemory.rest.views.base import ChatMemoryViewSet
from chatmemory.staff import READ_WORDS, WRITE_WORDS

__all__ = ["StoreViewSet"]


class StoreViewSet(ChatMemoryViewSet):
    """A memory by its own ID, as the bare JSON array that LangChain4j reads and writes.

    The window is the other program's: nothing is evicted but what it leaves out.
    """

    acts = {"retrieve": READ_WORDS, "update": WRITE_WORDS, "destroy": ("change",)}

    def initial(self, request: Request, *args: object, **kwargs: object) -> None:
        super().initial(request, *args, **kwargs)
        if self.format_name != DEFAULT_FORMAT:
            raise invalid("format", f"stores/ takes {DEFAULT_FORMAT} only; leave format out")
        try:
            self.memory_id = memory_id_text(self.kwargs["memory_id"])
        except InvalidMessageError:
            raise
        except ValueError as error:
            raise invalid("memory_id", str(error)) from error

    def retrieve(self, request: Request, memory_id: str, **kwargs: object) -> HttpResponseBase:
        """Answer ``getMessages``: all messages of the memory, ``[]`` for an unknown one."""
        conversation = self._existing()
        fresh = not_modified(request, self._tag(conversation))
        if fresh:
            return fresh
        if conversation:
            require_bounded(conversation)
        rows = read_rows(conversation) if conversation else []
        text = dumps([row_to_data(row) for row in rows])
        if conversation:
            record_read(request, conversation)
        return HttpResponse(text, content_type="application/json", headers={"ETag": self._tag(conversation)})

    def update(self, request: Request, memory_id: str, **kwargs: object) -> Response:
        """Answer ``updateMessages``: evict the messages that the list leaves out; those that it appends were said."""
        owner = single_owner(request, *self.acts[self.action])
        existing = self._existing()
        if existing is None:
            require(request, "add")
        else:
            require_bounded(existing)
        messages = read_list(request.data, "", self.message_format, "MAX_MEMORY_MESSAGES", how_they_came)
        require_list_bounded(messages)
        demanded = precondition(request, may_be_new=True)

        def check(row: Conversation) -> None:
            if not row._state.adding:  # before anything tells of it, such as its version
                require_reachable(request, target.key.database, row.pk)
            if demanded:
                demanded(row)

        target = Target.named(owner, self.memory_id, lambda: Conversation(owner=owner, memory_id=self.memory_id), check)

        def rewrite() -> Change:
            change = operations.rewrite(target, messages, from_foreign_memory=True)
            # A conversation that was made just now has been checked by nobody.
            require_reachable(request, target.key.database, change.conversation.pk)
            return change

        change = recorded_change(request, target, rewrite)
        return Response(status=status.HTTP_204_NO_CONTENT, headers={"ETag": self._tag(change.conversation)})

    def destroy(self, request: Request, memory_id: str, **kwargs: object) -> Response:
        """Answer ``deleteMessages``: clear the memory, if there is one. The history stays."""
        conversation, demanded = self._existing(), precondition(request, may_be_new=True)
        if conversation is not None:
            target = Target.of(conversation, demanded)
            with suppress(Conversation.DoesNotExist):
                recorded_change(request, target, lambda: operations.clear(target))
        return Response(status=status.HTTP_204_NO_CONTENT)

    def _tag(self, conversation: Conversation | None) -> str:
        return memory_tag(conversation or Conversation(memory_id=self.memory_id), "store")

    def _existing(self) -> Conversation | None:
        owner = single_owner(self.request, *self.acts[self.action])
        database = router.db_for_write(Conversation)
        conversation = self.conversations().using(database).named(owner, self.memory_id).first()
        if conversation is not None:
            self.check_object_permissions(self.request, conversation)
        return conversation
