"""Turns of a conversation: taken, read, followed and stopped."""

from __future__ import annotations

import time
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence
from typing import Any

from django.core.handlers.asgi import ASGIRequest
from django.db import connections
from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse
from rest_framework import status
from rest_framework.exceptions import NotFound
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle

from chatmemory.assistant import Assistant
from chatmemory.assistant.begun import BegunTurn
from chatmemory.assistant.project import has_assistant, project_assistant
from chatmemory.assistant.turns.opening import running_turn
from chatmemory.core.numbers import whole_number
from chatmemory.database.connections import give_back
from chatmemory.formats.ai_sdk.stream import HEADERS
from chatmemory.models import MAX_LIMIT, Conversation, Message
from chatmemory.rest.memory_bounds import require_room
from chatmemory.rest.problems import invalid
from chatmemory.rest.records import record_change, record_read
from chatmemory.rest.throttling import throttles
from chatmemory.rest.turns.answers import TurnAnswer, stored_answer
from chatmemory.rest.turns.bodies import AskedTurn, read_turn
from chatmemory.rest.turns.delivery import TurnInTask, TurnInThread
from chatmemory.rest.turns.following import LOOK_AGAIN, RunningTurn, afollowed, followed
from chatmemory.rest.turns.history import turns_to_data
from chatmemory.rest.turns.parts import TurnParts, aturn_parts, stored_parts, turn_parts
from chatmemory.rest.turns.problems import problem_of_turn
from chatmemory.rest.turns.rows import awaited_turn
from chatmemory.rest.turns.taking import TakenTurn, take_turn
from chatmemory.rest.views.base import ChatMemoryViewSet
from chatmemory.staff import READ_WORDS, WRITE_WORDS

__all__ = ["TurnViewSet"]

_EVENT_STREAM = "text/event-stream"
_LONGEST_OPENING = 2.0
"""Seconds to wait for the message of a turn that has begun."""


class EventStreamRenderer(BaseRenderer):
    """A renderer by whose name requests ask for a stream, which the views write themselves."""

    media_type = _EVENT_STREAM
    format = "event-stream"
    charset = None


