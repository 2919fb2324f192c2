"""Search over REST, in all conversations of an owner or in one."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.urls import path
from rest_framework import ISO_8601, serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

from chatmemory.contrib.search.corpus import MOST_CONVERSATIONS, TooManyConversationsError
from chatmemory.contrib.search.query import LONGEST_QUERY
from chatmemory.contrib.search.searching import NEWEST, ORDERS, Hit, is_cursor, search
from chatmemory.core.arguments import whole_number
from chatmemory.formats.schemas import Schema, list_of, text
from chatmemory.models import EVICTION_REASONS, TYPES, Conversation
from chatmemory.rest.problems import invalid
from chatmemory.rest.serializers import CountField
from chatmemory.rest.views.viewset import ChatMemoryViewSet, call, record_read
from chatmemory.staff import READ_TEXT

_PAGE_SIZE = 20
_MOST_ON_A_PAGE = 50


class _TypesField(serializers.Field[Any, Any, Any, Any]):
    def to_internal_value(self, data: str) -> list[str]:
        names = data.split(",")
        for name in names:
            if name not in dict(TYPES):
                raise invalid(
                    "",
                    "expected some of %(choices)s, with commas between them, got %(got)s",
                    code="invalid_choice",
                    choices=list(dict(TYPES)),
                    got=repr(name[:100]),
                )
        return names

    def openapi(self) -> Schema:
        one = f"({'|'.join(dict(TYPES))})"
        return text(pattern=f"^{one}(,{one})*$")


class _FlagField(serializers.BooleanField):
    def to_internal_value(self, data: Any) -> bool:
        if str(data).lower() not in {"true", "false"}:
            raise invalid("", "expected true or false")
        return str(data).lower() == "true"


class _PageSizeField(serializers.Field[Any, Any, Any, Any]):
    def to_internal_value(self, data: str) -> int:
        size = whole_number(data)
        if not size:
            raise invalid("", "expected a whole number above zero")
        return min(size, _MOST_ON_A_PAGE)

    def openapi(self) -> Schema:
        return {"type": "integer", "minimum": 1, "default": _PAGE_SIZE}


class _CursorField(serializers.Field[Any, Any, Any, Any]):
    def to_internal_value(self, data: str) -> str:
        if not is_cursor(data):
            raise invalid("", "not a cursor of a search; follow next, or leave it out")
        return data

    def openapi(self) -> Schema:
        return text(pattern=r"^-?[0-9]{1,18}[.][0-9a-f]{32}[.][0-9]{1,10}$")


class _MarksField(serializers.ReadOnlyField):
    def openapi(self) -> Schema:
        return list_of({**list_of({"type": "integer", "minimum": 0}), "minItems": 2, "maxItems": 2})


def _moment(**options: Any) -> serializers.DateTimeField:
    return serializers.DateTimeField(default=None, input_formats=[ISO_8601], **options)


_PARAMETERS = {
    "q": serializers.CharField(
        default="",
        allow_blank=True,
        max_length=LONGEST_QUERY,
        trim_whitespace=False,  # a space ends the last word
        help_text='What to search for: words, `"a phrase"`, and `-word` to leave messages out. Without it, nothing is '
        "found.",
    ),
    "order": serializers.ChoiceField(
        ORDERS,
        default=NEWEST,
        help_text="`newest`: messages with all words, the newest first. `relevance`: messages with any of the words, "
        "the best match first.",
    ),
    "prefix": _FlagField(
        default=True,
        help_text="Whether the last word may be unfinished, as while somebody types. With `order=relevance`, words "
        "that begin alike match anyway.",
    ),
    "type": _TypesField(default=(), help_text="One or more types of messages, with commas between them."),
    "state": serializers.ChoiceField(
        ["retained", "evicted"], default=None, help_text="Only messages in the memory now, or no longer."
    ),
    "since": _moment(help_text="Only messages that were said at this or later."),
    "until": _moment(help_text="Only messages that were said before this."),
    "page_size": _PageSizeField(
        default=_PAGE_SIZE,
        help_text=f"How many there are on a page; at most {_MOST_ON_A_PAGE}, which is what larger numbers mean.",
    ),
    "cursor": _CursorField(default="", help_text="Where the page begins: follow `next`, do not make one."),
}


class HitSerializer(serializers.Serializer[Hit]):
    """A message that was found."""

    conversation = serializers.UUIDField(source="conversation.pk", help_text="The `id` of its conversation.")
    title = serializers.CharField(
        source="conversation.title", allow_blank=True, help_text="The title of its conversation."
    )
    position = CountField()
    type = serializers.ChoiceField(TYPES)
    snippet = serializers.CharField(
        help_text="The part of the text that matches best, on one line, with `…` where text was left out."
    )
    marks = _MarksField(
        help_text="The matches in `snippet`: where each starts and ends, in code points. JavaScript's strings count "
        "differently: use `Array.from(snippet)`."
    )
    score = serializers.IntegerField(
        allow_null=True, help_text="With `order=relevance`, how well it matches; only for comparison in one search."
    )
    state = serializers.ChoiceField(["retained", "evicted"], help_text="In the memory now, or no longer.")
    eviction_reason = serializers.ChoiceField(EVICTION_REASONS, allow_null=True, help_text="Why it was evicted.")
    evicted_at = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()

    def to_representation(self, instance: Hit) -> dict[str, Any]:
        moment = serializers.DateTimeField()
        return {
            "conversation": str(instance.conversation.pk),
            "title": instance.conversation.title,
            "position": instance.position,
            "type": instance.type.value,
            "snippet": instance.snippet,
            "marks": instance.marks,
            "score": instance.score,
            "state": "retained" if instance.is_retained else "evicted",
            "eviction_reason": instance.eviction_reason and instance.eviction_reason.value,
            "evicted_at": instance.evicted_at and moment.to_representation(instance.evicted_at),
            "created_at": moment.to_representation(instance.created_at),
        }


class HitPageSerializer(serializers.Serializer[Any]):
    """One page. With a phrase it may have fewer results than asked for, or none, and there is a next page."""

    results = HitSerializer(many=True)
    next = serializers.URLField(allow_null=True)


class SearchViewSet(ChatMemoryViewSet):
    """Search in what was said, in the memory or no longer."""

    tag = "search"

    @call("search", READ_TEXT, users=True, answer=HitPageSerializer, parameters=_PARAMETERS, throttle="searches")
    def search(self, request: Request, **kwargs: Any) -> Response:
        """Search your conversations.

        In pages. A word matches whole words of any case; accents make no difference. For a phrase, a page reads at most
        2,000 messages with all words, so a page without results may have a next one.
        """
        answer = self._found_in(self.conversations())
        record_read(request, is_search=True)
        return answer

    @call(
        "searchConversation",
        READ_TEXT,
        users=True,
        answer=HitPageSerializer,
        parameters=_PARAMETERS,
        throttle="searches",
    )
    def search_one(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """Search a conversation.

        As `search` does.
        """
        conversation = self.conversation()
        rows = Conversation.objects.using(conversation._state.db).filter(pk=conversation.pk)
        answer = self._found_in(rows)
        record_read(request, conversation, is_search=True)
        return answer

    def _found_in(self, conversations: QuerySet[Conversation]) -> Response:
        asked = {name: self.parameter(name) for name in _PARAMETERS}
        size, state = asked["page_size"], asked["state"]
        try:
            hits = search(
                conversations,
                asked["q"],
                order=asked["order"],
                prefix=asked["prefix"],
                limit=size + 1,
                after=asked["cursor"],
                since=asked["since"],
                until=asked["until"],
                types=asked["type"],
                evicted=None if state is None else state == "evicted",
                readable=self.reader.searched_types,
            )
        except TooManyConversationsError as error:
            raise invalid(
                "",
                "a search covers at most %(most)s conversations; search one conversation, or those of one owner",
                most=MOST_CONVERSATIONS,
            ) from error
        after = hits[size - 1].cursor if len(hits) > size else hits.next
        serializer = HitSerializer()
        address = self.request.build_absolute_uri()
        return Response(
            {
                "results": [serializer.to_representation(hit) for hit in hits[:size]],
                "next": replace_query_param(address, "cursor", after) if after else None,
            }
        )


routes = [
    path("search/", SearchViewSet.as_view({"get": "search"}), name="search"),
    path(
        "conversations/<str:conversation_id>/search/",
        SearchViewSet.as_view({"get": "search_one"}),
        name="conversation-search",
    ),
]
