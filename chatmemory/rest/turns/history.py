"""The rows of turns: where each begins and what answers it; and pages of turns as UI messages."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from chatmemory.assistant.assistant import running_turn
from chatmemory.branches.ui_messages import ANSWER_TYPES, answer_id, shown_rows
from chatmemory.conf import setting
from chatmemory.core.messages import AiMessage, ChatMessage, ToolExecutionResultMessage, UserMessage
from chatmemory.formats.ai_sdk import to_ai_sdk
from chatmemory.models import Conversation, Message, MessageQuerySet, Origin
from chatmemory.models.branch import OPEN_END, BranchTree, on_current_branch
from chatmemory.rest.reader import Reader

_TURNS_AT_ONCE = 50
_ROWS_AT_ONCE = 1000


def _current_rows(conversation: Conversation) -> MessageQuerySet:
    """Return the ``shown_rows`` of the current branch."""
    return shown_rows(conversation).filter(on_current_branch(conversation))


def is_answer(message: ChatMessage | None) -> bool:
    """Return whether a message ends a turn: it is of the model, and calls no tool."""
    return isinstance(message, AiMessage) and not message.tool_execution_requests


def last_question(conversation: Conversation) -> int | None:
    """Return the position of the message that the conversation's last turn answers; None if the user said nothing.

    It may be a copy: one that was asked again after other turns.
    """
    asked = _current_rows(conversation).filter(type=UserMessage.type).order_by("-position")
    found: int | None = asked.values_list("position", flat=True).first()
    return found


def answer_rows(conversation: Conversation, question: int | None) -> Sequence[Message]:
    """Return what the assistant added to answer a message: its calls, their results and the answer, in order.

    If the message is on the current branch, this is its answer there, else the first one.

    Args:
        conversation: its row.
        question: the position of the message; None for what came before anybody said anything.
    """
    tree = BranchTree.read(conversation)
    if question is None or tree.leads_to(question, OPEN_END):
        rows = _current_rows(conversation).filter(position__gt=-1 if question is None else question)
        return _until_next_question(rows)
    return branch_answer(tree, question)


def question_before(tree: BranchTree, end: int) -> int | None:
    """Return the position of the last user message up to a position on its branch; None if there is none."""
    for branch, last in tree.path(end):
        rows = shown_rows(tree.conversation).filter(type=UserMessage.type, position__range=(branch.start, last))
        found: int | None = rows.order_by("-position").values_list("position", flat=True).first()
        if found is not None:
            return found
    return None


def branch_answer(tree: BranchTree, position: int) -> Sequence[Message]:
    """Return the calls, results and answer on a branch, from a position or from the question at it."""
    end = next((branch.start for branch in tree.branches if branch.start > position), OPEN_END)
    rows = shown_rows(tree.conversation).filter(position__gte=position, position__lt=end)
    return _until_next_question(rows.exclude(position=position, type=UserMessage.type))


def _until_next_question(rows: MessageQuerySet) -> Sequence[Message]:
    end = rows.filter(type=UserMessage.type).order_by("position").values_list("position", flat=True).first()
    if end is not None:
        rows = rows.filter(position__lt=end)
    # The next message may have been said between the two statements.
    return list(takewhile(lambda row: row.type != UserMessage.type, rows.order_by("position")))


def is_awaited(conversation: Conversation) -> bool:
    """Return whether the last message that was said is one to answer."""
    last = _current_rows(conversation).order_by("-position").first()
    return last is not None and not is_answer(last.message)


def turns_to_data(conversation: Conversation, before: int | None, reader: Reader) -> dict[str, Any]:
    """Return a page of turns: the UI messages, where older ones are, whether a turn runs, and the memory's version.

    ``before`` is the position before which there are older messages. The answer of a turn that runs now is left out,
    and ``running`` is True: its stream begins with that answer.

    Args:
        conversation: its row.
        before: only messages before this position.
        reader: what is shown of them.
    """
    running = running_turn(conversation)
    rows, start = _read(conversation, before, reader)
    if running is None and before is None and (running := running_turn(conversation)) is not None:
        rows, start = _read(conversation, before, reader)  # it has begun meanwhile, perhaps before the rows were read
    is_unanswered = running is not None and before is None and bool(rows) and not is_answer(rows[-1].message)
    if is_unanswered:
        asked = [index for index, row in enumerate(rows) if row.type == UserMessage.type]
        rows = rows[: asked[-1] + 1] if asked else []
    messages = _to_ui_messages(BranchTree.read(conversation), reader.rows(rows), start)
    return {"messages": messages, "before": start, "running": is_unanswered, "version": conversation.version}


def _read(conversation: Conversation, before: int | None, reader: Reader) -> tuple[list[Message], int | None]:
    """Return the rows of a page in order, and the position of the first if there are older ones, else None."""
    rows = _current_rows(conversation)
    if before is not None:
        rows = rows.filter(position__lt=before)
    first = _first_of_page(rows, reader)
    if first is None:
        return [], None
    page = list(rows.filter(position__gte=first).defer("native").order_by("position"))
    return page, first if rows.filter(position__lt=first).exists() else None


def _first_of_page(rows: MessageQuerySet, reader: Reader) -> int | None:
    """Return where a page begins that ends with the last row: with a turn, unless its last turn is too long."""
    sizes = rows.order_by("-position").values_list("position", "type", reader.chars)
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


def _to_ui_messages(tree: BranchTree, rows: list[Message], start: int | None) -> list[dict[str, Any]]:
    """Return the messages of a page. A copy is not shown: what answers it is a message of its own, as in its stream."""
    turns: list[list[Message]] = []
    for row in rows:
        if not turns or row.type == UserMessage.type:
            turns.append([])
        turns[-1].append(row)
    written: list[dict[str, Any]] = []
    for turn in turns:
        spoken = turn[1:] if turn[0].origin == Origin.COPY else turn
        messages = to_ai_sdk([row.message for row in spoken], ids=[str(row.position) for row in spoken])
        ids: dict[str, str] = {}
        asked: int | None = None
        for row in turn:
            if row.type not in ANSWER_TYPES:
                asked = row.position
            elif asked is not None:  # the last row of each answer names it
                written_as = "answer" if spoken is not turn and asked == turn[0].position else f"answer-{asked}"
                ids[written_as] = answer_id(tree, asked, row.position)
            elif start is None:
                ids["answer"] = answer_id(tree, None, row.position)
            else:  # the rest of a turn that is too long for a page
                ids["answer"] = f"answer-from-{turn[0].position}"
        written += [{**message, "id": ids.get(message["id"], message["id"])} for message in messages]
    return written
