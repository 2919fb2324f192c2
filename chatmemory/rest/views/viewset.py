"""The bases of the views, and the declaration of their calls, of which checks and the document are made.

What staff read and did to conversations of others is recorded here, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar
from uuid import UUID

from django.db import connections, router, transaction
from django.utils.cache import patch_cache_control
from django.utils.functional import cached_property
from django.utils.module_loading import import_string
from rest_framework import serializers, status, viewsets
from rest_framework.exceptions import ValidationError
from rest_framework.fields import empty
from rest_framework.permissions import SAFE_METHODS
from rest_framework.renderers import BaseRenderer, BrowsableAPIRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.settings import api_settings
from rest_framework.throttling import BaseThrottle

from chatmemory import staff
from chatmemory.conf import setting
from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.json_text import is_storable
from chatmemory.database.change import Change
from chatmemory.database.reading import request_bound
from chatmemory.formats.registry import message_format
from chatmemory.models import Conversation, ConversationQuerySet
from chatmemory.rest.access import is_for_others, may_read_text, reachable_conversations, require_free, writer
from chatmemory.rest.filters import TEXT_FILTERS
from chatmemory.rest.problems import PROBLEM_JSON, LengthRequired, NotFound, invalid, problem_response
from chatmemory.rest.reader import Reader
from chatmemory.rest.requests import (
    MessageFormatNegotiation,
    StrictJSONParser,
    asked_format,
    memory_tag,
    precondition,
    throttles,
)
from chatmemory.rest.serializers import change_to_data
from chatmemory.staff import Act

if TYPE_CHECKING:
    from rest_framework.views import APIView
else:
    APIView = object

F = TypeVar("F", bound=Callable[..., Any])

# The shapes are fixed, whatever renderers the project has for its own; but who likes the browsable API has it.
_DEFAULTS: Any = api_settings.DEFAULT_RENDERER_CLASSES
_RENDERERS: list[type[BaseRenderer]] = [
    JSONRenderer,
    *(renderer for renderer in _DEFAULTS if issubclass(renderer, BrowsableAPIRenderer)),
]

_NO_CALL = (None, "metadata")
"""The actions of methods that are refused; the second is REST framework's for OPTIONS."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """One method of one route. The docstring of its view's method is its summary (a line) and its description."""

    id: str
    """The operation's ID in the document."""

    permission: tuple[Act, ...]
    """What staff need permissions for if they name another owner."""

    users: bool | tuple[str, ...] = False
    """Whether users may call it where they may only chat (``USERS``); or the only fields of the body they may send."""

    body: type[serializers.BaseSerializer[Any]] | None = None
    """Reads the body; None if there is none."""

    answer: type[serializers.BaseSerializer[Any]] | None = None
    """Describes the answer; None if it has no body."""

    creates: bool = False
    """Whether something is made and the status is 201."""

    parameters: Mapping[str, serializers.Field[Any, Any, Any, Any]] = field(default_factory=dict)
    """The query parameters, beside those of every call and of filters and pages. Their fields read them."""

    headers: tuple[str, ...] = ()
    """The headers of the request, such as ``If-Match``, and of the answer, such as ``ETag``."""

    whole_memory: bool = False
    """Whether the answer is one whole memory and no other messages. Only then every format can be asked for."""

    statuses: Mapping[int, str] = field(default_factory=dict)
    """What further statuses of success mean. Their answer is the same; 204 has none."""

    problems: tuple[int, ...] = ()
    """The statuses of errors that not every call has."""

    streams: bool = False
    """Whether the answer can be, or is, a stream of server-sent events."""

    throttle: str = ""
    """The key of ``THROTTLE_RATES`` that bounds it, instead of ``reads`` or ``writes``."""

    example: Any = None
    """A body."""


def call(id: str, permission: tuple[Act, ...], **declared: Any) -> Callable[[F], F]:
    """Declare a method of a view as a call of the API; see ``Call`` for the arguments."""

    def declare(method: F) -> F:
        method.call = Call(id=id, permission=permission, **declared)  # type: ignore[attr-defined]
        return method

    return declare


