"""The memory of a conversation: now, at a past version, or in another window."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from chatmemory.core.entries import RESULT_CLEARED, RESULTS_KEPT
from chatmemory.database.change import mark_evicted
from chatmemory.database.reading import fresh_rows, prefix_version_at, rows_of, written_memory
from chatmemory.models import Conversation
from chatmemory.replaying import FIGURES, MOST_AT_ONCE, REPLAYED
from chatmemory.rest.preconditions import not_modified
from chatmemory.rest.problems import TooLarge, invalid
from chatmemory.rest.requests import require_bounded
from chatmemory.rest.serializers import (
    ChangeSerializer,
    CountField,
    HistoryItemSerializer,
    MemoryMessagesField,
    MemorySerializer,
    MessagesField,
    StrictSerializer,
    TokensField,
    WholeNumberField,
    WindowSerializer,
    changed_memory_to_data,
    memory_to_data,
)
from chatmemory.rest.views.viewset import ChatMemoryViewSet, call, record_read
from chatmemory.staff import READ_TEXT, WRITE_TEXT

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
        """Return what is bounded, by field."""
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
        messages = written_memory(conversation, [row.message for row in rows], fresh, self.format_name)
        answer = memory_to_data(rows, messages, conversation, version)
        record_read(request, conversation)
        return Response(answer, headers={"ETag": self.tag_of(conversation, version)})

    @call(
        "rewriteMemory",
        WRITE_TEXT,
        body=NewMemorySerializer,
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
        answer = changed_memory_to_data(conversation, rows, change.added, change.evicted, self.message_format)
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
        return Response(changed_memory_to_data(trial, trial.retained, trial.added, evicted, self.message_format))

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
