"""The base of the views of conversations and messages."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from django.db import router
from django.utils.cache import patch_cache_control
from rest_framework import viewsets
from rest_framework.exceptions import NotFound
from rest_framework.permissions import SAFE_METHODS
from rest_framework.renderers import BaseRenderer, BrowsableAPIRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.settings import api_settings
from rest_framework.throttling import BaseThrottle

from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.formats.registry import message_format
from chatmemory.models import Conversation, ConversationQuerySet
from chatmemory.rest.access import is_for_others, may_read_words, reachable_conversations
from chatmemory.rest.formats import MessageFormatNegotiation, asked_format
from chatmemory.rest.parsers import StrictJSONParser
from chatmemory.rest.problems import LengthRequired, invalid
from chatmemory.rest.throttling import throttles
from chatmemory.rest.views.problem_view import ProblemView
from chatmemory.staff import Act

__all__ = ["ChatMemoryViewSet"]

# The shapes are fixed, whatever renderers the project has for its own; but who likes the browsable API has it.
_DEFAULTS: Any = api_settings.DEFAULT_RENDERER_CLASSES
_RENDERERS: list[type[BaseRenderer]] = [
    JSONRenderer,
    *(renderer for renderer in _DEFAULTS if issubclass(renderer, BrowsableAPIRenderer)),
]


class ChatMemoryViewSet(ProblemView, viewsets.GenericViewSet[Any]):
    """Strict about what comes in, problem details where it is wrong, and nobody else's conversations."""

    renderer_classes = _RENDERERS
    parser_classes = [StrictJSONParser]
    content_negotiation_class = MessageFormatNegotiation
    http_method_names = ["get", "head", "post", "put", "patch", "delete"]  # the schema says what OPTIONS would
    acts: ClassVar[dict[str, tuple[Act, ...]]] = {}
    """By action, what staff need permissions for if they name another owner. Each action has an entry."""

    parameters: ClassVar[dict[str, set[str]]] = {}
    """The query parameters of each action, beside those of every action and of filters and pages."""

    whole_memory: ClassVar[set[str]] = set()
    """The actions whose answer is one whole memory and no other messages. Only they take every format."""

    def get_throttles(self) -> list[BaseThrottle]:
        scope = "reads" if self.request.method in SAFE_METHODS else "writes"
        if self.action in {"preview", "replay"}:
            scope = "previews"
        searches = throttles("searches") if self.request.query_params.get("search") else []
        return [*super().get_throttles(), *throttles(scope), *searches]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        request.get_host()  # links need it, and by then something may have been done
        if "HTTP_TRANSFER_ENCODING" in request.META and not request.META.get("CONTENT_LENGTH"):
            # It would be taken for an empty body.
            raise LengthRequired("Send the body with a Content-Length, not in chunks.")
        if self.action is None:
            self.http_method_not_allowed(request)
        known = {"owner", "format", *self.parameters.get(self.action, ())}
        if self.action == "list" and hasattr(self, "filterset_class"):
            known |= {*self.filterset_class.base_filters, "ordering", "cursor", "page_size"}
        for name, values in request.query_params.lists():
            if name not in known:
                raise invalid(name[:100], f"unknown parameter; this takes {', '.join(sorted(known))}")
            if len(values) > 1:
                raise invalid(name, "is given more than once; give it once")
            if "\x00" in values[0]:
                raise invalid(name, "has U+0000; take it out")
        whole_memory = self.action in self.whole_memory
        self.format_name = asked_format(request, self.renderer_classes, whole_memory=whole_memory)
        self.message_format = message_format(self.format_name)

    def handle_exception(self, exc: Exception) -> Any:
        if isinstance(exc, InvalidMessageError) and not may_read_words(self.request):
            # The error may quote a stored message that was written outside this app.
            exc = invalid("", "a message, of the request or of the conversation, cannot be read")
        return super().handle_exception(exc)

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        response = super().finalize_response(request, response, *args, **kwargs)
        patch_cache_control(response, private=True, no_cache=True)
        return response

    def get_serializer_context(self) -> dict[str, Any]:
        with_owner, with_words = is_for_others(self.request), may_read_words(self.request)
        return {**super().get_serializer_context(), "with_owner": with_owner, "with_words": with_words}

    def conversations(self) -> ConversationQuerySet:
        """Return the conversations on which the user may do what they ask."""
        if self.action is None:  # a permission class may ask before the method is refused
            return Conversation.objects.none()
        return reachable_conversations(self.request, *self.acts[self.action])

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
            raise NotFound("You have no such conversation.")
        self.check_object_permissions(self.request, conversation)
        return conversation

    def idempotency_key(self) -> str | None:
        """Return the ``Idempotency-Key`` of the request.

        Raises:
            ValidationError: it is not of 1 to 255 characters.
        """
        key = self.request.headers.get("Idempotency-Key")
        if key is not None and not (0 < len(key) <= 255 and key.isprintable()):
            raise invalid("Idempotency-Key", "expected 1 to 255 printable characters")
        return key