class TurnViewSet(ChatMemoryViewSet):
    """The turns of a conversation."""

    renderer_classes = [*ChatMemoryViewSet.renderer_classes, EventStreamRenderer]
    acts = {"take": WRITE_WORDS, "retrieve": READ_WORDS, "stop": ("change",), "follow": READ_WORDS}
    parameters = {"take": {"on_disconnect"}, "retrieve": {"before"}}

    def get_throttles(self) -> list[BaseThrottle]:
        if self.action == "take":
            return [*super(ChatMemoryViewSet, self).get_throttles(), *throttles("turns")]
        return super().get_throttles()

    def take(self, request: Request, conversation_id: str, **kwargs: Any) -> HttpResponseBase:
        """Take a turn: add what the user says, and return or stream the assistant's answer."""
        conversation, key = self.conversation(), self.idempotency_key()
        interrupts = self._interrupts()
        asked = read_turn(request.data, self.message_format)
        if asked.said is not None:
            require_room(conversation, asked.said)
        assistant = self._assistant()
        record_change(request, conversation, {})
        turn = take_turn(assistant, conversation, asked, key=key, context=request)
        streams = self._streams(asked)
        if turn.begun is None:
            return self._stored(turn, conversation, streams)
        if not streams:
            return Response(self._answered(turn.begun))
        parts = TurnParts(turn.question, self.format_name)
        try:
            return self._streamed(turn.begun, turn.rows, parts, conversation, interrupts=interrupts)
        except BaseException:
            turn.begun.release()  # nobody runs it: the thread could not start, say
            raise

    def retrieve(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """Return the latest turns as UI messages."""
        conversation = self.conversation()
        text = request.query_params.get("before")
        before = None if text is None else whole_number(text, most=MAX_LIMIT)
        if text is not None and before is None:
            raise invalid("before", f"expected a whole number from 0 to {MAX_LIMIT}")
        answer = turns_to_data(conversation, before)
        record_read(request, conversation)
        return Response(answer)

    def stop(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """Stop the turn that is under way, in whatever process."""
        conversation = self.conversation()
        record_change(request, conversation, {})
        self._assistant().interrupt(conversation)
        return Response(status=status.HTTP_204_NO_CONTENT)

    def follow(self, request: Request, conversation_id: str, **kwargs: Any) -> HttpResponseBase:
        """Stream what a running turn has stored, and what it stores from now on; 204 if none runs."""
        conversation = self.conversation()
        number = _turn_to_follow(conversation)
        if number is None:
            return Response(status=status.HTTP_204_NO_CONTENT)
        record_read(request, conversation)
        if request.method == "HEAD":
            return HttpResponse(headers=HEADERS)
        running = RunningTurn(conversation, number, self.format_name, self.message_format)
        return self._stream(afollowed(running) if self._is_async else followed(running))

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(response, Response) and getattr(request, "accepted_media_type", None) == _EVENT_STREAM:
            request.accepted_renderer, request.accepted_media_type = JSONRenderer(), JSONRenderer.media_type
        return super().finalize_response(request, response, *args, **kwargs)

    @property
    def _is_async(self) -> bool:
        return isinstance(self.request._request, ASGIRequest)

    def _assistant(self) -> Assistant:
        if not has_assistant():
            raise NotFound('This site has no assistant: CHATMEMORY["ASSISTANT"] is not set on the server.')
        return project_assistant(self.request)

    def _interrupts(self) -> bool:
        chosen = self.request.query_params.get("on_disconnect")
        if chosen not in (None, "interrupt", "finish"):
            raise invalid("on_disconnect", "expected interrupt or finish, which is the default")
        return chosen == "interrupt"

    def _streams(self, asked: AskedTurn) -> bool:
        accepted: str = self.request.accepted_media_type or ""
        # fetch() accepts anything unless it is told otherwise, and useChat reads streams only.
        by_default = asked.is_from_use_chat and "application/json" not in self.request.headers.get("Accept", "")
        return accepted == _EVENT_STREAM or by_default

    def _streamed(
        self,
        turn: BegunTurn,
        rows: Sequence[Message],
        parts: TurnParts,
        conversation: Conversation,
        *,
        interrupts: bool,
    ) -> HttpResponseBase:
        if connections[conversation._state.db or "default"].in_atomic_block:
            # A test case: no other thread sees its transaction.
            return self._stream(turn_parts(turn, rows, parts))
        leave = turn.interrupt if interrupts else None
        if self._is_async:
            return self._stream(TurnInTask(aturn_parts(turn, rows, parts), leave))
        return self._stream(TurnInThread(turn_parts(turn, rows, parts), leave))

    def _answered(self, turn: BegunTurn) -> Any:
        answer = TurnAnswer(turn.changes)
        try:
            for event in turn.events():
                answer.take(event)
        except Exception as error:
            raise problem_of_turn(error) from error
        return answer.to_data(self.format_name)

    def _stored(self, turn: TakenTurn, conversation: Conversation, streams: bool) -> HttpResponseBase:
        conversation.refresh_from_db(using=conversation._state.db)
        data = stored_answer(turn, conversation).to_data(self.format_name)
        if not streams:
            return Response(data)
        memory = {name: data[name] for name in ("added", "evicted", "memory", "version")}
        return self._stream(stored_parts(turn, memory, TurnParts(turn.question, self.format_name)))

    def _stream(self, parts: Iterable[bytes] | AsyncIterable[bytes]) -> StreamingHttpResponse:
        if self._is_async and not isinstance(parts, AsyncIterable):
            parts = _ready(list(parts))  # Django would say in a warning that it does this itself
        # Or GZipMiddleware would compress it, which under WSGI keeps pieces until there are enough of them.
        return StreamingHttpResponse(parts, headers={**HEADERS, "Content-Encoding": "identity"})


def _turn_to_follow(conversation: Conversation) -> int | None:
    """Return the number of the turn that runs; None if none runs, or it has nothing to answer."""
    until = time.monotonic() + _LONGEST_OPENING
    while running_turn(conversation) is not None:
        if (number := awaited_turn(conversation)) is not None or time.monotonic() > until:
            return number
        give_back()
        time.sleep(LOOK_AGAIN / 10)
    return None


async def _ready(parts: list[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part
