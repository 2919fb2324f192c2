"""Compare the counters of conversations with their rows, and correct wrong ones.

The database computes the sums, so the memory used here does not depend on the number of messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.db.models import Case, Count, Exists, F, Max, Min, OuterRef, Q, QuerySet, Sum, When, Window
from django.db.models.functions import Lag

from chatmemory.capabilities import hooks
from chatmemory.core.asynchronous import as_async_iterator
from chatmemory.core.entries import EvictionReason
from chatmemory.core.json_text import loads
from chatmemory.core.messages import ChatMessageType
from chatmemory.database.change import Change, Target
from chatmemory.database.idempotency import scope_of
from chatmemory.database.operations.replay import HAS_CALLS
from chatmemory.database.reading import NOT_AT_THE_END, ROWS_AT_ONCE, chunks, in_parts, on_primary, pages
from chatmemory.models import (
    EVICTION_REASONS,
    OWNER_SCOPE,
    STAND_INS,
    Branch,
    Conversation,
    IdempotencyKey,
    Message,
    Origin,
)
from chatmemory.models.message import last_pin_change, problem_of_pins

_RETAINED = Q(evicted_in__isnull=True)
_WHOLE = Q(evicted_in__isnull=True, evicted_at__isnull=True, eviction_reason="") | Q(
    evicted_in__gte=F("added_in"),
    evicted_at__isnull=False,
    eviction_reason__in=[reason for reason, _label in EVICTION_REASONS],
)
_IS_RESULT = Q(type=ChatMessageType.TOOL_EXECUTION_RESULT.value)
_COVERS = Q(covers_from__isnull=True, covers_to__isnull=True) & ~Q(origin__in=STAND_INS) | Q(
    ~Q(origin=Origin.SAID), covers_from__lte=F("covers_to"), covers_to__lt=F("position")
)

# What is computed from the rows of each conversation, with the value if there are no rows.
_SUMS = {
    "rows": Count("pk"),
    "said": Count("pk", filter=Q(origin=Origin.SAID)),
    "retained": Count("pk", filter=_RETAINED),
    "tokens": Sum("token_count", filter=_RETAINED),
    "orders": Count("memory_order", distinct=True, filter=_RETAINED),
    "last_position": Max("position"),
    "first_version": Min("added_in"),
    "last_added": Max("added_in"),
    "last_evicted": Max("evicted_in"),
    "last_moved": Max("added_in", filter=NOT_AT_THE_END),
    "whole": Count("pk", filter=_WHOLE),
    "covers": Count("pk", filter=_COVERS),
    "summaries": Count("pk", filter=Q(origin=Origin.SUMMARY) & _RETAINED),
}
_NOTHING = {**dict.fromkeys(_SUMS, 0), "last_position": -1, "first_version": 1}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One problem in a conversation."""

    conversation: UUID

    memory_id: str

    what: str
    """The name of the wrong counter or column, or a short description."""

    expected: str

    found: str

    correction: tuple[str, int] | None = None
    """A counter that can be corrected, and its correct value."""

    repaired: bool = False

    def __str__(self) -> str:
        line = f"conversation {self.conversation} ({self.memory_id!r}): {self.what}: "
        return f"{line}expected {self.expected}, found {self.found}"


def verify(
    conversations: QuerySet[Conversation] | None = None, *, repair: bool = False, accept_missing: bool = False
) -> Iterator[Finding]:
    """Yield the problems in ``conversations``, one conversation after the other, and then in the data of capabilities.

    Other programs may write at the same time: a conversation that looks wrong is checked again under its lock.

    Args:
        conversations: the conversations; by default all. Use ``using()`` for those of another database.
        repair: whether to correct counters, under the lock and in a new version.
        accept_missing: whether a repair counts missing messages as deliberately deleted.
    """
    chosen = on_primary(conversations)
    for page in pages(chosen):
        suspects = {finding.conversation for finding in _examine(page, accept_missing)}
        for conversation in page:
            if conversation.pk in suspects:
                yield from _examine_locked(conversation, accept_missing, repair)
    for examine in hooks("verify"):
        yield from examine(chosen, repair=repair)


averify = as_async_iterator(verify)
"""Async version of ``verify``."""


def _examine_locked(conversation: Conversation, accept_missing: bool, repair: bool) -> list[Finding]:
    findings: list[Finding] = []

    def work(change: Change) -> None:
        locked = change.conversation
        findings[:] = _examine([locked], accept_missing)
        if repair and any(finding.correction for finding in findings):
            findings[:] = _repair(locked, findings)

    try:
        Target.as_read(conversation).change(work)
    except Conversation.DoesNotExist:
        return []
    return findings


