"""The memory of a conversation, its history, additions, pins, replays and what-if windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django_filters.rest_framework import DjangoFilterBackend
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from chatmemory.capabilities import filled
from chatmemory.core.arguments import whole_number
from chatmemory.core.entries import RESULT_CLEARED, RESULTS_KEPT
from chatmemory.database.change import Change, mark_evicted
from chatmemory.database.reading import fresh_rows, prefix_version_at, rows_of, written_memory
from chatmemory.models import MAX_LIMIT, Conversation, Message
from chatmemory.replaying import FIGURES, MOST_AT_ONCE, REPLAYED
from chatmemory.rest.filters import MessageFilter, MessagePagination, StrictOrderingFilter
from chatmemory.rest.problems import NotFound, TooLarge, invalid
from chatmemory.rest.requests import not_modified, precondition, require_bounded
from chatmemory.rest.serializers import (
    EXAMPLE,
    ChangeSerializer,
    CountField,
    HistoryItemSerializer,
    MemoryMessagesField,
    MemorySerializer,
    MemorySizeSerializer,
    MessagesField,
    NewMessagesSerializer,
    PageSerializer,
    StrictSerializer,
    TokensField,
    WholeNumberField,
    WindowSerializer,
    changed_memory_to_data,
    memory_to_data,
    message_items,
)
from chatmemory.rest.views.viewset import ChatMemoryViewSet, call, change_to_record, record_change, record_read
from chatmemory.staff import READ_TEXT, WRITE_TEXT


class HistoryPageSerializer(PageSerializer):
    """One page."""

    results = HistoryItemSerializer(many=True)


class AdditionSerializer(ChangeSerializer):
    """What an addition did. A system message that is there already is not added."""


class ChangedPinSerializer(serializers.Serializer[Any]):
    """A message that was pinned or unpinned."""

    item = HistoryItemSerializer()
    memory = MemorySizeSerializer()
    version = CountField()


class MessageViewSet(ChatMemoryViewSet):
    """The history: every message that was said, in the memory or no longer."""

    tag = "messages"
    serializer_class = HistoryItemSerializer
    pagination_class = MessagePagination
    filter_backends = [DjangoFilterBackend, StrictOrderingFilter]
    filterset_class = MessageFilter
    ordering_fields = ["position"]
    ordering = ["position"]

    @call("listMessages", READ_TEXT, users=True, answer=HistoryPageSerializer)
    def list(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """List the history.

        In the order said, in pages; `ordering=-position` for newest first. Without what is synthetic, unless `origin`
        asks for it.
        """
        conversation = self.conversation()
        history = self.filter_queryset(conversation.messages.all())
        page = self.paginate_queryset(history)
        record_read(request, conversation)
        return self.get_paginated_response(self._items(conversation, page or []))

    @call(
        "addMessages",
        WRITE_TEXT,
        body=NewMessagesSerializer,
        answer=AdditionSerializer,
        creates=True,
        headers=("Idempotency-Key", "If-Match", "ETag"),
        example=EXAMPLE,
    )
    def create(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """Add messages.

        One, or several that are added all or none. The answer says what was added and what had to leave.
        """
        conversation, key = self.conversation(), self.idempotency_key()
        change = conversation.memory.add_all(self.asked(), idempotency_key=key, **self.terms(key))
        return self.changed(change, status.HTTP_201_CREATED)

    @call("getMessage", READ_TEXT, users=True, answer=HistoryItemSerializer)
    def retrieve(self, request: Request, conversation_id: str, position: str, **kwargs: Any) -> Response:
        """Get one message.

        Also if it is synthetic.
        """
        conversation = self.conversation()
        row = self._row(conversation, position)
        record_read(request, conversation)
        return Response(self._items(conversation, [row])[0])

    @call("pinMessage", ("change",), answer=ChangedPinSerializer, headers=("If-Match", "ETag"), problems=(413,))
    def pin(self, request: Request, conversation_id: str, position: str, **kwargs: Any) -> Response:
        """Pin a message.

        The window never evicts it, nor its tool call or results. A rewrite without it, or clearing the memory, takes it
        out. 400 if it is no longer in the memory, or pinned messages would take more than half of the limit. No body.
        """
        conversation = self.conversation()
        require_bounded(conversation)
        return self._change_pin(conversation, position, conversation.memory.pin)

    @call("unpinMessage", ("change",), answer=ChangedPinSerializer, headers=("If-Match", "ETag"))
    def unpin(self, request: Request, conversation_id: str, position: str, **kwargs: Any) -> Response:
        """Unpin a message.

        What no longer fits the window is evicted. 400 if it is no longer in the memory. No body.
        """
        conversation = self.conversation()
        return self._change_pin(conversation, position, conversation.memory.unpin)

    def _change_pin(self, conversation: Conversation, position: str, change_pin: Callable[..., Change]) -> Response:
        if self.request.data != {}:
            raise invalid("", "expected no body, or {}")
        demanded = precondition(self.request)
        known = self._row(conversation, position).position
        found: list[Message] = []

        def read_and_record(made: Change) -> None:
            # Nobody changes it before the end. The change itself may have deleted it: KEEP_HISTORY.
            gone = next((row for row in made.evicted if row.position == known), None)
            found[:] = [gone or rows_of(made.conversation).get(position=known)]
            record_change(self.request, made.conversation, change_to_record(made))

        change = change_pin(known, precondition=demanded, also=read_and_record)
        [item] = message_items(found, self.message_format, self.reader)
        answer = {"item": item, **change.memory.to_data()}
        return Response(answer, headers={"ETag": self.tag_of(change.conversation)})

    def _items(self, conversation: Conversation, rows: Sequence[Message]) -> Sequence[Any]:
        """Return the history items of rows, with the fields of capabilities."""
        items = message_items(rows, self.message_format, self.reader)
        for field in filled("message_fields"):
            values = field.values(self.request, conversation, [row.position for row in rows])
            for item in items:
                item[field.name] = values.get(item["position"])
        return items

    def _row(self, conversation: Conversation, position: str) -> Message:
        known = whole_number(position, most=MAX_LIMIT)
        row: Message | None = rows_of(conversation).filter(position=known).first() if known is not None else None
        if row is None:
            raise NotFound("There is no message at this position.")
        return row


_MOST_TOOLS = 100
_LONGEST_PLACEHOLDER = 200
_MOST_VARIANTS = 5


class NewMemorySerializer(StrictSerializer):
    """The messages of a memory."""

    messages = MessagesField(most="MAX_MEMORY_MESSAGES")

    def run_validation(self, data: Any = None) -> Any:
        return super().run_validation(data if isinstance(data, dict) and "messages" in data else {})


class RewrittenMemorySerializer(MemorySerializer):
    """A memory after it was rewritten."""

    messages = MemoryMessagesField(each=True)
    added = HistoryItemSerializer(many=True, help_text="What is new in it.")
    evicted = HistoryItemSerializer(many=True, help_text="What it leaves out, and what did not fit.")


class TrialSerializer(WindowSerializer):
    """Another window, and messages that were not said yet."""

    messages = MessagesField(most="MAX_BATCH", default=list, help_text="Messages that were not said yet.")

    class Meta(WindowSerializer.Meta):
        fields = (*WindowSerializer.Meta.fields, "messages")


class PreviewItemSerializer(HistoryItemSerializer):
    """A message that was not said yet has no created_at."""

    created_at = serializers.DateTimeField(allow_null=True)


class PreviewSerializer(RewrittenMemorySerializer):
    """What a memory would be."""

    added = PreviewItemSerializer(many=True, help_text="What would be added.")
    evicted = PreviewItemSerializer(many=True, help_text="What would be evicted.")


class ToolClearingSerializer(StrictSerializer):
    """The tool results that stay, and the text that takes the place of the others."""

    keep = CountField(
        default=RESULTS_KEPT, help_text="How many tool results, counted from the end of the memory, stay."
    )
    exclude_tools = serializers.ListField(
        child=serializers.CharField(allow_blank=True, trim_whitespace=False),
        default=list,
        max_length=_MOST_TOOLS,
        help_text="The names of tools whose results stay.",
    )
    placeholder = serializers.CharField(
        default=RESULT_CLEARED,
        max_length=_LONGEST_PLACEHOLDER,
        help_text="The text of the placeholders; spaces around it are taken off.",
    )


class ClearedToolResultsSerializer(ChangeSerializer):
    """The tool results that gave way (`evicted`), and their placeholders (`added`)."""


class VariantSerializer(WindowSerializer):
    """A window to replay a history with. It has no model, because the stored tokens are used, and makes no summary."""

    class Meta(WindowSerializer.Meta):
        fields = REPLAYED


class ReplayedWindowsSerializer(StrictSerializer):
    """The windows to replay a history with, beside its own."""

    variants: Any = serializers.ListSerializer(
        child=VariantSerializer(),
        default=list,
        max_length=_MOST_VARIANTS,
        help_text="Windows that would have bounded the memory from the start; missing settings are as they are.",
    )

    def bounds(self) -> dict[str, Any]:
        """Return the bounded values, by field."""
        return {"variants": {"maxItems": _MOST_VARIANTS}}


class FiguresSerializer(serializers.Serializer[Any]):
    """What the requests to the model were, or would have been."""

    def get_fields(self) -> dict[str, Any]:
        return {**super().get_fields(), **{name: _figure(name, help) for name, help in FIGURES.items()}}


def _figure(name: str, help: str) -> serializers.Field[Any, Any, Any, Any]:
    if name in ("hit_share", "mean_fill"):
        return serializers.FloatField(min_value=0, max_value=1 if name == "hit_share" else None, help_text=help)
    return TokensField(help_text=help) if name.endswith("_tokens") else CountField(help_text=help)


class VariantFiguresSerializer(FiguresSerializer, serializers.ModelSerializer[Conversation]):
    """A window, and what it would have made of the requests."""

    class Meta:
        model = Conversation
        fields = REPLAYED


class ReplaysSerializer(serializers.Serializer[Any]):
    """The figures of what happened, and of what would have happened with other windows."""

    recorded = FiguresSerializer(help_text="What really happened.")
    variants = VariantFiguresSerializer(many=True, help_text="What would have happened, in the order of the request.")


class MemoryViewSet(ChatMemoryViewSet):
    """The messages that the model gets."""

    tag = "memory"

    @call(
        "getMemory",
        READ_TEXT,
        users=True,
        answer=MemorySerializer,
        parameters={
            "at": WholeNumberField(help_text="A past version of the memory."),
            "at_message": WholeNumberField(
                help_text="The position of a message: the memory right after it was added. Not together with `at`."
            ),
        },
        headers=("If-None-Match", "ETag"),
        whole_memory=True,
        problems=(413,),
    )
    def retrieve(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """Get what the model gets.

        Now, or what it got at a past version. 413 if it is larger than the server handles at once.
        """
        conversation = self.conversation()
        version = self._version(conversation)
        unchanged = not_modified(request, self.tag_of(conversation, version))
        if unchanged:
            return unchanged
        require_bounded(conversation, None if version == conversation.version else version)
        if version == conversation.version:
            now = conversation.memory.fitted()
            version = conversation.version
            rows, prefix_version = now.retained, now.prefix_version
        else:
            rows = list(rows_of(conversation).in_memory_at(version))
            binds = self.message_format.binds_thinking  # otherwise nobody asks, and the rows may be many
            prefix_version = prefix_version_at(conversation, version) if binds else version
        fresh = fresh_rows(rows, prefix_version)
        shown = [row.message for row in self.reader.rows(rows)]
        messages = written_memory(conversation, shown, fresh, self.format_name)
        answer = memory_to_data(rows, messages, conversation, version)
        record_read(request, conversation)
        return Response(answer, headers={"ETag": self.tag_of(conversation, version)})

    @call(
        "rewriteMemory",
        WRITE_TEXT,
        body=NewMemorySerializer,
        example={"messages": [EXAMPLE]},
        answer=RewrittenMemorySerializer,
        headers=("If-Match", "ETag"),
    )
    def update(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """Rewrite the memory.

        With a summary, say. Messages that are in it stay, the others are evicted, new ones are synthetic. The history
        keeps everything.
        """
        found, terms = self.conversation(), self.terms()
        messages = self.asked()["messages"]
        require_bounded(found)  # the change reads all of it
        change = found.memory.set(messages, **terms)
        conversation = change.conversation
        rows = list(rows_of(conversation).in_memory_at(conversation.version))
        answer = changed_memory_to_data(
            conversation, rows, change.added, change.evicted, self.message_format, self.reader
        )
        return Response(answer, headers={"ETag": self.tag_of(conversation)})

    @call("clearMemory", ("change",), headers=("If-Match",))
    def destroy(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """Clear the memory.

        The history keeps everything.
        """
        self.conversation().memory.clear(**self.terms())
        return Response(status=status.HTTP_204_NO_CONTENT)

    @call(
        "previewMemory",
        READ_TEXT,
        body=TrialSerializer,
        answer=PreviewSerializer,
        throttle="previews",
        example={"limit": 2},
    )
    def preview(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """Try another window, or more messages.

        What would stay and what would go. Nothing is written.
        """
        conversation = self.conversation()
        asked = self.asked()
        require_bounded(conversation)
        trial = conversation.memory.try_window(**asked)
        record_read(request, conversation)
        for row, reason in trial.evicted:
            mark_evicted(row, trial.version + 1, None, reason)
        evicted = [row for row, _ in trial.evicted]
        return Response(
            changed_memory_to_data(trial, trial.retained, trial.added, evicted, self.message_format, self.reader)
        )

    @call(
        "clearToolResults",
        WRITE_TEXT,
        body=ToolClearingSerializer,
        answer=ClearedToolResultsSerializer,
        headers=("If-Match", "ETag"),
        example={"keep": 0, "exclude_tools": ["remember"], "placeholder": "[Cleared]"},
    )
    def clear_tool_results(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """Clear old tool results.

        Placeholders take the place of tool results that have more tokens than they. The results of the last turn and of
        pinned calls stay. The history keeps everything.
        """
        conversation, terms = self.conversation(), self.terms()
        asked = self.asked()
        require_bounded(conversation)  # the change reads all of it
        return self.changed(conversation.memory.clear_tool_results(**asked, **terms))

    @call(
        "replayMemory",
        ("view",),
        body=ReplayedWindowsSerializer,
        answer=ReplaysSerializer,
        throttle="previews",
        example={"variants": [{"low_water": 50, "whole_turns": True}]},
    )
    def replay(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """Compare windows.

        The requests to the model as they were, and as other windows would have had them from the start. Nothing is
        written. Long conversations are a 413.
        """
        conversation = self.conversation()
        if conversation.next_position > MOST_AT_ONCE:
            raise TooLarge(
                "The conversation has %(count)s messages; at most %(most)s are replayed by a request. "
                "conversation.memory.replay() in Python has no bound.",
                count=conversation.next_position,
                most=MOST_AT_ONCE,
            )
        recorded, *others = conversation.memory.replays([None, *self.asked()["variants"]])
        return Response(ReplaysSerializer({"recorded": recorded, "variants": others}).data)

    def _version(self, conversation: Conversation) -> int:
        at, position = self.parameter("at"), self.parameter("at_message")
        if at is not None and position is not None:
            raise invalid("at_message", "give at or at_message, not both")
        if position is not None:
            added_in = rows_of(conversation).filter(position=position).values_list("added_in", flat=True).first()
            if added_in is None:
                raise invalid("at_message", "there is no message at position %(position)s", position=position)
            return int(added_in)
        if at is not None and at > conversation.version:
            raise invalid(
                "at",
                "there are versions from 0 to %(last)s, but no %(version)s",
                last=conversation.version,
                version=at,
            )
        return conversation.version if at is None else at
