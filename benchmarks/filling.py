"""Long histories of chatmemory, without adding them one by one."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.db import connection
from django.utils import timezone

from benchmarks.texts import message_text, token_counts
from benchmarks.windows import Window
from chatmemory import AiMessage, ChatMessage, OpenAiTokenCountEstimator, UserMessage
from chatmemory.models import Conversation, Message

__all__ = ["check_filling", "message_at", "new_conversation"]

_ROWS_AT_ONCE = 5_000


def message_at(position: int) -> ChatMessage:
    """Return the message at a position of the history."""
    return AiMessage(message_text(position)) if position % 2 else UserMessage(message_text(position))


def new_conversation(window: Window, history: int) -> Conversation:
    """Create a conversation as it is after ``history`` messages were added to it, one by one."""
    conversation = Conversation.objects.create(window=window.kind, limit=window.limit, model="gpt-4o")
    per_message, overhead = _beside_text(conversation.model)
    tokens = [count + per_message for count in token_counts(history)]
    of_tokens = window.kind == "tokens"
    pushed = window.evicted_by(tokens if of_tokens else [1] * history, overhead if of_tokens else 0)
    step, now = _order_step(), timezone.now()
    for start in range(0, history, _ROWS_AT_ONCE):
        Message.objects.bulk_create(
            Message(
                conversation=conversation,
                position=position,
                type="AI" if position % 2 else "USER",
                text=message_text(position),
                token_count=tokens[position],
                memory_order=position * step,
                added_in=position + 1,
                created_at=now,
                # Each add is one version, and evicts what it pushes out.
                **_eviction(pushed[position] + 1, now) if position < len(pushed) else {},
            )
            for position in range(start, min(history, start + _ROWS_AT_ONCE))
        )
    Conversation.objects.filter(pk=conversation.pk).update(
        version=history,
        next_position=history,
        prefix_version=pushed[-1] + 1 if pushed else 0,
        message_count=history,
        retained_count=history - len(pushed),
        retained_tokens=sum(tokens[len(pushed) :]),
    )
    _analyze()
    conversation.refresh_from_db()
    return conversation


@cache
def _order_step() -> int:
    """Return the distance in ``memory_order`` of two messages that were added one after the other."""
    conversation = Conversation.objects.create()
    conversation.memory.add(UserMessage(""), AiMessage(""))
    first, second = conversation.messages.history().values_list("memory_order", flat=True)
    conversation.delete()
    return second - first


def _eviction(version: int, moment: Any) -> dict[str, Any]:
    return {"evicted_in": version, "evicted_at": moment, "eviction_reason": "window"}


def _beside_text(model: str) -> tuple[int, int]:
    """Return the tokens that a message and a request take beside their texts."""
    estimator = OpenAiTokenCountEstimator(model)
    return estimator.estimate_token_count_in_message(UserMessage("")), estimator.estimate_token_count_in_messages([])


def _analyze() -> None:
    # MariaDB has another statement, and what is asked of it here needs no statistics.
    if connection.vendor != "mysql":
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")


def check_filling(window: Window, history: int = 200) -> None:
    """Check that ``new_conversation`` makes the same rows as adding.

    Raises:
        AssertionError: it does not.
    """
    filled = new_conversation(window, history)
    added = Conversation.objects.create(window=window.kind, limit=window.limit, model="gpt-4o")
    for position in range(history):
        added.memory.add(message_at(position))
    added.refresh_from_db()
    assert _state(filled) == _state(added), "a filled conversation is not as if its messages were added"
    assert filled.memory.messages() == added.memory.messages()


def _state(conversation: Conversation) -> tuple[Any, ...]:
    own = {"id", "memory_id", "created_at", "updated_at", "evicted_at", "conversation_id"}
    rows: list[Any] = [conversation, *conversation.messages.order_by("position")]
    return tuple(
        {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields if field.attname not in own}
        for row in rows
    )
