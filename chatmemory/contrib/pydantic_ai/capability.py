"""The capability of this app. Deleting a conversation deletes its record and entries, too.

Every process of the project imports this module when it starts, so it does not import Pydantic AI.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from django.db.models import QuerySet

from chatmemory.capabilities import Capability
from chatmemory.contrib.owned_conversations import alter
from chatmemory.contrib.pydantic_ai.models import Entry, Record, history_to
from chatmemory.database.change import Change, Target
from chatmemory.database.reading import chunks, pages
from chatmemory.models import Conversation
from chatmemory.verification import Finding

if TYPE_CHECKING:
    from chatmemory.transfer.export import Line


class PydanticAiCapability(Capability):
    """The record and the entries of a conversation are purged, anonymised, exported, restored and verified with it."""

    def anonymise(self, conversation: Conversation) -> None:
        for rows in (Entry.objects, Record.objects):
            rows.of(conversation).delete()  # which are useless without their texts

    def purge(self, conversation: Conversation, before: datetime) -> None:
        """Delete branches that the conversation left, if their last entry is old. Its history stays."""
        # Most conversations have none, and a lock is expensive.
        if any(record.branches for record in Record.objects.of(conversation)):
            target = Target.as_read(conversation)
            alter(target, lambda change: _delete_branches(change.conversation, before), active=False)

    def export(self, conversation: Conversation) -> Iterable[dict[str, Any]]:
        from chatmemory.contrib.pydantic_ai.records import log_records

        return log_records(conversation)

    def restore(self, conversation: Conversation, line: Line) -> Callable[[], object]:
        from chatmemory.contrib.pydantic_ai.records import restore_record

        return restore_record(conversation, line)

    def verify(self, conversations: QuerySet[Conversation], *, repair: bool) -> Iterable[Finding]:
        return _broken_histories(conversations, repair=repair)


def _delete_branches(conversation: Conversation, before: datetime) -> None:
    record = Record.objects.of(conversation).first()
    if record is None or _missing(conversation):  # deleted meanwhile, or to be repaired first
        return
    entries = Entry.objects.of(conversation)
    old = set(entries.filter(entry_id__in=record.branches, created_at__lt=before).values_list("entry_id", flat=True))
    branches = [tip for tip in record.branches if tip not in old]
    links = entries.links()
    kept = {entry_id for tip in (record.head_id, *branches) for entry_id in history_to(tip, links)}
    for part in chunks([entry_id for entry_id in links if entry_id not in kept]):
        entries.filter(entry_id__in=part).delete()
    Record.objects.of(conversation).update(branches=branches)


def _broken_histories(conversations: QuerySet[Conversation], *, repair: bool) -> Iterator[Finding]:
    """Yield conversations whose entries are incomplete, or have no record.

    Args:
        conversations: the conversations.
        repair: let a history begin after a missing entry, end with the newest entry if its last one is missing, and
            delete entries without a record. Copies loaded before it then have an older revision.
    """
    for page in pages(conversations):
        known: set[Any] = set()
        for model in (Entry, Record):
            rows = model._default_manager.using(conversations.db).filter(conversation__in=page)
            known |= set(rows.values_list("conversation", flat=True).distinct())
        for conversation in page:
            if conversation.pk in known and _missing(conversation):
                yield from _examine_locked(conversation, repair)


def _examine_locked(conversation: Conversation, repair: bool) -> list[Finding]:
    findings: list[Finding] = []

    def work(change: Change) -> None:
        findings.clear()
        if missing := _missing(change.conversation):
            if repair:
                _mend(change.conversation)
            findings.append(
                Finding(
                    conversation=conversation.pk,
                    memory_id=conversation.memory_id,
                    what="Pydantic AI history",
                    expected="a record, and all entries that it leads to",
                    found=f"none of {', '.join(missing)}"[:1000],
                    repaired=repair,
                )
            )

    try:
        Target.as_read(conversation).change(work)
    except Conversation.DoesNotExist:
        return []
    return findings


def _missing(conversation: Conversation) -> list[str]:
    """Return what is missing: the record, or the IDs of entries."""
    record = Record.objects.of(conversation).first()
    # Read after the record: an entry is stored before it, and deleted after it.
    links = Entry.objects.of(conversation).links()
    if record is None:
        return ["the record"] if links else []
    named = {record.head_id, *record.branches, *links.values()} - {None}
    return sorted(named.difference(links))


def _mend(conversation: Conversation) -> None:
    entries, records = Entry.objects.of(conversation), Record.objects.of(conversation)
    record = records.first()
    if record is None:
        entries.delete()
        return
    links = entries.links()
    for part in chunks([entry_id for entry_id, parent in links.items() if parent is not None and parent not in links]):
        entries.filter(entry_id__in=part).update(parent_id=None)
    newest = entries.order_by("-pk").values_list("entry_id", flat=True).first()
    head = record.head_id if record.head_id is None or record.head_id in links else newest
    branches = [tip for tip in record.branches if tip in links and tip != head]
    records.update(head_id=head, branches=branches, revision=str(uuid4()))