class ProblemView(APIView):
    """The project's permissions, and problem details where something is wrong. Goes before a view of REST framework."""

    queryset: Any = Conversation.objects.none()  # by which permission classes know the model
    versioning_class = None  # the addresses have no version, even if those of the project do

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        return super().dispatch(request, *args, **kwargs)

    # Each change is one transaction of its own. ATOMIC_REQUESTS would hold its lock until the answer is rendered, and
    # a database that is away would be an error before a view could answer.
    for _alias in connections:
        dispatch = transaction.non_atomic_requests(_alias)(dispatch)

    def get_permissions(self) -> list[Any]:
        return [import_string(path)() for path in setting("PERMISSION_CLASSES")]

    def get_exception_handler(self) -> Callable[..., Response | None]:
        return problem_response

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        if status.is_server_error(response.status_code):
            # A page for a browser would ask the database who is signed in.
            request.accepted_renderer, request.accepted_media_type = JSONRenderer(), JSONRenderer.media_type
        response = super().finalize_response(request, response, *args, **kwargs)
        if getattr(response, "exception", False) and "json" in response.accepted_renderer.format:
            response.content_type = PROBLEM_JSON
        return response


class ChatMemoryViewSet(ProblemView, viewsets.GenericViewSet[Any]):
    """Views with strict input, problem details as errors, and only the user's own conversations."""

    renderer_classes = _RENDERERS
    parser_classes = [StrictJSONParser]
    content_negotiation_class = MessageFormatNegotiation
    http_method_names = ["get", "head", "post", "put", "patch", "delete"]  # the schema says what OPTIONS would
    tag: ClassVar[str]
    """The tag of its calls in the document, where its docstring describes it."""

    @property
    def call(self) -> Call:
        """The declaration of the method that is called."""
        declared: Call = getattr(self, str(self.action)).call
        return declared

    def get_throttles(self) -> list[BaseThrottle]:
        declared = None if self.action in _NO_CALL else self.call.throttle
        scope = declared or ("reads" if self.request.method in SAFE_METHODS else "writes")
        searches = throttles("searches") if self.request.query_params.get("search") else []
        return [*super().get_throttles(), *throttles(scope), *searches]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        request.get_host()  # links need it, and by then something may have been done
        if "HTTP_TRANSFER_ENCODING" in request.META and not request.META.get("CONTENT_LENGTH"):
            # It would be taken for an empty body.
            raise LengthRequired
        if self.action in _NO_CALL:
            self.http_method_not_allowed(request)
        if not self.call.users:
            require_free(request, *self.call.permission)
        known = {"owner", "format", *self.call.parameters}
        if self.action == "list" and hasattr(self, "filterset_class"):
            known |= {*self.filterset_class.base_filters, "ordering", "cursor", "page_size"}
        for name, values in request.query_params.lists():
            if name not in known:
                raise invalid(
                    name[:100],
                    "unknown parameter; this takes %(names)s",
                    code="unknown_field",
                    names=sorted(known),
                )
            if len(values) > 1:
                raise invalid(name, "is given more than once; give it once", code="repeated")
            if not is_storable(values[0]):
                raise invalid(name, "has U+0000; take it out", code="invalid_characters")
        self.format_name = asked_format(request, self.renderer_classes, whole_memory=self.call.whole_memory)
        self.message_format = message_format(self.format_name)

    def handle_exception(self, exc: Exception) -> Any:
        if isinstance(exc, InvalidMessageError):
            # The error may quote a stored message that was written outside this app. What those who chat send is their
            # own message.
            is_own = self.reader.text and self.request.method == "POST"
            if self.reader != Reader() and not is_own:
                exc = invalid("", "a message, of the request or of the conversation, cannot be read")
        return super().handle_exception(exc)

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        response = super().finalize_response(request, response, *args, **kwargs)
        patch_cache_control(response, private=True, no_cache=True)
        return response

    @cached_property
    def reader(self) -> Reader:
        """What the user may read of messages."""
        return Reader.of(self.request)

    def get_serializer_context(self) -> dict[str, Any]:
        with_owner, with_text = is_for_others(self.request), self.reader.text
        return {**super().get_serializer_context(), "with_owner": with_owner, "with_text": with_text}

    def asked(self, instance: Any = None, **options: Any) -> Any:
        """Return what the body asks for, as the call's serializer reads it.

        Args:
            instance: what is to change, if it is there already.
            options: those of the serializer.

        Raises:
            InvalidMessageError, TooLarge, ValidationError: the body is something else.
            NotForUsers: the user may not send a field of it.
        """
        declared = self.call
        assert declared.body is not None
        context = {
            **self.get_serializer_context(),
            "format": self.message_format,
            "written_by": writer(self.request),
        }
        asked = declared.body(instance, context=context, **options).run_validation(self.request.data)
        if isinstance(declared.users, tuple) and not {*self.request.data} <= {*declared.users}:
            require_free(self.request, *declared.permission)
        return asked

    def terms(self, key: str | None = None) -> dict[str, Any]:
        """Return the terms of a change: what the headers demand, the largest memory, and the record of staff's changes.

        Args:
            key: the request's idempotency key.

        Raises:
            ValidationError: ``If-Match`` has no tag.
        """
        demanded, record = precondition(self.request, key=key), recording(self.request)
        return {"precondition": demanded, "most": request_bound(), "also": record}

    def tag_of(self, conversation: Conversation, version: int | None = None) -> str:
        """Return the tag of a memory, now or at a past version, in the format that was asked for."""
        at = conversation.version if version is None else version
        return memory_tag(conversation, at, self.request.query_params.get("format"), *sorted(self.reader.hidden_types))

    def changed(self, change: Change, code: int = status.HTTP_200_OK, **more: Any) -> Response:
        """Return the answer that says what a change did to a memory, with ``more`` fields."""
        told = change_to_data(change.memory, change.added, change.evicted, self.message_format, self.reader)
        return Response({**more, **told}, status=code, headers={"ETag": self.tag_of(change.conversation)})

    def parameter(self, name: str) -> Any:
        """Return a query parameter, as its field reads it.

        Raises:
            ValidationError: it has no such value.
        """
        try:
            return self.call.parameters[name].run_validation(self.request.query_params.get(name, empty))
        except ValidationError as error:
            raise ValidationError({name: error.detail}) from error

    def conversations(self) -> ConversationQuerySet:
        """Return the conversations on which the user may do what they ask."""
        if self.action in _NO_CALL:  # a permission class may ask before the method is refused
            return Conversation.objects.none()
        return reachable_conversations(self.request, *self.call.permission)

    def conversation(self) -> Conversation:
        """Return the conversation that the address names.

        Raises:
            NotFound: there is none, or it is another user's.
        """
        try:
            key = UUID(self.kwargs["conversation_id"])
        except ValueError as error:
            raise NotFound("A conversation's ID is a UUID.") from error
        # Never from a replica: one reads again what one has just said.
        database = router.db_for_write(Conversation)
        conversation = self.conversations().using(database).filter(pk=key).first()
        if conversation is None:
            raise NotFound
        self.check_object_permissions(self.request, conversation)
        return conversation

    def idempotency_key(self) -> str | None:
        """Return the ``Idempotency-Key`` of the request.

        Raises:
            ValidationError: it is not of 1 to 255 characters.
        """
        key = self.request.headers.get("Idempotency-Key")
        if key is not None and not (0 < len(key) <= 255 and key.isprintable()):
            raise invalid("Idempotency-Key", "expected 1 to %(most)s printable characters", most=255)
        return key


