"""Compaction: the summaries that take the place of older turns."""

from __future__ import annotations

import logging
from typing import Any

from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from chatmemory.compaction import project_summarizer
from chatmemory.conf import setting
from chatmemory.core.exceptions import IdempotencyConflictError, InvalidMessageError, UnusableSummaryError
from chatmemory.database.change import Change
from chatmemory.database.operations.compaction import USUAL_KEEP, CoveredError, apply_text
from chatmemory.database.operations.compaction.due import is_due
from chatmemory.database.target import Target
from chatmemory.models import Conversation
from chatmemory.rest.access import may_read_words, require
from chatmemory.rest.compactions import (
    CompactionSerializer,
    compaction_of,
    failures_to_data,
    is_under_way,
    last_summary_to_data,
    plan_to_data,
)
from chatmemory.rest.memory_bounds import require_bounded, require_summarizable
from chatmemory.rest.preconditions import memory_tag, precondition, unless_repeated
from chatmemory.rest.problems import Covered, NoSummarizer, SummarizerFailed, invalid
from chatmemory.rest.records import change_and_read, record_change, record_read
from chatmemory.rest.serializers import change_to_data
from chatmemory.rest.views.base import ChatMemoryViewSet
from chatmemory.staff import SUMMARIZE, WRITE_WORDS

__all__ = ["CompactionViewSet"]

_logger = logging.getLogger("chatmemory.rest")


class CompactionViewSet(ChatMemoryViewSet):
    """The summaries of a conversation."""

    serializer_class = CompactionSerializer
    acts = {"retrieve": ("view",), "compact": ("read_text",)}  # and what its body asks for

    def retrieve(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """Return whether a summary is due and for what, the last one, and what failed."""
        conversation = self.conversation()
        require_summarizable(conversation)
        plan = conversation.memory.plan_compaction()
        reads = may_read_words(request)
        # An exception's text is for the people who run the site: it may name its hosts and keys.
        failures = failures_to_data(conversation, with_words=reads and bool(getattr(request.user, "is_staff", False)))
        last = last_summary_to_data(conversation, with_words=reads)
        if last is not None or failures["error"]:
            record_read(request, conversation)
        return Response(
            {
                "compact_at": conversation.compact_at,
                "due": is_due(conversation, plan),
                "under_way": is_under_way(conversation),
                "plan": None if plan is None else plan_to_data(plan),
                "last_summary": last,
                "failures": failures,
                "version": conversation.version,
            }
        )

    def compact(self, request: Request, conversation_id: str, **kwargs: Any) -> Response:
        """Make a summary with the project's ``SUMMARIZER``, or put the client's own into the memory."""
        conversation = self.conversation()
        serializer = self.get_serializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        given = serializer.validated_data
        require(request, *(WRITE_WORDS if "text" in given else SUMMARIZE))
        if "text" in given:
            return self._answer(self._apply(conversation, given["through"], given["text"]), "summarized")
        change = self._summarize(conversation, given.get("keep", USUAL_KEEP))
        if change is not None:
            return self._answer(change, "summarized")
        conversation.refresh_from_db(using=conversation._state.db)
        nothing = Change(conversation)
        if is_under_way(conversation):
            return self._answer(nothing, "under_way", status.HTTP_202_ACCEPTED)
        return self._answer(nothing, "nothing_to_do")

    def _summarize(self, conversation: Conversation, keep: int) -> Change | None:
        demanded = precondition(self.request)
        if setting("SUMMARIZER") is None:
            raise NoSummarizer
        summarizer = project_summarizer()
        if demanded:
            # Not again afterwards: what is said while the summarizer works neither voids a summary nor is lost by it.
            demanded(conversation)
        require_summarizable(conversation)
        # Beforehand, because the summarizer gets words even if no summary comes of it.
        record_change(self.request, conversation, {"keep": keep})
        before = compaction_of(conversation).failures
        try:
            return conversation.memory.compact(summarizer, keep=keep)
        except Exception as error:
            noted = compaction_of(conversation)
            if noted.failures <= before:
                raise  # it happened before the summarizer was asked
            _logger.exception("A summary of a conversation failed")
            raise SummarizerFailed(error, noted.retry_at) from error

    def _apply(self, conversation: Conversation, through: int, text: str) -> Change:
        key = self.idempotency_key()
        target = Target.of(conversation, unless_repeated(precondition(self.request), key))
        require_summarizable(conversation)
        try:
            change, _ = change_and_read(
                self.request,
                target,
                lambda: apply_text(target, through, text, idempotency_key=key),
                lambda made: require_bounded(made.conversation),  # fewer tokens may be more characters
            )
        except (IdempotencyConflictError, InvalidMessageError):
            raise
        except CoveredError as error:
            raise Covered(str(error)) from error
        except UnusableSummaryError as error:
            raise invalid("text", str(error)) from error
        except ValueError as error:
            raise invalid("through", str(error)) from error
        return change

    def _answer(self, change: Change, outcome: str, code: int = status.HTTP_200_OK) -> Response:
        conversation = change.conversation
        tag = memory_tag(conversation, conversation.version, self.request.query_params.get("format"))
        answer = {"outcome": outcome, **change_to_data(change, self.format_name)}
        return Response(answer, status=code, headers={"ETag": tag})
