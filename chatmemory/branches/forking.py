"""Copy a conversation as it was at a message."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any
from uuid import UUID

from django.db.models import BooleanField, Count, ExpressionWrapper, Q, Sum

from chatmemory.branches.going_back import Moment, compacted_to_before, right_after, said_at
from chatmemory.database import operations
from chatmemory.database.change import Change, Target
from chatmemory.database.reading import ROWS_AT_ONCE, prefix_version_at, read_in_parts, rows_of
from chatmemory.database.rows import CHARS_AT_ONCE, chars_of
from chatmemory.models import DESCRIBED, WINDOW_SETTINGS, Branch, Conversation, Message, MessageQuerySet, Origin
from chatmemory.models.branch import BranchTree
from chatmemory.models.fields import memory_id_text
from chatmemory.models.message import pins_until

_FIELDS = {"owner", "memory_id", *DESCRIBED, *WINDOW_SETTINGS}


def fork(
    conversation: Conversation,
    key: UUID | None = None,
    *,
    at: int,
    check: Callable[[MessageQuerySet], None] | None = None,
    **fields: Any,
) -> Conversation:
    """See ``methods.fork``.

    Args:
        conversation: the conversation.
        key: the primary key of the copy; by default a new one.
        at: the position of the last message of the copy.
        check: is called with the rows before they are copied. Its exceptions end the fork.
        fields: the fields of the copy that differ.
    """
    if unknown := sorted(fields.keys() - _FIELDS):
        raise TypeError(f"fork() got unexpected fields: {', '.join(unknown)}; expected some of {sorted(_FIELDS)}")
    window = {name: fields.pop(name) for name in WINDOW_SETTINGS if name in fields}
    made: list[Conversation] = []

    def work(change: Change) -> None:
        # The locked row, because the caller's object may have an old title.
        rows = Conversation.objects.using(change.conversation._state.db).select_related("owner")
        given = fields if key is None else {**fields, "pk": key}
        made[:] = [_copy(rows.get(pk=change.conversation.pk), at, given, window, check)]

    Target.of(conversation).change(work)
    return made[0]


def _copy(
    source: Conversation,
    at: int,
    fields: dict[str, Any],
    window: dict[str, Any],
    check: Callable[[MessageQuerySet], None] | None,
) -> Conversation:
    """Insert the copy of a locked conversation, and return it.

    Args:
        source: the conversation.
        at: the position of the last message.
        fields: the fields of the copy that differ.
        window: the settings of the window that differ.
        check: is called with the rows before they are copied.
    """
    last = said_at(source, at)
    moment = right_after(last)
    rows = rows_of(source).filter(moment.there)
    if check is not None:
        check(rows)
    tree = BranchTree.read(source)
    kept = {name: deepcopy(getattr(source, name)) for name in (*DESCRIBED, *WINDOW_SETTINGS)}
    copy = Conversation(
        **{"owner": source.owner, **kept, **fields},
        **_counters(source, rows, moment),
        version=last.added_in,
        prefix_version=prefix_version_at(source, last.added_in, last=at),
        compacted_to=min(compacted_to_before(tree, at, last.added_in + 1), moment.end + 1),
        forked_from=source.pk,
    )
    memory_id_text(copy.memory_id)
    Conversation.objects.using(source._state.db).bulk_create([copy])
    retained = ExpressionWrapper(moment.retained, output_field=BooleanField())
    _copy_rows(read_in_parts(rows.annotate(retained=retained)), copy)
    _copy_branches(tree, copy)
    if window or not moment.is_whole:
        operations.set_window(Target.as_read(copy), **window)
    return copy


def _counters(source: Conversation, rows: MessageQuerySet, moment: Moment) -> dict[str, int]:
    """Return the counters of a copy that has ``rows``."""
    sums = rows.order_by().aggregate(
        count=Count("pk"),
        said=Count("pk", filter=Q(origin=Origin.SAID)),
        retained=Count("pk", filter=moment.retained),
        tokens=Sum("token_count", filter=moment.retained),
    )
    purged = moment.end + 1 - sums["count"]
    purged_said = min(purged, source.message_count - rows_of(source).history().count()) if purged else 0
    return {
        "next_position": moment.end + 1,
        "message_count": sums["said"] + purged_said,
        "retained_count": sums["retained"],
        "retained_tokens": sums["tokens"] or 0,
        "purged_count": purged,
    }


def _copy_rows(rows: Iterable[Any], copy: Conversation) -> None:
    """Insert copies of rows, which are annotated with whether they are ``retained``."""
    database = copy._state.db
    copies: list[Message] = []
    chars = 0
    for row in rows:
        row.pk, row._state.adding, row.conversation = None, True, copy
        row.pins = pins_until(row.pins, copy.version)
        if row.retained:
            row.evicted_in, row.evicted_at, row.eviction_reason = None, None, ""
        copies.append(row)
        chars += chars_of(row)
        if len(copies) == ROWS_AT_ONCE or chars > CHARS_AT_ONCE:
            Message.objects.using(database).bulk_create(copies)
            copies, chars = [], 0
    Message.objects.using(database).bulk_create(copies)


def _copy_branches(tree: BranchTree, copy: Conversation) -> None:
    """Insert copies of the branches that had begun."""
    branches = tree.until(copy.version).branches
    if len(branches) == 1:
        return
    for branch in branches:
        branch.pk, branch._state.adding, branch.conversation = None, True, copy
    Branch.objects.using(copy._state.db).bulk_create(branches)