_LONGEST_ENTRY = 2000


def record_read(request: Request, conversation: Conversation | None = None, *, is_search: bool = False) -> None:
    """Record that staff read texts of another owner: those of a conversation, by default of a list of conversations.

    The answer to a HEAD has no text, but the length of the answer tells whether a search found something: that of a
    list with ``TEXT_FILTERS``, or one with ``is_search``.
    """
    if request.method == "HEAD" and not (is_search or any(map(request.query_params.get, TEXT_FILTERS))):
        return
    if is_for_others(request) and may_read_text(request):
        staff.record(request.user, _described_call(request), None if conversation is None else [conversation])


def record_change(request: Request, conversation: Conversation, account: dict[str, Any], act: Act = "change") -> None:
    """Record what staff did to a conversation of another owner.

    ``account`` has figures and names of fields: the log has no text of messages.
    """
    if is_for_others(request):
        said = f"{_described_call(request)} {json.dumps(account)}" if account else _described_call(request)
        staff.record(request.user, said, [conversation], act=act)


def change_to_record(change: Change) -> dict[str, Any]:
    """Return the figures of a change."""
    return {"added": len(change.added), "evicted": len(change.gone), "version": change.memory.version}


def recording(request: Request) -> Callable[[Change], None] | None:
    """Return what records the figures of a change in its transaction; None if it is of the user's own conversation."""
    if not is_for_others(request):
        return None
    return lambda change: record_change(request, change.conversation, change_to_record(change))


def _described_call(request: Request) -> str:
    """Return the method, the route and the query. The path itself may have a memory ID, which may be a name."""
    match = request.resolver_match
    assert match is not None
    values = {"position": match.kwargs.get("position", "")}
    route = re.sub(r"<(?:\w+:)?(\w+)>", lambda found: values.get(found[1], f"{{{found[1]}}}"), match.route)
    return f"REST: {request.method} {route}?{request.query_params.urlencode()}"[:_LONGEST_ENTRY]
