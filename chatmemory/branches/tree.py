"""The tree of a conversation's messages: which message follows which one."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.db.models import OuterRef, Subquery

from chatmemory.core.messages import ChatMessageType
from chatmemory.database.reading import rows_of
from chatmemory.models import Branch, Conversation
from chatmemory.models.branch import OPEN_END, BranchTree


@dataclass(frozen=True, kw_only=True)
class ConversationTree:
    """The messages that were said, each by its position, and the one that each follows.

    System messages are left out: a message that follows one follows what was said before that.
    """

    head: int | None
    """The position of the last message of the current branch; None if there is no message."""

    parents: dict[int, int | None]
    """The position of the message that each message follows, in the order said; None if it is the first one."""

    @cached_property
    def _children(self) -> dict[int | None, list[int]]:
        children = defaultdict(list)
        for position, parent in self.parents.items():
            children[parent].append(position)
        return children

    def children(self, position: int | None) -> Sequence[int]:
        """Return the positions of the messages that follow a message, in the order said; with None, the first ones."""
        return tuple(self._children.get(position, ()))

    def siblings(self, position: int) -> Sequence[int]:
        """Return the positions of the messages that follow the same message as this one, which is one of them."""
        return self.children(self.parents[position])

    def path(self, position: int | None = None) -> list[int]:
        """Return the positions from the first message to the one at ``position``, by default the head."""
        path = []
        position = self.head if position is None else position
        while position is not None:
            path.append(position)
            position = self.parents[position]
        return path[::-1]


def read_tree(conversation: Conversation) -> ConversationTree:
    """Read the tree of a conversation. No message text is read."""
    branches = BranchTree.read(conversation)
    said = rows_of(conversation).history().exclude(type=ChatMessageType.SYSTEM.value)
    return tree_of(branches, list(said.values_list("position", flat=True)))


def last_of(branches: BranchTree, positions: Sequence[int], end: int) -> int | None:
    """Return the last of ``positions`` up to ``end`` on its branch; None if there is none.

    Args:
        branches: the branches of the conversation.
        positions: positions, ascending.
        end: a position, or ``NOTHING``.
    """
    for branch, last in branches.path(end):
        index = bisect_right(positions, last) - 1
        if index >= 0 and positions[index] >= branch.start:
            return positions[index]
    return None


def read_siblings(conversation: Conversation) -> dict[int, Sequence[int]]:
    """Return the siblings of each message that has some, in one statement.

    Branches part only where one begins. So the tree is made of the first message of each branch, of the one that it
    follows, and of the next one behind that.
    """
    said = rows_of(conversation).history().exclude(type=ChatMessageType.SYSTEM.value).values("position")
    ends = {
        "first": said.filter(position__gte=OuterRef("start")),
        "parent": said.filter(position__lte=OuterRef("follows")).order_by("-position"),
        "next": said.filter(position__gt=OuterRef("follows")),
    }
    rows = Branch.objects.using(conversation._state.db).filter(conversation=conversation).order_by("version")
    branches: list[Any] = list(rows.annotate(**{name: Subquery(found[:1]) for name, found in ends.items()}))
    if not branches:
        return {}
    positions = {getattr(branch, name) for branch in branches for name in ends} - {None}
    tree = tree_of(BranchTree(conversation, branches), sorted(positions))
    found = {position: tree.siblings(position) for position in tree.parents}
    return {position: siblings for position, siblings in found.items() if len(siblings) > 1}


def tree_of(branches: BranchTree, positions: Sequence[int]) -> ConversationTree:
    """Return the tree of the messages at ``positions``.

    Args:
        branches: the branches of the conversation.
        positions: the positions of messages, ascending. Others, such as deleted ones, are left out of the tree.
    """
    parents: dict[int, int | None] = {}
    before, branch = None, None
    for position in positions:
        own = branches.branch_of(position)
        parents[position] = before if own is branch else last_of(branches, positions, own.follows)
        before, branch = position, own
    # The object of the conversation may be older than the positions.
    return ConversationTree(head=last_of(branches, positions, OPEN_END), parents=parents)
