"""Compaction: the summaries that take the place of older turns."""

from __future__ import annotations

import logging
from typing import Any

from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from chatmemory.compaction import project_summarizer
from chatmemory.conf import setting
from chatmemory.core.exceptions import InvalidValueError, UnusableSummaryError
from chatmemory.core.summaries import summary_text
from chatmemory.database.change import Change
from chatmemory.database.connections import UtcNow
from chatmemory.database.operations.compact import CoveredError, is_due, still_uncovered
from chatmemory.database.operations.compaction_plan import CompactionPlan
from chatmemory.database.reading import rows_of
from chatmemory.models import Compaction, Conversation, Message, Origin
from chatmemory.models.compaction import LONGEST_ERROR
from chatmemory.rest.access import may_read_text, require_free
from chatmemory.rest.problems import NoSummarizer, SummarizerFailed, invalid
from chatmemory.rest.requests import precondition, require_bounded, require_summarizable
from chatmemory.rest.serializers import (
    ChangeSerializer,
    ConversationSerializer,
    CountField,
    StrictSerializer,
    TokensField,
    require_length,
)
from chatmemory.rest.views.viewset import ChatMemoryViewSet, call, record_change, record_read
from chatmemory.staff import SUMMARIZE, WRITE_TEXT

_logger = logging.getLogger("chatmemory.rest")


class NewCompactionSerializer(StrictSerializer):
    """The request for a summary by the project's function, or with one that the client made."""

    keep = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=100,
        help_text="The percent of the limit that stays in whole turns; by default `compact_keep` of the conversation. "
        "The last turn always stays.",
    )
    through = CountField(
        required=False,
        help_text="The position of the last message that the summary covers: the end of a turn, and not of the "
        "last one; or, in the last one, before the calls that `compact_keep_calls` keeps. covers_to of a plan is such "
        "a position.",
    )
    text = serializers.CharField(
        required=False, help_text="The summary, which takes in the one before; spaces around it are taken off."
    )

    def validate_text(self, value: str) -> str:
        require_length("text", len(value))
        return value

    def bounds(self) -> dict[str, Any]:
        """Return what settings bound, by field."""
        return {"text": {"maxLength": setting("MAX_MESSAGE_CHARS")}}

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        for name, other in ("through", "text"), ("text", "through"):
            if name in attrs and other not in attrs:
                raise invalid(
                    other,
                    "missing; a summary of your own has %(name)s and %(other)s",
                    code="required",
                    name=name,
                    other=other,
                )
        if "text" in attrs and "keep" in attrs:
            raise invalid("keep", "leave it out; through says what stays")
        return attrs


class PlanSerializer(serializers.Serializer[Any]):
    """What the next summary would cover; null if there is too little to summarise."""

    covers_from = CountField(help_text="The first position that it covers.")
    covers_to = CountField(help_text="The last position that it covers.")
    messages = CountField(help_text="Messages that no summary covers yet.")
    tokens = TokensField(help_text="Of these messages, and of the summary before: the new one must have fewer.")
    previous = CountField(allow_null=True, help_text="The position of the summary before, which the new one takes in.")
    messages_left = CountField(
        help_text="Messages that further summaries would cover, because one call of the summarizer does not take all; "
        "about, if messages are pinned."
    )
    tokens_left = TokensField(help_text="Of these messages.")

    def to_representation(self, instance: CompactionPlan) -> Any:
        messages, tokens = still_uncovered(self.context["conversation"], instance)
        counted = {
            "messages": len(instance.messages),
            "previous": max(instance.summaries, default=None),
            "messages_left": messages,
            "tokens_left": tokens,
        }
        return super().to_representation({**vars(instance), **counted})


class LastSummarySerializer(serializers.Serializer[Any]):
    """The latest summary; null if there is none."""

    position = CountField()
    covers_from = CountField(help_text="The first position that it covers.")
    covers_to = CountField(help_text="The last position that it covers.")
    tokens = TokensField(source="token_count")
    state = serializers.ChoiceField(["retained", "evicted"], help_text="Whether it is in the memory now.")
    text = serializers.CharField(allow_blank=True, help_text="Empty for staff who may not read it.")
    created_at = serializers.DateTimeField()

    def to_representation(self, instance: Message) -> Any:
        state = "retained" if instance.is_retained else "evicted"
        text = summary_text(instance.message) if self.context["with_text"] else ""
        return super().to_representation({**vars(instance), "state": state, "text": text})


class FailuresSerializer(serializers.Serializer[Any]):
    """The failures since the last summary."""

    count = CountField(source="failures", help_text="Since the last summary.")
    failed_at = serializers.DateTimeField(allow_null=True)
    retry_at = serializers.DateTimeField(allow_null=True, help_text="A summary that is due is not tried again before.")
    error = serializers.CharField(
        allow_blank=True,
        max_length=LONGEST_ERROR,
        help_text="The last one: the class of the exception, for staff who may read messages with what it says.",
    )


class CompactionSerializer(serializers.ModelSerializer[Conversation]):
    """The summaries of a conversation: what is due, what was made, and what failed."""

    due = serializers.BooleanField(help_text="Whether a summary is due, by `compact_at`.")
    under_way = serializers.BooleanField(help_text="Whether somebody is making a summary now.")
    plan = PlanSerializer(allow_null=True)
    last_summary = LastSummarySerializer(allow_null=True)
    failures = FailuresSerializer()

    class Meta(ConversationSerializer.Meta):
        fields = ["compact_at", "due", "under_way", "plan", "last_summary", "failures", "version"]