def _repair(conversation: Conversation, findings: list[Finding]) -> list[Finding]:
    right = dict(finding.correction for finding in findings if finding.correction is not None)
    for name, value in right.items():
        setattr(conversation, name, value)
    # A writer that has read the old counters must not take them for those of this version: see
    # operations/add_without_lock.
    conversation.version += 1
    conversation.save(using=conversation._state.db, update_fields=[*right, "version"])
    return [replace(finding, repaired=finding.correction is not None) for finding in findings]


def _examine(page: list[Conversation], accept_missing: bool) -> list[Finding]:
    by_key = {conversation.pk: conversation for conversation in page}
    database = page[0]._state.db
    rows = Message.objects.using(database).filter(conversation__in=list(by_key)).order_by()
    sums = rows.values("conversation_id").annotate(**_SUMS)
    found: dict[UUID, dict[str, Any]] = {one["conversation_id"]: dict(one) for one in sums}
    findings = _examine_pins(by_key, rows, found)
    for key, conversation in by_key.items():
        findings += _compare(conversation, found.get(key) or _NOTHING, accept_missing)
    findings += _examine_versions(by_key, rows)
    findings += _examine_placeholders(by_key, rows)
    findings += _examine_results(by_key, rows)
    keys = IdempotencyKey.objects.using(database).filter(conversation__in=list(by_key))
    for record in in_parts(keys):
        findings += _examine_key(by_key[record.conversation_id], record)
    return findings


def _finding(
    conversation: Conversation, what: str, expected: Any, found: Any, correction: tuple[str, int] | None = None
) -> Finding:
    return Finding(
        conversation=conversation.pk,
        memory_id=conversation.memory_id,
        what=what,
        expected=str(expected),
        found=str(found),
        correction=correction,
    )


def _compare(conversation: Conversation, rows: dict[str, Any], accept_missing: bool) -> Iterator[Finding]:
    """Yield the differences between the columns of a conversation and the sums of its rows."""

    def counter(name: str, least: int, most: int | None) -> Iterator[Finding]:
        value = getattr(conversation, name)
        right = max(value, least) if most is None else min(max(value, least), most)
        if value != right:
            expected = least if least == most else f"at least {least}" if most is None else f"from {least} to {most}"
            yield _finding(conversation, name, expected, value, (name, right))

    end = rows["last_position"] + 1
    yield from counter("next_position", end, None)
    gone = max(conversation.next_position, end) - rows["rows"]
    if conversation.purged_count < gone:
        # Not which ones, because that list could be as long as the history.
        expected = f"{rows['rows'] + gone - conversation.purged_count} rows, one for each position"
        correction = ("purged_count", gone) if accept_missing else None
        yield _finding(conversation, "missing messages", expected, rows["rows"], correction)
    yield from counter("purged_count", 0, gone)
    yield from counter("message_count", rows["said"], rows["said"] + gone)
    yield from counter("retained_count", rows["retained"], rows["retained"])
    yield from counter("retained_tokens", rows["tokens"] or 0, rows["tokens"] or 0)
    last_pinned = rows.get("last_pinned", 0)
    yield from counter("version", max(rows["last_added"], rows["last_evicted"] or 0, last_pinned), None)
    changed = max(rows["last_moved"] or 0, rows["last_evicted"] or 0)
    yield from counter("prefix_version", changed, max(changed, conversation.version))
    yield from counter("compacted_to", min(rows["summaries"], 1), max(conversation.next_position, end))
    if rows["first_version"] == 0:
        yield _finding(conversation, "added_in of the first message", "at least 1", 0)
    if rows["orders"] != rows["retained"]:
        expected = f"{rows['retained']} different ones among the retained messages"
        yield _finding(conversation, "memory_order", expected, rows["orders"])
    if rows["whole"] != rows["rows"]:
        expected = "version, time and reason, or none of them, in every message"
        yield _finding(conversation, "eviction fields", expected, f"{rows['rows'] - rows['whole']} messages without")
    if rows["covers"] != rows["rows"]:
        expected = "earlier positions, first and last, in every placeholder and summary; in others that were not said, "
        found = f"{rows['rows'] - rows['covers']} messages with others"
        yield _finding(
            conversation, "covers_from and covers_to", f"{expected}those or nulls; nulls in said ones", found
        )


def _examine_versions(by_key: dict[UUID, Conversation], rows: QuerySet[Message]) -> Iterator[Finding]:
    """Yield the first message of each conversation that was added in an earlier version than the message before it."""
    before = Window(Lag("added_in"), partition_by=[F("conversation_id")], order_by=[F("position").asc()])
    early = rows.annotate(before=before).filter(before__gt=F("added_in")).order_by("conversation_id", "position")
    places = early.values_list("conversation_id", "position", "before", "added_in")
    left = dict(by_key)
    # In batches, because every message of a conversation may be wrong.
    while part := list(places.filter(conversation__in=list(left))[:ROWS_AT_ONCE]):
        for key, position, least, version in part:
            if key in left:
                yield _finding(left.pop(key), f"added_in of message {position}", f"at least {least}", version)


