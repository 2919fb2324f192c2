"""Turns of a conversation: taken, read, followed and stopped."""

from __future__ import annotations

import time
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from typing import Any

from django.core.handlers.asgi import ASGIRequest
from django.db import connections
from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.utils.translation import gettext_noop as _
from rest_framework import serializers, status
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from chatmemory.assistant import Assistant, Turn
from chatmemory.assistant.project import has_assistant, project_assistant
from chatmemory.assistant.turns.opening import running_turn
from chatmemory.core.messages import UserMessage
from chatmemory.database.connections import give_back
from chatmemory.formats.ai_sdk.stream import HEADERS
from chatmemory.models import Conversation
from chatmemory.rest.fields import WholeNumberField
from chatmemory.rest.memory_bounds import require_room
from chatmemory.rest.problems import NotFound
from chatmemory.rest.records import record_change, record_read
from chatmemory.rest.turns.delivery import TaskDelivery, ThreadDelivery
from chatmemory.rest.turns.history import awaited_turn, last_question, turns_to_data
from chatmemory.rest.turns.serializers import NewTurnSerializer, TurnSerializer, UIMessagesSerializer, is_from_use_chat
from chatmemory.rest.turns.stream import LOOK_AGAIN, TurnStream, apaced, arun, follow, paced, run, tell
from chatmemory.rest.turns.taking import TurnAnswer, take_turn
from chatmemory.rest.views.base import ChatMemoryViewSet, call
from chatmemory.staff import READ_TEXT, WRITE_TEXT

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
    """A user says something, and the site's assistant answers."""

    renderer_classes = [*ChatMemoryViewSet.renderer_classes, EventStreamRenderer]
    tag = "turns"

    @call(
        "takeTurn",
        WRITE_TEXT,
        body=NewTurnSerializer,
        answer=TurnSerializer,
        parameters={
            "on_disconnect": serializers.ChoiceField(
                ["finish", "interrupt"],
                default="finish",
                error_messages={"invalid_choice": "expected interrupt or finish, which is the default"},
                help_text="What becomes of a streamed turn whose client goes away: the assistant finishes the answer, "
                "or stops.",
            )
        },
        headers=("Idempotency-Key",),
        problems=(409, 502),
        streams=True,
        throttle="turns",
        example={"message": "Hello! My name is Ann."},
    )
    def take(self, request: Request, conversation_id: str, **kwargs: Any) -> HttpResponseBase:
        """Say something, and have it answered.

        The site's assistant answers. With `Accept: text/event-stream`, and by default for what `useChat` sends, the
        answer is a stream of parts, the AI SDK's UI message stream; its `data-memory` says what was evicted. The
        `Idempotency-Key`, else the ID of the message of `useChat`, makes a retry the same turn. 409 while another turn
        of the conversation is under way.
        """
        conversation, key = self.conversation(), self.idempotency_key()
        interrupts = self.parameter("on_disconnect") == "interrupt"
        said, message_id = self.asked()
        if said is not None:
            require_room(conversation, said)
        assistant = self._assistant()
        record_change(request, conversation, {})
        message = None if said is None else said[0]
        assert message is None or isinstance(message, UserMessage)
        answer = take_turn(assistant, conversation, message, key=key, message_id=message_id, context=request)
        turn, streams = answer.turn, self._streams()
        if turn is None:
            answer.read_again(conversation)
        elif not streams:
            answer.wait(turn)
        if not streams:
            return Response(answer.to_data(self.message_format))
        stream = TurnStream(answer.question, self.message_format)
        if turn is None:
            return self._stream(tell(stream, answer))
        try:
            return self._streamed(turn, answer, stream, conversation, interrupts=interrupts)
        except BaseException:
            turn.release()  # nobody runs it: the thread could not start, say
            raise

    @call(
        "getTurns",
        READ_TEXT,
        answer=UIMessagesSerializer,
        parameters={"before": WholeNumberField(help_text="Only what was said before this position.")},
    )
    def retrieve(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """Get what was said, as the AI SDK's `useChat` shows it.

        The latest turns; `before` for older ones. The answer of a turn that runs now is left out.
        """
        conversation = self.conversation()
        answer = turns_to_data(conversation, self.parameter("before"))
        record_read(request, conversation)
        return Response(answer)

    @call("stopTurn", ("change",))
    def stop(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """Stop the turn that is under way.

        What it has added stays. Nothing is done if none is under way.
        """
        conversation = self.conversation()
        record_change(request, conversation, {})
        self._assistant().interrupt(conversation)
        return Response(status=status.HTTP_204_NO_CONTENT)

    @call("followTurn", READ_TEXT, statuses={204: "No turn is under way."}, streams=True)
    def follow(self, request: Request, conversation_id: str, **kwargs: Any) -> HttpResponseBase:
        """Follow the stream of a turn that is under way.

        What it has stored so far, and then what it stores: whole messages, because only the request that began the turn
        gets deltas. 204 if none is under way.
        """
        conversation = self.conversation()
        number = _turn_to_follow(conversation)
        if number is None:
            return Response(status=status.HTTP_204_NO_CONTENT)
        record_read(request, conversation)
        if request.method == "HEAD":
            return HttpResponse(headers=HEADERS)
        # Now: when the stream is read, another turn may run.
        stream = TurnStream(last_question(conversation), self.message_format)
        events = follow(stream, conversation, number)
        return self._stream(apaced(events) if self._is_async else paced(events))

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(response, Response) and getattr(request, "accepted_media_type", None) == _EVENT_STREAM:
            request.accepted_renderer, request.accepted_media_type = JSONRenderer(), JSONRenderer.media_type
        return super().finalize_response(request, response, *args, **kwargs)

    @property
    def _is_async(self) -> bool:
        return isinstance(self.request._request, ASGIRequest)

    def _assistant(self) -> Assistant:
        if not has_assistant():
            raise NotFound(_('This site has no assistant: CHATMEMORY["ASSISTANT"] is not set on the server.'))
        return project_assistant(self.request)

    def _streams(self) -> bool:
        accepted: str = self.request.accepted_media_type or ""
        # fetch() accepts anything unless it is told otherwise, and useChat reads streams only.
        by_default = "application/json" not in self.request.headers.get("Accept", "")
        return accepted == _EVENT_STREAM or (is_from_use_chat(self.request.data) and by_default)

    def _streamed(
        self, turn: Turn, answer: TurnAnswer, stream: TurnStream, conversation: Conversation, *, interrupts: bool
    ) -> HttpResponseBase:
        if connections[conversation._state.db or "default"].in_atomic_block:
            # A test case: no other thread sees its transaction.
            return self._stream(run(stream, answer, turn))
        leave = turn.interrupt if interrupts else None
        if self._is_async:
            return self._stream(TaskDelivery(arun(stream, answer, turn), leave))
        return self._stream(ThreadDelivery(run(stream, answer, turn), leave))

    def _stream(self, events: Iterable[bytes] | AsyncIterable[bytes]) -> StreamingHttpResponse:
        if self._is_async and not isinstance(events, AsyncIterable):
            events = _ready(list(events))  # Django would say in a warning that it does this itself
        # Or GZipMiddleware would compress it, which under WSGI keeps events until there are enough of them.
        return StreamingHttpResponse(events, headers={**HEADERS, "Content-Encoding": "identity"})


def _turn_to_follow(conversation: Conversation) -> int | None:
    """Return the number of the turn that runs; None if none runs, or it has nothing to answer."""
    until = time.monotonic() + _LONGEST_OPENING
    while running_turn(conversation) is not None:
        if (number := awaited_turn(conversation)) is not None or time.monotonic() > until:
            return number
        give_back()
        time.sleep(LOOK_AGAIN / 10)
    return None


async def _ready(events: list[bytes]) -> AsyncIterator[bytes]:
    for event in events:
        yield event
