"""The rows of branches in exports, in imports and in checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db.models import QuerySet

from chatmemory.database.change import Change, Target
from chatmemory.database.reading import in_parts, pages
from chatmemory.models import Branch, Conversation
from chatmemory.models.branch import NOTHING, OPEN_END, BranchTree
from chatmemory.verification import Finding

if TYPE_CHECKING:
    from chatmemory.transfer.export import Line


def export(conversation: Conversation) -> Iterable[dict[str, Any]]:
    """Return the lines of the branches of a conversation; none if it never went back."""
    branches = BranchTree.read(conversation).until(conversation.version).branches
    return (_record(branch, conversation) for branch in branches) if len(branches) > 1 else ()


def export_user(user: Any, database: str) -> Iterable[dict[str, Any]]:
    """Yield where a user went back in conversations of other users."""
    rows = Branch.objects.using(database).filter(user=user).exclude(conversation__owner=user)
    for branch in in_parts(rows.select_related("conversation")):
        yield {"conversation": branch.conversation_id, **_record(branch, branch.conversation)}


def restore(conversation: Conversation, line: Line) -> Callable[[], object]:
    """Read a line that ``export`` wrote, and return the function that writes its row."""
    branch = Branch(
        conversation=conversation,
        version=_number(line, "version", 0, conversation.version),
        start=_number(line, "start", 0, conversation.next_position),
        follows=line.number("follows"),
        left=line.number("left"),
        compacted_to=_number(line, "compacted_to", 0, conversation.next_position),
        current_to=line.number("current_to", null=True),
        # Another user of the same name, in another database, may be another person.
        user_id=conversation.owner_id if line.flag("by_owner") else None,
        created_at=line.moment("created_at"),
    )
    for name in ("follows", "left"):
        if not NOTHING <= getattr(branch, name) < branch.start:
            raise line.bad(f"{name}: expected a position before {branch.start}, or -1, got {getattr(branch, name)}")
    if branch.current_to is not None and not branch.start <= branch.current_to <= OPEN_END:
        raise line.bad(f"current_to: expected at least {branch.start}, or null, got {branch.current_to}")
    return partial(branch.save, using=conversation._state.db, force_insert=True)


def verify(conversations: QuerySet[Conversation], *, repair: bool) -> Iterator[Finding]:
    """Yield the problems in the branches of conversations."""
    branched = Branch.objects.using(conversations.db).values("conversation")
    for page in pages(conversations.filter(pk__in=branched)):
        for conversation in page:
            if any(_problems(conversation)):
                yield from _examine_locked(conversation, repair)


def _number(line: Line, name: str, least: int, most: int) -> int:
    number: int = line.number(name)
    if not least <= number <= most:
        raise line.bad(f"{name}: expected from {least} to {most}, got {str(number)[:100]}")
    return number


def rows_of(conversation: Conversation) -> QuerySet[Branch]:
    """Return the branches of a conversation, in the database from which it was read."""
    return Branch.objects.using(conversation._state.db).filter(conversation=conversation)


def _record(branch: Branch, conversation: Conversation) -> dict[str, Any]:
    return {
        "version": branch.version,
        "start": branch.start,
        "follows": branch.follows,
        "left": branch.left,
        "compacted_to": branch.compacted_to,
        "current_to": branch.current_to,
        "by_owner": branch.user_id is not None and branch.user_id == conversation.owner_id,
        "created_at": branch.created_at.isoformat(),
    }


def _examine_locked(conversation: Conversation, repair: bool) -> list[Finding]:
    """Return the problems that are still there when no one else changes the conversation."""
    findings: list[Finding] = []

    def work(change: Change) -> None:
        findings[:] = _problems(change.conversation, repair=repair)

    try:
        Target.as_read(conversation).change(work)
    except Conversation.DoesNotExist:
        return []
    return findings


def _problems(conversation: Conversation, *, repair: bool = False) -> Iterator[Finding]:
    """Yield the problems in the branches of a conversation."""

    def finding(branch: Branch, column: str, expected: Any, *, repaired: bool = False) -> Finding:
        return Finding(
            conversation=conversation.pk,
            memory_id=conversation.memory_id,
            what=f"{column} of the branch of version {branch.version}",
            expected=str(expected),
            found=str(getattr(branch, column)),
            repaired=repaired,
        )

    tree = BranchTree.read(conversation)
    if tree.branches[0].version or tree.branches[0].start:
        yield finding(tree.branches[0], "start", "0, and a branch of version 0")
        return
    least = is_wrong = 0
    for branch in tree.branches:
        if not least <= branch.start <= conversation.next_position:
            is_wrong = 1
            yield finding(branch, "start", f"from {least} to {conversation.next_position}")
        least = max(least, branch.start)
        if branch.version > conversation.version:
            yield finding(branch, "version", f"up to {conversation.version}")
        for column in ("follows", "left"):
            if not NOTHING <= getattr(branch, column) < branch.start:
                is_wrong = 1
                yield finding(branch, column, f"a position before {branch.start}, or -1")
    if is_wrong:
        return
    for branch, end in tree.current_ends():
        if branch.current_to != end:
            if repair:
                rows_of(conversation).filter(version=branch.version).update(current_to=end)
            yield finding(branch, "current_to", end, repaired=repair)