def _examine_placeholders(by_key: dict[UUID, Conversation], rows: QuerySet[Message]) -> Iterator[Finding]:
    """Yield the conversations with placeholders for which no tool result was cleared in the same version."""
    whole = [key for key, conversation in by_key.items() if not conversation.purged_count]
    cleared = Message.objects.using(rows.db).filter(
        conversation=OuterRef("conversation"),
        position=OuterRef("covers_from"),
        type=ChatMessageType.TOOL_EXECUTION_RESULT.value,
        evicted_in=OuterRef("added_in"),
        eviction_reason=EvictionReason.TOOL_CLEARED.value,
    )
    restored = Branch.objects.using(rows.db).filter(conversation=OuterRef("conversation"), version=OuterRef("added_in"))
    wrong = rows.filter(~Exists(cleared), ~Exists(restored), conversation__in=whole, origin=Origin.CLEARED)
    for key, count in wrong.values_list("conversation_id").annotate(Count("pk")):
        expected = "each for a tool result that was cleared in the same version"
        yield _finding(by_key[key], "placeholders", expected, f"{count} for none")


def _examine_results(by_key: dict[UUID, Conversation], rows: QuerySet[Message]) -> Iterator[Finding]:
    """Yield the conversations with tool results that followed their calls until a summary replaced only the calls.

    Other results without a call are valid: they were added in this way, or by a rewrite.
    """
    whole = [key for key, row in by_key.items() if row.compacted_to and not row.purged_count]
    if not whole:
        return
    leads = Case(When(_IS_RESULT | HAS_CALLS, then=1), default=0)
    follows = Window(Lag(leads), partition_by=[F("conversation_id")], order_by=[F("memory_order").asc()])
    retained = rows.filter(_RETAINED, conversation__in=whole)
    alone = Q(follows__isnull=True) | Q(follows=0)
    keys = list(retained.annotate(follows=follows).filter(alone, _IS_RESULT).values_list("pk", flat=True))
    others = Message.objects.using(rows.db)
    between = others.filter(
        Q(evicted_in__isnull=True) | Q(evicted_in__gte=OuterRef("evicted_in")),
        conversation=OuterRef("conversation"),
        added_in__lt=OuterRef("evicted_in"),
        memory_order__gt=OuterRef("memory_order"),
        memory_order__lt=OuterRef(OuterRef("memory_order")),
    ).exclude(_IS_RESULT)
    calls = others.filter(
        HAS_CALLS,
        ~Exists(between),
        conversation=OuterRef("conversation"),
        memory_order__lt=OuterRef("memory_order"),
        evicted_in__gte=OuterRef("added_in"),
        eviction_reason=EvictionReason.SUMMARIZED.value,
    )
    found: set[UUID] = set()
    for chunk in chunks(keys):
        found.update(rows.filter(Exists(calls), pk__in=chunk).values_list("conversation_id", flat=True))
    for key in found:
        expected = "each behind its call, or summarised with it"
        yield _finding(by_key[key], "tool results", expected, "some whose call alone was summarised")


def _examine_pins(
    by_key: dict[UUID, Conversation], rows: QuerySet[Message], found: dict[UUID, dict[str, Any]]
) -> list[Finding]:
    """Return the pins that cannot be read, and write to ``found`` the last version in which a pin changed."""
    findings = []
    for row in in_parts(rows.exclude(pins="").only("conversation", "pins", "position")):
        problem = problem_of_pins(row.pins)
        if problem:
            what = f"pins of message {row.position}"
            findings.append(_finding(by_key[row.conversation_id], what, problem, repr(row.pins[:100])))
            continue
        sums = found[row.conversation_id]
        sums["last_pinned"] = max(sums.get("last_pinned", 0), last_pin_change(row.pins))
    return findings


def _examine_key(conversation: Conversation, record: IdempotencyKey) -> Iterator[Finding]:
    """Yield the problems in the result of an addition's key. The key of a creation contains REST's own response."""
    if record.scope != scope_of(conversation):
        if not record.scope.startswith(OWNER_SCOPE):
            expected = f"{scope_of(conversation)!r} or an owner's"
            yield _finding(conversation, f"scope of idempotency key {record.key!r}", expected, repr(record.scope))
        return
    what = f"account of idempotency key {record.key!r}"
    try:
        account = loads(record.account)
        positions = [position for position, _tokens in account["added"] + account["evicted"]]
        version = account["memory"]["version"]
        last = max([*positions, account.get("answer", -1)])
        late = last >= conversation.next_position, version > conversation.version
    except (KeyError, TypeError, ValueError):
        yield _finding(conversation, what, "the positions and the memory of a change, as JSON", "something else")
        return
    if late[0]:
        yield _finding(conversation, what, f"positions below {conversation.next_position}", last)
    if late[1]:
        yield _finding(conversation, what, f"a version up to {conversation.version}", version)
