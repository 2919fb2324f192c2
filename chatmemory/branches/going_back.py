"""Go back in a conversation: to before a message, to another branch, or to say something else.

The memory becomes what it was there. Rows that are still in the memory stay, so prompt caches fit again. The others
leave, with the reason ``rewound``, and what has left since returns as a copy, because a row never changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Any

from django.db.models import Q

from chatmemory.assistant.errors import ConversationBusyError
from chatmemory.conf import setting
from chatmemory.core.entries import Cause, EvictionReason
from chatmemory.core.eviction import Retained
from chatmemory.core.exceptions import CodedError, InvalidValueError
from chatmemory.core.exceptions import gettext_noop as _
from chatmemory.core.json_text import dumps
from chatmemory.core.messages import AiMessage, ChatMessageType, UserMessage
from chatmemory.database.change import Change, Gone, Target, write, write_version
from chatmemory.database.connections import UtcNow
from chatmemory.database.idempotency import check_key, fingerprint, recall, remember
from chatmemory.database.new_messages import NewMessages
from chatmemory.database.operations.compaction_plan import TAKEN_IN
from chatmemory.database.operations.plan import (
    check_size,
    entry_of,
    evicted_rows,
    longest_common_subsequence,
    oldest_entries,
    placed_rows,
    plan_addition,
)
from chatmemory.database.operations.rewrite import place_between
from chatmemory.database.reading import request_before, rows_of
from chatmemory.database.stored_windows import estimator_of, window_of
from chatmemory.models import STAND_INS, Branch, Conversation, Message, Origin
from chatmemory.models.branch import OPEN_END, BranchTree
from chatmemory.models.message import is_pin_open, open_pin


class HistoryNotKeptError(CodedError, ValueError):
    """A conversation cannot go back, because evicted messages are deleted."""

    code = "history_not_kept"


@dataclass(frozen=True, kw_only=True)
class Destination:
    """Where a conversation goes back to."""

    position: int
    """The last position on its branch, or ``NOTHING``."""

    memory: Sequence[Message]
    """The rows of the memory there, in order."""

    compacted_to: int
    """The counter of the conversation there."""


def rewind(
    target: Target,
    *,
    before: int | None = None,
    after: int | None = None,
    idempotency_key: str | None = None,
    user: Any = None,
    in_turn: bool = False,
) -> Change:
    """Make the memory what it was before or after the message at a position was said. See ``methods.rewind``."""
    if (before is None) == (after is None):
        raise TypeError("rewind() needs one of before and after")

    def find(tree: BranchTree) -> Destination | None:
        return _behind(tree, after) if before is None else before_message(tree, before)

    asked = ["rewind", before] if after is None else ["rewind after", after]
    return go_back(target, find, asked, idempotency_key, user, in_turn=in_turn)


def go_after(
    target: Target,
    *,
    position: int | None,
    idempotency_key: str | None = None,
    user: Any = None,
    in_turn: bool = False,
) -> Change:
    """Make the memory what it was when the message at a position had just been said, so that the next one follows it.

    Args:
        target: the conversation.
        position: the position of a message that was said; None for the place before the first one.
        idempotency_key: as for ``memory.add``.
        user: who goes there.
        in_turn: whether the caller has the turn. Otherwise, no turn may be in progress.
    """

    find = partial(_behind, position=position)
    return go_back(target, find, ["after", position], idempotency_key, user, in_turn=in_turn)


def switch(target: Target, position: int, *, idempotency_key: str | None = None, user: Any = None) -> Change:
    """Go to the branch of the message at a position, where it was left last. See ``methods.switch``."""
    return go_back(target, lambda tree: _where_left(tree, position), ["switch", position], idempotency_key, user)


def edit(
    target: Target,
    position: int,
    message: UserMessage,
    *,
    idempotency_key: str | None = None,
    user: Any = None,
) -> Change:
    """Go back to before a user message, and add another one. See ``methods.edit``."""
    if not isinstance(message, UserMessage):
        raise TypeError(f"message must be a UserMessage, but is: {type(message).__name__}")
    new = NewMessages.of([message])

    def go(target: Target) -> Change:
        assert target.instance is not None
        require_question(said_at(target.instance, position))
        return rewind(target, before=position, user=user)

    return _add_there(target, go, new, ["edit", position, new.fingerprint], idempotency_key)


def add_after(
    target: Target, position: int | None, messages: NewMessages, *, idempotency_key: str | None = None, user: Any = None
) -> Change:
    """Go to right behind the message at a position, and add messages. The arguments are those of ``go_after``."""
    asked = ["add", position, messages.fingerprint]
    go = partial(go_after, position=position, user=user)
    return _add_there(target, go, messages, asked, idempotency_key)


def _add_there(
    target: Target, go: Callable[[Target], Change], new: NewMessages, asked: Sequence[Any], idempotency_key: str | None
) -> Change:
    """Go to another place, and add messages there, in one transaction. The other arguments are those of ``go_back``."""
    new.token_counts(estimator_of(None, target.likely_model))  # before any lock
    request = _request(asked, idempotency_key)

    def work(change: Change) -> None:
        conversation = change.conversation
        if idempotency_key is not None and recall(change, idempotency_key, request):
            return
        go(Target.as_read(conversation, most=target.most))
        window = window_of(conversation)
        rows = new.rows(estimator_of(window, conversation.model))
        added, gone = plan_addition(conversation, window, rows, oldest_entries(conversation, window))
        check_size(target.most, conversation, added, gone)
        write(change, added, gone)
        if idempotency_key is not None:
            remember(change, idempotency_key, request)

    return target.change(work)


def go_back(
    target: Target,
    find: Callable[[BranchTree], Destination | None],
    asked: Sequence[Any],
    idempotency_key: str | None = None,
    user: Any = None,
    *,
    in_turn: bool = False,
) -> Change:
    """Go to a place of a conversation, in one version.

    Args:
        target: the conversation.
        find: returns the place; None to change nothing.
        asked: what was asked for, as JSON values. A repeated request must ask for the same.
        idempotency_key: as for ``memory.add``.
        user: who goes back.
        in_turn: whether the caller has the turn. Otherwise, no turn may be in progress.
    """
    request = _request(asked, idempotency_key)

    def work(change: Change) -> None:
        conversation = change.conversation
        if idempotency_key is not None and recall(change, idempotency_key, request):
            return
        if not setting("KEEP_HISTORY"):
            raise HistoryNotKeptError(
                _("the conversation cannot go back, because KEEP_HISTORY is False: evicted messages are deleted")
            )
        if not in_turn:
            _require_free(conversation)
        tree = BranchTree.read(conversation)
        destination = find(tree)
        if destination is not None:
            branch = Branch(
                conversation=conversation,
                start=conversation.next_position,
                follows=destination.position,
                left=tree.end,
                compacted_to=conversation.compacted_to,
                current_to=OPEN_END,
                user=user,
            )
            conversation.compacted_to = destination.compacted_to
            _restore(change, tree, destination, target)
            branch.version, branch.created_at = conversation.version, conversation.updated_at
            _begin(tree, branch)
        if idempotency_key is not None:
            remember(change, idempotency_key, request)

    return target.change(work)


def _request(asked: Sequence[Any], idempotency_key: str | None) -> str:
    if idempotency_key is not None:
        check_key(idempotency_key)
    return fingerprint(dumps(asked))


def _restore(change: Change, tree: BranchTree, destination: Destination, target: Target) -> None:
    """Make the memory of a destination the memory, and write the change."""
    conversation = change.conversation
    memory = _with_whole_calls(destination.memory) if conversation.purged_count else destination.memory
    window = window_of(conversation)
    old = list(rows_of(conversation).retained())
    path = list(tree.path(destination.position))
    here = [row for row in old if any(branch.start <= row.position <= last for branch, last in path)]
    pairs = longest_common_subsequence(list(map(_source, here)), list(map(_source, memory)))
    stay = {place: here[index] for index, place in pairs}
    new = [stay.get(place) or _copy(row, conversation) for place, row in enumerate(memory)]
    while (full := place_between(new, stay, conversation.next_position)) is not None:
        new[full] = _copy(stay.pop(full), conversation)
    inserted = [row for place, row in enumerate(new) if place not in stay]
    kept = {row.pk for row in stay.values()}
    gone: list[Gone] = [(row, EvictionReason.REWOUND) for row in old if row.pk not in kept]
    fitted = Retained.fit([entry_of(row, window) for row in new], window)  # the limit may be smaller than it was
    inserted += placed_rows(fitted, conversation.next_position + len(inserted), window)
    gone += evicted_rows(fitted)
    if inserted or gone:
        check_size(target.most, conversation, inserted, gone)
        conversation.next_position += len(inserted)
        write(change, inserted, gone, rewritten=bool(inserted))
    else:
        write_version(change)


def _with_whole_calls(memory: Sequence[Message]) -> list[Message]:
    """Return a memory without tool calls whose results were deleted, and without results whose call was."""
    kept: list[Message] = []
    rows = list(memory)
    while rows:
        row = rows.pop(0)
        message = row.message
        results = list(takewhile(lambda one: one.type == ChatMessageType.TOOL_EXECUTION_RESULT, rows))
        calls = len(message.tool_execution_requests) if isinstance(message, AiMessage) else 0
        is_last = len(results) == len(rows)  # its results may not have come yet
        del rows[: len(results)]
        if calls and (is_last or len(results) >= calls):
            kept += [row, *results]
        elif not calls and row.type != ChatMessageType.TOOL_EXECUTION_RESULT:
            kept.append(row)
    return kept


def _source(row: Message) -> tuple[str, Any]:
    """Return a key that is equal for a row and its copies."""
    if row.origin == Origin.RESTORED:
        return "", row.covers_from
    if row.origin == Origin.CLEARED:
        return row.origin, (row.covers_from, row.text)
    if row.origin == Origin.SUMMARY:
        return row.origin, (row.covers_from, row.covers_to, row.text)
    return "", row.position


def _copy(row: Message, conversation: Conversation) -> Message:
    """Return an unsaved copy of a row, with its pin. A copy of a restored row is one of the same message."""
    is_stand_in = row.origin in (Origin.RESTORED, *STAND_INS)
    estimator = estimator_of(None, conversation.model)
    return Message(
        type=row.type,
        text=row.text,
        payload=row.payload,
        native=row.native,
        written_by=row.written_by,
        token_count=NewMessages.of([row.message]).token_counts(estimator)[0],
        origin=row.origin if is_stand_in else Origin.RESTORED,
        covers_from=row.covers_from if is_stand_in else row.position,
        covers_to=row.covers_to if is_stand_in else row.position,
        pins=open_pin("", conversation.version + 1) if is_pin_open(row.pins) else "",
    )


def _begin(tree: BranchTree, branch: Branch) -> None:
    """Write a new branch, and which parts of the others are current now."""
    rows = Branch.objects.using(tree.conversation._state.db)
    ends = {each.version: end for each, end in tree.path(branch.follows)}
    if tree.branches[0].pk is None:
        first = tree.branches[0]
        first.current_to = ends.pop(first.version, None)
        # Not one statement: on Citus, an insertion of several rows is committed in two phases.
        for each in (first, branch):
            rows.bulk_create([each])
        return
    current = rows.filter(conversation=tree.conversation, current_to__isnull=False)
    current.exclude(version__in=ends).update(current_to=None)
    for each in tree.branches:
        end = ends.get(each.version)
        if end is not None and each.current_to != end:
            rows.filter(conversation=tree.conversation, version=each.version).update(current_to=end)
    rows.bulk_create([branch])


def _require_free(conversation: Conversation) -> None:
    """Raise an error if a turn is in progress. The conversation is locked, so none can start."""
    row = Conversation.objects.using(conversation._state.db).filter(pk=conversation.pk)
    if row.filter(turn_until__gt=UtcNow()).exists():
        raise ConversationBusyError(
            f"A turn of conversation {conversation.memory_id!r} is in progress. Try again when it has ended."
        )


def said_at(conversation: Conversation, position: int | None) -> Message:
    """Return the row of the message that was said at a position.

    Raises:
        InvalidValueError: no message was said there, or it was deleted.
    """
    row = None
    if isinstance(position, int) and not isinstance(position, bool) and position >= 0:
        row = rows_of(conversation).history().filter(position=position).first()
    if row is None:
        raise InvalidValueError(
            "position must be that of a message of the history, but is: %(position)s", position=repr(position)[:100]
        )
    row.conversation = conversation
    return row


def require_question(row: Message) -> None:
    """Raise an error if a message is not one of the user.

    Raises:
        InvalidValueError: it is not.
    """
    if row.type != ChatMessageType.USER:
        raise InvalidValueError(
            "the message at position %(position)s must be one of the user, but is of type %(type)s",
            position=row.position,
            type=row.type,
        )


def last_said(tree: BranchTree, end: int) -> Message | None:
    """Return the last message that was said up to the position ``end`` on its branch, without its text."""
    for branch, last in tree.path(end):
        rows = rows_of(tree.conversation).filter(position__range=(branch.start, last)).history()
        row = rows.defer("text", "payload", "native").last()
        if row is not None:
            row.conversation = tree.conversation
            return row
    return None


def next_on_path(tree: BranchTree, position: int, end: int) -> int | None:
    """Return the position of the message that follows the one at ``position`` on the way to ``end``; None if none does.

    Args:
        tree: the branches.
        position: a position on the way to ``end``, or ``NOTHING``.
        end: the position of a message.
    """
    found = None
    for branch, last in tree.path(end):
        rows = rows_of(tree.conversation).filter(position__range=(max(branch.start, position + 1), last)).history()
        first = rows.values_list("position", flat=True).first()
        found = found if first is None else first
        if branch.start <= position:
            break
    return found


def before_message(tree: BranchTree, position: int) -> Destination:
    """Return where the conversation was before the message at a position was said.

    Raises:
        InvalidValueError: no message was said there, or it is a tool result, which has to follow its call.
    """
    row = said_at(tree.conversation, position)
    if row.type == ChatMessageType.TOOL_EXECUTION_RESULT:
        raise InvalidValueError(
            "the message at position %(position)s is a tool result; go back to before its call", position=position
        )
    memory = list(request_before(row))
    return Destination(
        position=tree.before(position),
        memory=memory,
        compacted_to=compacted_to_before(tree, position, row.added_in),
    )


def after_message(tree: BranchTree, row: Message) -> Destination:
    """Return where the conversation was when the message of ``row`` had just been said."""
    moment = right_after(row)
    memory = rows_of(tree.conversation).filter(moment.there, moment.retained)
    return Destination(
        position=moment.end,
        memory=list(memory.order_by("memory_order")),
        compacted_to=compacted_to_before(tree, row.position, row.added_in + 1),
    )


@dataclass(frozen=True, kw_only=True)
class Moment:
    """The moment when a message had just been said."""

    end: int
    """The last position that the conversation had."""

    there: Q
    """The condition for the rows that it had."""

    retained: Q
    """The condition for those of them that were in the memory."""

    is_whole: bool
    """Whether a change ended then. Otherwise, the memory may have exceeded its limit."""


def right_after(row: Message) -> Moment:
    """Return the moment when the message of ``row`` had just been said.

    If the same change said more, what made room for its later messages was still in the memory.
    """
    version = row.added_in
    rows = rows_of(row.conversation)
    left_later = Q(evicted_in__isnull=True) | Q(evicted_in__gt=version)
    if not rows.history().filter(position__gt=row.position, added_in=version).exists():
        added = rows.filter(position__gte=row.position, added_in=version).order_by("-position")
        end = added.values_list("position", flat=True)[0]  # placeholders may come after the message
        return Moment(end=end, there=Q(added_in__lte=version), retained=left_later, is_whole=True)
    made_room = Q(eviction_reason__in=EvictionReason.of(Cause.ROOM, Cause.PLACEHOLDER))
    systems = rows.history().filter(type=ChatMessageType.SYSTEM.value, position__lte=row.position)
    system = systems.order_by("-position").values_list("position", flat=True).first()
    if system is not None:
        made_room |= Q(eviction_reason=EvictionReason.REPLACED.value, position=system)
    return Moment(
        end=row.position,
        there=Q(added_in__lte=version, position__lte=row.position),
        retained=left_later | Q(made_room, evicted_in=version),
        is_whole=False,
    )


def _behind(tree: BranchTree, position: int | None) -> Destination | None:
    """Return where the next message follows the one at a position, or none; None if the conversation is there."""
    last = last_said(tree, tree.end)
    if position is not None:
        row = said_at(tree.conversation, position)
        return None if last is not None and last.position == position else after_message(tree, row)
    spoken = rows_of(tree.conversation).history().exclude(type=ChatMessageType.SYSTEM.value)
    first = spoken.values_list("position", flat=True).first()
    is_there = last is None or last.type == ChatMessageType.SYSTEM
    return None if is_there or first is None else before_message(tree, first)


def _where_left(tree: BranchTree, position: int) -> Destination | None:
    """Return where the branch of the message at a position was left last; None if it is the current one."""
    said_at(tree.conversation, position)
    if tree.leads_to(position, tree.end):
        return None
    left = _last_visit(tree, position)
    memory = list(rows_of(tree.conversation).in_memory_at(left.version - 1))
    return Destination(position=left.left, memory=memory, compacted_to=left.compacted_to)


def _last_visit(tree: BranchTree, position: int) -> Branch:
    """Return the branch for which the conversation last left the one of ``position``, which is not the current one."""
    return next(branch for branch in reversed(tree.branches) if tree.leads_to(position, branch.left))


def compacted_to_before(tree: BranchTree, position: int, version: int) -> int:
    """Return what ``compacted_to`` was before ``version``, or a later position if that is unknown.

    Then the next summary covers less than it could, but nothing that was removed.

    Args:
        tree: the branches.
        position: the position of a message of that version, or later on its branch.
        version: the version.
    """
    conversation = tree.conversation
    rows = rows_of(conversation).order_by("-position").defer("text", "payload", "native")
    removed = Q(eviction_reason__in=(EvictionReason.CLEARED.value, EvictionReason.REWRITTEN.value))
    since = Q(origin=Origin.SUMMARY, added_in__gte=version) | Q(removed, evicted_in__gte=version)
    if not rows.filter(since).exists():
        is_current = tree.leads_to(position, tree.end)
        return conversation.compacted_to if is_current else _last_visit(tree, position).compacted_to
    for row in rows.filter(origin=Origin.SUMMARY, added_in__lt=version):
        if tree.leads_to(row.position, position):
            was_there = row.evicted_in is None or row.evicted_in >= version or row.eviction_reason in TAKEN_IN
            return row.covers_to + 1 if was_there and row.covers_to is not None else conversation.next_position
    return conversation.next_position if rows.filter(removed, evicted_in__lt=version).exists() else 0
