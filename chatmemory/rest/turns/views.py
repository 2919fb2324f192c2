"""Turns of a conversation: taken, read, followed and stopped."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Mapping
from functools import partial
from typing import Any

from django.core.handlers.asgi import ASGIRequest
from django.db import connections
from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.utils.translation import gettext_noop as _
from rest_framework import serializers, status
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from chatmemory.assistant import Assistant
from chatmemory.assistant.project import has_assistant, project_assistant
from chatmemory.conf import setting
from chatmemory.core.messages import UserMessage
from chatmemory.database.new_messages import NewMessages
from chatmemory.formats import MessageFormat
from chatmemory.formats.ai_sdk.stream import HEADERS
from chatmemory.formats.registry import BUILT_IN, message_format, message_formats
from chatmemory.formats.schemas import NOT_BLANK, Schema, closed, constant, list_of, ref, text
from chatmemory.rest.access import writer
from chatmemory.rest.problems import NotFound, invalid
from chatmemory.rest.serializers import ChangeSerializer, CountField, MessageField, WholeNumberField, read_one
from chatmemory.rest.turns.history import last_question, turns_to_data
from chatmemory.rest.turns.stream import (
    TaskDelivery,
    ThreadDelivery,
    TurnStream,
    afollow,
    follow,
    turn_to_follow,
    wait_until_stopped,
)
from chatmemory.rest.turns.taking import take_turn
from chatmemory.rest.views.viewset import ChatMemoryViewSet, call, record_change, record_read
from chatmemory.staff import READ_TEXT, WRITE_TEXT

_EVENT_STREAM = "text/event-stream"
_LONGEST_ID = 255


class NewTurnSerializer(serializers.BaseSerializer[Any]):
    """What the user says: `message`, or what the AI SDK's `useChat` sends."""

    def run_validation(self, data: Any = None) -> tuple[NewMessages | None, str | None]:
        """Read the body.

        The message has none of the attributes in which formats keep what a provider gets again. Of the messages of
        ``useChat`` only the last one of the user is read: the others are in the database, and what a browser says of
        them is not to be believed.

        Returns:
            the user's message, or None to go on from where the conversation stands; and the ID that ``useChat`` gave
            it.

        Raises:
            ValidationError, InvalidMessageError: the body is something else, or its message is too long, or not of a
                user.
        """
        if not isinstance(data, Mapping):
            raise invalid("", 'expected an object, such as {"message": "Hello"}', code="invalid_type")
        if is_from_use_chat(data):
            return _read_use_chat(data)
        unknown = next((name for name in data if name != "message"), None)
        if unknown is not None:
            raise invalid(
                unknown[:100], "unknown field; expected message, or the body that useChat sends", code="unknown_field"
            )
        given = data.get("message")
        return (None if given is None else _read_message(given, self.context["format"])), None

    def openapi(self) -> Schema:
        """Return the schema."""
        most = setting("MAX_MESSAGE_CHARS") - 200  # for what is around it
        message = {
            "anyOf": [
                text(minLength=1, maxLength=most, pattern=NOT_BLANK),
                ref("UserMessage"),
                ref("OpenAiUserMessage"),
                {"type": "null"},
            ],
            "description": "What the user says: a text or a message. Without it the turn goes on from where the "
            "conversation stands, after a failure for example.",
        }
        part = closed({"type": constant("text"), "text": text(pattern=NOT_BLANK, maxLength=1000)})
        said = {
            "id": text("The idempotency key.", minLength=1, maxLength=255, pattern="^[!-~]+$"),
            "role": constant("user"),
            "parts": list_of(part, "Files may be among them, too.", minItems=1),
        }
        messages = list_of(
            {"type": "object", "properties": said, "required": [*said]},
            "Only the last one whose role is user is read. Of the other fields none is.",
            minItems=1,
        )
        use_chat = {"type": "object", "properties": {"messages": messages}, "required": ["messages"]}
        return {"anyOf": [closed({}, {"message": message}), use_chat]}


class UsageSerializer(serializers.Serializer[Any]):
    """The tokens that the model's server counted."""

    input_tokens = CountField(allow_null=True)
    output_tokens = CountField(allow_null=True)
    cached_input_tokens = CountField(allow_null=True)
    reasoning_tokens = CountField(allow_null=True)


class TurnSerializer(ChangeSerializer):
    """An answer, and what the turn added and evicted."""

    answer = MessageField(help_text="In the format that was asked for.")
    usage = UsageSerializer(
        allow_null=True,
        help_text="Of all calls of the turn together; null where it said nothing, or was not asked.",
    )


class UIMessagesField(serializers.ReadOnlyField):
    """Messages as the AI SDK's ``useChat`` has them."""

    def openapi(self) -> Schema:
        """Return the schema."""
        return list_of(ref("UIMessage"))


