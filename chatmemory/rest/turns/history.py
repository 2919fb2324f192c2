"""The rows of turns: where each begins and what answers it; and pages of turns as UI messages."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from django.db.models import Q

from chatmemory.assistant.assistant import running_turn
from chatmemory.conf import setting
from chatmemory.core.messages import AiMessage, ChatMessage, SystemMessage, ToolExecutionResultMessage, UserMessage
from chatmemory.database.reading import CHARS, rows_of
from chatmemory.formats.ai_sdk import to_ai_sdk
from chatmemory.models import Conversation, Message, MessageQuerySet, Origin
from chatmemory.rest.reader import Reader

_TURNS_AT_ONCE = 50
_ROWS_AT_ONCE = 1000
_COPY = Q(type=UserMessage.type, origin=Origin.COPY)


def _spoken_rows(conversation: Conversation) -> MessageQuerySet:
    """Return what was said, without system messages, and the copies of user messages that were asked again."""
    return rows_of(conversation).filter(Q(origin=Origin.SAID) | _COPY).exclude(type=SystemMessage.type)


def is_answer(message: ChatMessage | None) -> bool:
    """Return whether a message ends a turn: it is of the model, and calls no tool."""
    return isinstance(message, AiMessage) and not message.tool_execution_requests


def last_question(conversation: Conversation) -> int | None:
    """Return the position of the message that the conversation's last turn answers; None if the user said nothing.

    It may be a copy: one that was asked again after other turns.
    """
    asked = _spoken_rows(conversation).filter(type=UserMessage.type).order_by("-position")
    found: int | None = asked.values_list("position", flat=True).first()
    return found


def answer_rows(conversation: Conversation, question: int | None) -> Sequence[Message]:
    """Return what the assistant added to answer a message: its calls, their results and the answer, in order.

    Args:
        conversation: its row.
        question: the position of the message; None for what came before anybody said anything.
    """
    rows = _spoken_rows(conversation).filter(position__gt=-1 if question is None else question)
    end = rows.filter(type=UserMessage.type).order_by("position").values_list("position", flat=True).first()
    if end is not None:
        rows = rows.filter(position__lt=end)
    # The next message may have been said between the two statements.
    return list(takewhile(lambda row: row.type != UserMessage.type, rows.order_by("position")))


def is_awaited(conversation: Conversation) -> bool:
    """Return whether the last message that was said is one to answer."""
    last = _spoken_rows(conversation).order_by("-position").first()
    return last is not None and not is_answer(last.message)


def turns_to_data(conversation: Conversation, before: int | None, reader: Reader) -> dict[str, Any]:
    """Return a page of turns: ``{"messages": [UIMessage, …], "before": position | None, "running": bool}``.

    ``before`` is the position before which there are older messages. The answer of a turn that runs now is left out,
    and ``running`` is True: its stream begins with that answer.

    Args:
        conversation: its row.
        before: only messages before this position.
        reader: what is shown of them.
    """
    running = running_turn(conversation)
    rows, start = _read(conversation, before)
    if running is None and before is None and (running := running_turn(conversation)) is not None:
        rows, start = _read(conversation, before)  # it has begun meanwhile, perhaps before the rows were read
    is_unanswered = running is not None and before is None and bool(rows) and not is_answer(rows[-1].message)
    if is_unanswered:
        asked = [index for index, row in enumerate(rows) if row.type == UserMessage.type]
        rows = rows[: asked[-1] + 1] if asked else []
    return {"messages": _to_ui_messages(reader.rows(rows), start), "before": start, "running": is_unanswered}


def _read(conversation: Conversation, before: int | None) -> tuple[list[Message], int | None]:
    """Return the rows of a page in order, and the position of the first if there are older ones, else None."""
    rows = _spoken_rows(conversation)
    if before is not None:
        rows = rows.filter(position__lt=before)
    first = _first_of_page(rows)
    if first is None:
        return [], None
    page = list(rows.filter(position__gte=first).defer("native").order_by("position"))
    return page, first if rows.filter(position__lt=first).exists() else None


def _first_of_page(rows: MessageQuerySet) -> int | None:
    """Return where a page begins that ends with the last row: with a turn, unless its last turn is too long."""
    sizes = rows.order_by("-position").values_list("position", "type", CHARS)
    turns, chars = 0, 0
    begins: int | None = None
    within: int | None = None
    for index, (position, type, length) in enumerate(sizes[: _ROWS_AT_ONCE + 1]):
        chars += length
        if index and (index == _ROWS_AT_ONCE or chars > setting("MAX_PAGE_CHARS")):
            return within if begins is None else begins
        if type == UserMessage.type:
            begins = position
            turns += 1
            if turns == _TURNS_AT_ONCE:
                return begins
        if within is None or type != ToolExecutionResultMessage.type:  # a result stays with its call
            within = position
    return within


def _to_ui_messages(rows: list[Message], start: int | None) -> list[dict[str, Any]]:
    """Return the messages of a page. A copy is not shown: what answers it is a message of its own, as in its stream."""
    turns: list[list[Message]] = []
    for row in rows:
        if not turns or row.type == UserMessage.type:
            turns.append([])
        turns[-1].append(row)
    written: list[dict[str, Any]] = []
    for first, *others in turns:
        spoken = others if first.origin == Origin.COPY else [first, *others]
        messages = to_ai_sdk([row.message for row in spoken], ids=[str(row.position) for row in spoken])
        if messages and messages[0]["id"] == "answer":
            if first.origin == Origin.COPY:
                messages[0]["id"] = f"answer-{first.position}"
            elif start is not None:  # the rest of a turn that is too long for a page
                messages[0]["id"] = f"answer-from-{first.position}"
        written += messages
    return written
