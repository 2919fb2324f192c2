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
from chatmemory.branches.ui_messages import answer_id
from chatmemory.conf import setting
from chatmemory.core.messages import UserMessage
from chatmemory.formats import MessageFormat
from chatmemory.formats.ai_sdk.stream import HEADERS
from chatmemory.formats.registry import BUILT_IN, message_format, message_formats
from chatmemory.formats.schemas import NOT_BLANK, Schema, closed, constant, list_of, ref, text
from chatmemory.models import MAX_LIMIT
from chatmemory.models.branch import BranchTree
from chatmemory.rest.access import signed_in_user, writer
from chatmemory.rest.problems import NotFound, invalid
from chatmemory.rest.serializers import ChangeSerializer, CountField, MessageField, WholeNumberField, read_one
from chatmemory.rest.turns.history import last_question, turns_to_data
from chatmemory.rest.turns.opening import TurnRequest, UIRequest
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

    def run_validation(self, data: Any = None) -> TurnRequest:
        """Read the body.

        The message has none of the attributes in which formats keep what a provider gets again. Of the messages of
        ``useChat`` only the last one of the user is read: the others are in the database, and what a browser says of
        them is not to be believed.

        Raises:
            ValidationError, InvalidMessageError: the body is something else, or its message is too long, or not of a
                user.
        """
        if not isinstance(data, Mapping):
            raise invalid("", 'expected an object, such as {"message": "Hello"}', code="invalid_type")
        if is_from_use_chat(data):
            return _read_use_chat(data)
        unknown = next((name for name in data if name not in ("message", "edit", "regenerate")), None)
        if unknown is not None:
            raise invalid(
                unknown[:100],
                "unknown field; expected message, edit, regenerate, or the body that useChat sends",
                code="unknown_field",
            )
        given, edit = data.get("message"), _read_position(data, "edit")
        if "regenerate" in data:
            other = next((name for name in ("message", "edit") if data.get(name) is not None), None)
            if other is not None:
                raise invalid(other, "cannot be given with regenerate; leave it out")
            return TurnRequest(regenerates=True, regenerate=_read_position(data, "regenerate"))
        if edit is not None and given is None:
            raise invalid("message", "missing; expected the message that takes the place of the other", code="required")
        return TurnRequest(message=None if given is None else _read_message(given, self.context["format"]), edit=edit)

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
        position = {"type": ["integer", "null"], "minimum": 0, "maximum": MAX_LIMIT}
        edit = {
            **position,
            "description": "The position of a message of the user: goes back to before it, so that `message` takes its "
            "place.",
        }
        regenerate = {
            **position,
            "description": "Asks for another answer: the position of the question, or of a message of its answer; null "
            "for the last question. Without `message`.",
        }
        use_chat = {
            "messages": messages,
            "trigger": {"description": "`regenerate-message` asks for another answer."},
            "messageId": {"description": "The ID of the message to edit, or of the message to regenerate."},
            "parentId": {
                "description": "The ID of the message that the last one follows; null if it is the first. Without it, "
                "the last one follows what was said last. `useChat` does not send it by itself."
            },
            "version": {
                "description": "The version of the memory that the page has seen, by which a repeated request is told "
                "from a new one. `useChat` does not send it by itself."
            },
        }
        return {
            "anyOf": [
                closed({}, {"message": message, "edit": edit}),
                closed({"regenerate": regenerate}),
                {"type": "object", "properties": use_chat, "required": ["messages"]},
            ]
        }


class UsageSerializer(serializers.Serializer[Any]):
    """The tokens that the model's server counted."""

    input_tokens = CountField(allow_null=True)
    output_tokens = CountField(allow_null=True)
    cache_read_tokens = CountField(allow_null=True)
    cache_write_tokens = CountField(allow_null=True)
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
    version = CountField(help_text="Of the memory.")
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
        answer = take_turn(
            self._assistant(),
            conversation,
            self.asked(),
            key=key,
            user=signed_in_user(request),
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
        stream = TurnStream(answer.question, answer.id(conversation), self.message_format, self.reader)
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
        question = last_question(conversation)
        id = answer_id(BranchTree.read(conversation), question)
        stream = TurnStream(question, id, self.message_format, self.reader)
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


def _read_position(data: Mapping[str, Any], name: str) -> int | None:
    position = data.get(name)
    if position is not None and not _is_count(position):
        raise invalid(name, "expected the position of a message, or null", code="invalid_type")
    return position


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_LIMIT


def _read_message(given: Any, format: MessageFormat) -> UserMessage:
    if isinstance(given, str):
        if not given.strip():
            raise invalid("message", "is empty; to go on from where the conversation stands leave it out", code="blank")
        given = {"type": "USER", "contents": [{"type": "TEXT", "text": given}]}
        format = BUILT_IN["langchain4j"]
    if not isinstance(given, Mapping):
        raise invalid("message", "expected a text, or a message of the user", code="invalid_type")
    return _read_said(given, format, "message")


def _read_use_chat(data: Mapping[str, Any]) -> TurnRequest:
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
    version = data.get("version")
    if version is not None and not _is_count(version):
        raise invalid("version", "expected a version of the memory, or null", code="invalid_type")
    ui = UIRequest(
        id=_read_id(found, "id", f"{place}.id"),
        message_id=_read_id(data, "messageId", "messageId"),
        follows=(_read_id(data, "parentId", "parentId") or "") if "parentId" in data else None,
        version=version,
    )
    message = _read_said(found, message_format("ai-sdk"), place)
    return TurnRequest(message=message, regenerates=data.get("trigger") == "regenerate-message", ui=ui)


def _read_id(data: Mapping[str, Any], name: str, place: str) -> str | None:
    id = data.get(name)
    if id is not None and not (isinstance(id, str) and 0 < len(id) <= _LONGEST_ID and id.isprintable()):
        raise invalid(place, "expected 1 to %(most)s printable characters", most=_LONGEST_ID)
    return id


def _read_said(data: Any, format: MessageFormat, place: str) -> UserMessage:
    """Read one message of the user, without the attributes of formats: a browser's would be sent to a provider."""
    messages = read_one(data, place, format)
    if len(messages) != 1 or not isinstance(message := messages[0], UserMessage):
        raise invalid(place, "expected a message of the user: the model answers it", code="invalid_choice")
    known = {name for format in message_formats().values() for name in format.attributes}
    if not known & message.attributes.keys():
        return message
    others = {name: value for name, value in message.attributes.items() if name not in known}
    return UserMessage(message.contents, name=message.name, attributes=others)