class CompactedSerializer(ChangeSerializer):
    """What a summary did."""

    outcome = serializers.ChoiceField(
        ["summarized", "nothing_to_do", "under_way"],
        help_text="Whether a summary took the place of older turns; or there was too little to summarise, or the "
        "messages were taken out meanwhile; or another summary is being made.",
    )


class CompactionViewSet(ChatMemoryViewSet):
    """The summaries of a conversation."""

    tag = "compaction"

    @call("getCompaction", ("view",), answer=CompactionSerializer, problems=(413,))
    def retrieve(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """Get whether a summary is due.

        With what it would cover, the last summary, and what failed since. 413 if the memory is more than the
        server handles at once.
        """
        conversation = self.conversation()
        require_bounded(conversation)
        summarizer = None if setting("SUMMARIZER") is None else project_summarizer()
        plan = conversation.memory.plan_compaction(summarizer=summarizer)
        failures = _compaction_of(conversation)
        # An exception's text is for the people who run the site: it may name its hosts and keys.
        if not (may_read_text(request) and getattr(request.user, "is_staff", False)):
            failures.error = failures.error.partition(":")[0]
        # Even if it has left the memory.
        last = rows_of(conversation).filter(origin=Origin.SUMMARY).order_by("-position").first()
        if last is not None or failures.error:
            record_read(request, conversation)
        shown: Any = {
            "compact_at": conversation.compact_at,
            "due": is_due(conversation, plan),
            "under_way": _is_under_way(conversation),
            "plan": plan,
            "last_summary": last,
            "failures": failures,
            "version": conversation.version,
        }
        context = {**self.get_serializer_context(), "conversation": conversation}
        return Response(CompactionSerializer(shown, context=context).data)

    @call(
        "compactMemory",
        ("read_text",),  # and what the body asks for
        body=NewCompactionSerializer,
        answer=CompactedSerializer,
        headers=("Idempotency-Key", "If-Match", "ETag"),
        statuses={202: "Another summary of this conversation is being made. Nothing was done."},
        problems=(409, 502),
        example={"through": 41, "text": "Ann asked what a cat is."},
    )
    def compact(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """Replace older turns by a summary.

        Without a `text` the site's summarizer writes the summary, which may take a while; messages that are added
        meanwhile stay, and if it fails nothing changes. It covers as many turns as one call of the summarizer takes.
        `If-Match` is then checked before it begins, and no `Idempotency-Key` is needed, because nothing is summarised
        twice. With `through` and `text` the summary is yours. The history keeps everything.
        """
        conversation = self.conversation()
        given = self.asked()
        require_free(request, *(WRITE_TEXT if "text" in given else SUMMARIZE))
        change = self._apply(conversation, **given) if "text" in given else self._summarize(conversation, **given)
        if change is not None:
            return self.changed(change, outcome="summarized")
        conversation.refresh_from_db(using=conversation._state.db)
        nothing = Change(conversation)
        if _is_under_way(conversation):
            return self.changed(nothing, status.HTTP_202_ACCEPTED, outcome="under_way")
        return self.changed(nothing, outcome="nothing_to_do")

    def _summarize(self, conversation: Conversation, keep: int | None = None) -> Change | None:
        demanded = precondition(self.request)
        if setting("SUMMARIZER") is None:
            raise NoSummarizer
        summarizer = project_summarizer()
        if demanded:
            # Not again afterwards: what is said while the summarizer works neither voids a summary nor is lost by it.
            demanded(conversation)
        require_bounded(conversation)
        # Beforehand, because the summarizer gets the text even if no summary comes of it.
        record_change(self.request, conversation, {"keep": conversation.compact_keep if keep is None else keep})
        before = _compaction_of(conversation).failures
        try:
            return conversation.memory.compact(summarizer, keep=keep, limit=1)
        except Exception as error:
            noted = _compaction_of(conversation)
            if noted.failures <= before:
                raise  # it happened before the summarizer was asked
            _logger.exception("A summary of a conversation failed")
            raise SummarizerFailed(error, noted.retry_at) from error

    def _apply(self, conversation: Conversation, through: int, text: str) -> Change:
        key = self.idempotency_key()
        terms = self.terms(key)
        require_summarizable(conversation, through)
        try:
            return conversation.memory.apply_text(through, text, idempotency_key=key, **terms)
        except CoveredError:
            raise
        except UnusableSummaryError as error:
            raise invalid("text", error) from error
        except InvalidValueError as error:
            raise invalid("through", error) from error


def _is_under_way(conversation: Conversation) -> bool:
    """Return whether a summary is being generated now."""
    rows = Compaction.objects.using(conversation._state.db)
    return rows.filter(conversation=conversation, leased_until__gt=UtcNow()).exists()


def _compaction_of(conversation: Conversation) -> Compaction:
    """Return the row of leases and failures; an unsaved one if no summary was ever started."""
    row = Compaction.objects.using(conversation._state.db).filter(conversation=conversation).first()
    return row or Compaction(conversation=conversation)