class UIMessagesSerializer(serializers.Serializer[Any]):
    """What was said, as `useChat` shows it."""

    messages = UIMessagesField(help_text="The latest 50 turns, without the answer of a running one.")
    before = CountField(allow_null=True, help_text="For older ones; null: there are none.")
    running = serializers.BooleanField(
        help_text="Whether a turn runs, whose answer turns/stream/ has. If that is a 204, the turn has ended; read "
        "again."
    )


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
        users=True,
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
        message = None if said is None else said[0]
        assert message is None or isinstance(message, UserMessage)
        answer = take_turn(
            self._assistant(),
            conversation,
            message,
            key=key,
            message_id=message_id,
            context=request,
            written_by=writer(request),
            record=partial(record_change, request, conversation, {}),
        )
        streams = self._streams()
        if answer.turn is None:
            answer.read_again(conversation)
        elif not streams:
            answer.wait(answer.turn)
        if not streams:
            return Response(answer.to_data(self.message_format, self.reader))
        stream = TurnStream(answer.question, self.message_format, self.reader)
        # In a test case no other thread sees the transaction.
        here = connections[conversation._state.db or "default"].in_atomic_block
        delivery = TaskDelivery if self._is_async else ThreadDelivery
        return self._stream(delivery(stream, answer, interrupts=interrupts, here=here))

    @call(
        "getTurns",
        READ_TEXT,
        users=True,
        answer=UIMessagesSerializer,
        parameters={"before": WholeNumberField(help_text="Only what was said before this position.")},
    )
    def retrieve(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """Get what was said, as the AI SDK's `useChat` shows it.

        The latest turns; `before` for older ones. The answer of a turn that runs now is left out.
        """
        conversation = self.conversation()
        answer = turns_to_data(conversation, self.parameter("before"), self.reader)
        record_read(request, conversation)
        return Response(answer)

    @call("stopTurn", ("change",), users=True)
    def stop(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """Stop the turn that is under way.

        What it has added stays. The text that its stream has sent of the answer becomes the answer, with the attribute
        `stopped`, unless the site discards such answers. Nothing is done if none is under way.
        """
        conversation = self.conversation()
        record_change(request, conversation, {})
        self._assistant().interrupt(conversation)
        wait_until_stopped(conversation)
        return Response(status=status.HTTP_204_NO_CONTENT)

    @call("followTurn", READ_TEXT, users=True, statuses={204: "No turn is under way."}, streams=True)
    def follow(self, request: Request, conversation_id: str, **kwargs: Any) -> HttpResponseBase:
        """Follow the stream of a turn that is under way.

        What it has stored so far, and then what it stores: whole messages, because only the request that began the turn
        gets deltas. 204 if none is under way.
        """
        conversation = self.conversation()
        number = turn_to_follow(conversation)
        if number is None:
            return Response(status=status.HTTP_204_NO_CONTENT)
        record_read(request, conversation)
        if request.method == "HEAD":
            return HttpResponse(headers=HEADERS)
        # Now: when the stream is read, another turn may run.
        stream = TurnStream(last_question(conversation), self.message_format, self.reader)
        return self._stream((afollow if self._is_async else follow)(stream, conversation, number))

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

    def _stream(self, events: Iterable[bytes] | AsyncIterable[bytes]) -> StreamingHttpResponse:
        # Or GZipMiddleware would compress it, which under WSGI keeps events until there are enough of them.
        return StreamingHttpResponse(events, headers={**HEADERS, "Content-Encoding": "identity"})


def is_from_use_chat(data: Any) -> bool:
    """Return whether a body is one of the AI SDK's ``useChat``."""
    return isinstance(data, Mapping) and "messages" in data


def _read_message(given: Any, format: MessageFormat) -> NewMessages:
    if isinstance(given, str):
        if not given.strip():
            raise invalid("message", "is empty; to go on from where the conversation stands leave it out", code="blank")
        given = {"type": "USER", "contents": [{"type": "TEXT", "text": given}]}
        format = BUILT_IN["langchain4j"]
    if not isinstance(given, Mapping):
        raise invalid("message", "expected a text, or a message of the user", code="invalid_type")
    return _read_said(given, format, "message")


def _read_use_chat(data: Mapping[str, Any]) -> tuple[NewMessages, str | None]:
    messages = data["messages"]
    if not isinstance(messages, list):
        raise invalid("messages", "expected a list of UIMessages", code="invalid_type")
    place, found = next(
        (
            (f"messages[{index}]", one)
            for index, one in reversed(list(enumerate(messages)))
            if isinstance(one, Mapping) and one.get("role") == "user"
        ),
        ("messages", None),
    )
    if found is None:
        raise invalid(place, "expected a message whose role is user", code="required")
    id = found.get("id")
    if id is not None and not (isinstance(id, str) and 0 < len(id) <= _LONGEST_ID and id.isprintable()):
        raise invalid(f"{place}.id", "expected 1 to %(most)s printable characters", most=_LONGEST_ID)
    return _read_said(found, message_format("ai-sdk"), place), id


def _read_said(data: Any, format: MessageFormat, place: str) -> NewMessages:
    """Read one message of the user, without the attributes of formats: a browser's would be sent to a provider."""
    messages = read_one(data, place, format)
    if len(messages) != 1 or not isinstance(message := messages[0], UserMessage):
        raise invalid(place, "expected a message of the user: the model answers it", code="invalid_choice")
    known = {name for format in message_formats().values() for name in format.attributes}
    if not known & message.attributes.keys():
        return messages
    others = {name: value for name, value in message.attributes.items() if name not in known}
    return NewMessages([UserMessage(message.contents, name=message.name, attributes=others)])
