"""The memory of a conversation: now, at a past version, or in another window."""

from __future__ import annotations

from typing import Any

from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from chatmemory.core.numbers import whole_number
from chatmemory.database import operations
from chatmemory.database.batches import rows_of
from chatmemory.database.operations.replay import replay
from chatmemory.database.operations.try_window import fit_rows
from chatmemory.database.prefix import fresh_rows, prefix_version_at
from chatmemory.database.target import Target
from chatmemory.database.to_format import written_memory
from chatmemory.models import MAX_LIMIT, Conversation
from chatmemory.rest.bodies import read_list, read_memory
from chatmemory.rest.memory_bounds import require_bounded, require_room
from chatmemory.rest.preconditions import memory_tag, not_modified, precondition
from chatmemory.rest.problems import invalid
from chatmemory.rest.records import change_and_read, record_read, recorded_change
from chatmemory.rest.replays import read_variants, replays_to_data
from chatmemory.rest.serializers import (
    WindowSerializer,
    change_to_data,
    memory_to_data,
    message_items,
    trial_to_data,
)
from chatmemory.rest.tool_clearing import ToolClearingSerializer
from chatmemory.rest.views.base import ChatMemoryViewSet
from chatmemory.staff import READ_WORDS, WRITE_WORDS

__all__ = ["MemoryViewSet"]


class MemoryViewSet(ChatMemoryViewSet):
    """The memory of a conversation."""

    serializer_class = WindowSerializer
    acts = {
        "retrieve": READ_WORDS,
        "update": WRITE_WORDS,
        "destroy": ("change",),
        "preview": READ_WORDS,
        "clear_tool_results": WRITE_WORDS,
        "replay": ("view",),
    }
    parameters = {"retrieve": {"at", "at_message"}}
    whole_memory = {"retrieve"}

    def retrieve(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """Return the messages that the model gets now, or got at a past version."""
        conversation = self.conversation()
        version = self._version(conversation)
        unchanged = not_modified(request, self._tag(conversation, version))
        if unchanged:
            return unchanged
        require_bounded(conversation, None if version == conversation.version else version)
        if version == conversation.version:
            now = fit_rows(conversation)
            version = conversation.version
            rows, prefix_version = now.retained, now.prefix_version
        else:
            rows = list(rows_of(conversation).in_memory_at(version))
            binds = self.message_format.binds_thinking  # otherwise nobody asks, and the rows may be many
            prefix_version = prefix_version_at(conversation, version) if binds else version
        fresh = fresh_rows(rows, prefix_version)
        messages = written_memory(conversation, [row.message for row in rows], fresh, self.format_name)
        answer = memory_to_data(rows, messages, conversation, version)
        record_read(request, conversation)
        return Response(answer, headers={"ETag": self._tag(conversation, version)})

    def update(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """Make the given messages the memory; those that are new are synthetic. History stays."""
        found = self.conversation()
        target = Target.of(found, precondition(request))
        messages = read_memory(request.data, self.message_format)
        require_bounded(found)
        require_room(found, messages, in_place=True)
        change = recorded_change(request, target, lambda: operations.rewrite(target, messages))
        conversation = change.conversation
        rows = list(rows_of(conversation).in_memory_at(conversation.version))
        fresh = fresh_rows(rows, conversation.prefix_version)
        written = self.message_format.write_memory([row.message for row in rows], fresh)
        answer = memory_to_data(rows, written, conversation, conversation.version)
        for name, changed in ("added", change.added), ("evicted", change.evicted):
            answer[name] = message_items(changed, self.message_format)
        return Response(answer, headers={"ETag": self._tag(conversation, conversation.version)})

    def destroy(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """Clear the memory. History stays."""
        target = Target.of(self.conversation(), precondition(request))
        recorded_change(request, target, lambda: operations.clear(target))
        return Response(status=status.HTTP_204_NO_CONTENT)

    def preview(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """Return the memory under another window, with new messages if any are given. Nothing is written."""
        conversation = self.conversation()
        if not isinstance(request.data, dict):
            raise invalid("", "expected an object")
        window = {name: value for name, value in request.data.items() if name != "messages"}
        serializer = self.get_serializer(data=window)
        serializer.is_valid(raise_exception=True)
        given = request.data.get("messages", [])
        messages = read_list(given, "messages", self.message_format, "MAX_BATCH")
        require_bounded(conversation)
        trial = conversation.memory.try_window(**serializer.validated_data, messages=messages)
        record_read(request, conversation)
        return Response(trial_to_data(trial, self.message_format))

    def clear_tool_results(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """Put placeholders in the place of old tool results. History stays."""
        found = self.conversation()
        target = Target.of(found, precondition(request))
        serializer = ToolClearingSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        require_bounded(found)
        change, _ = change_and_read(
            request,
            target,
            lambda: operations.clear_tool_results(target, **serializer.validated_data),
            lambda made: require_bounded(made.conversation),  # fewer tokens may be more characters
        )
        tag = self._tag(change.conversation, change.conversation.version)
        return Response(change_to_data(change, self.format_name), headers={"ETag": tag})

    def replay(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """Return in figures what the requests to the model were, and what other windows would have made of them."""
        conversation = self.conversation()
        variants = read_variants(request.data, conversation)
        recorded, *others = replay(conversation, [None, *variants])
        return Response(replays_to_data(recorded, others))

    def _tag(self, conversation: Conversation, version: int) -> str:
        return memory_tag(conversation, version, self.request.query_params.get("format"))

    def _version(self, conversation: Conversation) -> int:
        at, position = (self._number(name) for name in ("at", "at_message"))
        if at is not None and position is not None:
            raise invalid("at_message", "give at or at_message, not both")
        if position is not None:
            added_in = rows_of(conversation).filter(position=position).values_list("added_in", flat=True).first()
            if added_in is None:
                raise invalid("at_message", f"there is no message at position {position}")
            return int(added_in)
        if at is not None and at > conversation.version:
            raise invalid("at", f"there are versions from 0 to {conversation.version}, but no {at}")
        return conversation.version if at is None else at

    def _number(self, name: str) -> int | None:
        text = self.request.query_params.get(name)
        if text is None:
            return None
        number = whole_number(text, most=MAX_LIMIT)
        if number is None:
            raise invalid(name, f"expected a whole number from 0 to {MAX_LIMIT}")
        return number
