"""Branches: where a conversation went back, and said something else.

A conversation is a tree. Each time it goes back, a branch begins, and the messages from its ``start`` on belong to it,
until the next branch begins. A message follows the one before it in its branch, and the first one follows the last one
up to ``follows``. So messages do not store which one they follow, and an addition costs nothing. The synthetic messages
of a change belong to the branch in which they came.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from django.conf import settings
from django.db import models
from django.db.models import Case, Exists, F, Max, OuterRef, Q, When
from django.utils import timezone

from chatmemory.models.conversation import Conversation
from chatmemory.models.deletion import cascade
from chatmemory.models.message import Message, Origin

NOTHING = -1
"""The position that the first message of a conversation follows."""

OPEN_END = 2**31 - 1
"""``current_to`` of the latest branch, to which the next message belongs."""


class Branch(models.Model):
    """A branch of a conversation, and the change that went back to begin it.

    The row of version 0 is the branch with which the conversation began. It is written with the second one. A row
    never changes, except for ``current_to``.
    """

    conversation = models.ForeignKey(Conversation, on_delete=cascade, related_name="branches", db_index=False)
    version = models.PositiveIntegerField(help_text="The version of the memory in which the branch began.")
    start = models.PositiveIntegerField(help_text="The position of its first message.")
    follows = models.IntegerField(help_text="The last position of the branch before it, up to which it goes on; or -1.")
    left = models.IntegerField(help_text="The last position of the branch that the conversation left, or -1.")
    # The conversation's counter before it went back, so that a return restores it.
    compacted_to = models.PositiveIntegerField(default=0)
    current_to = models.PositiveIntegerField(
        null=True, help_text="Its last position on the current branch, which began with it; null if there is none."
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        null=True,
        related_name="+",
        help_text="Who went back; null for the site's own code.",
    )
    created_at = models.DateTimeField(default=timezone.now)

    if TYPE_CHECKING:
        conversation_id: Any
        user_id: Any

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(fields=["conversation", "version"], name="chatmemory_branch_version_unique"),
            models.CheckConstraint(
                condition=Q(follows__gte=NOTHING, follows__lt=F("start")) | Q(follows=NOTHING, start=0),
                name="chatmemory_branch_follows_earlier",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.start} follows {self.follows}"


@dataclass(frozen=True)
class BranchTree:
    """The branches of one conversation, in the order in which they began; at least the first one."""

    conversation: Conversation
    branches: Sequence[Branch]

    @classmethod
    def read(cls, conversation: Conversation) -> Self:
        """Read the branches of a conversation, in one statement."""
        rows = Branch.objects.using(conversation._state.db).filter(conversation=conversation).order_by("version")
        first = Branch(conversation=conversation, version=0, start=0, follows=NOTHING, left=NOTHING)
        return cls(conversation, list(rows) or [first])

    def until(self, version: int) -> Self:
        """Return the branches as they were at a version."""
        tree = replace(self, branches=[branch for branch in self.branches if branch.version <= version])
        for branch, end in tree.current_ends():
            branch.current_to = end
        return tree

    def current_ends(self) -> Iterator[tuple[Branch, int | None]]:
        """Yield each branch with what its ``current_to`` should be."""
        latest = self.branches[-1]
        ends = {branch.version: end for branch, end in self.path(latest.follows)}
        for branch in self.branches:
            yield branch, OPEN_END if branch is latest else ends.get(branch.version)

    @cached_property
    def _starts(self) -> list[int]:
        return [branch.start for branch in self.branches]

    @property
    def went_back(self) -> bool:
        """Whether the conversation ever went back."""
        return len(self.branches) > 1

    def branch_of(self, position: int) -> Branch:
        """Return the branch to which the message at ``position`` belongs."""
        return self.branches[bisect_right(self._starts, position) - 1]

    @property
    def end(self) -> int:
        """The last position of the current branch, or ``NOTHING``."""
        latest, last = self.branches[-1], self.conversation.next_position - 1
        return last if last >= latest.start else latest.follows

    def before(self, position: int) -> int:
        """Return the position before ``position`` on its branch, or ``NOTHING``."""
        branch = self.branch_of(position)
        return position - 1 if position > branch.start else branch.follows

    def path(self, position: int) -> Iterator[tuple[Branch, int]]:
        """Yield the branches from ``position`` back to the start of the conversation, each with its last position.

        Args:
            position: a position; ``NOTHING`` for none.
        """
        while position != NOTHING:
            branch = self.branch_of(position)
            yield branch, position
            position = branch.follows

    def leads_to(self, position: int, end: int) -> bool:
        """Return whether ``position`` is ``end``, or comes before it on its branch."""
        return any(branch.start <= position <= last for branch, last in self.path(end))


PLACE = Case(When(origin=Origin.RESTORED, then=F("covers_from")), default=F("position"))
"""``Message.place``, in the database."""

_CONVERSATION = OuterRef("conversation")


def on_current_branch(conversation: Any = _CONVERSATION) -> Q:
    """Return the condition for messages on the current branches of their conversations.

    Args:
        conversation: the conversation, if all are of the same.
    """
    branches = Branch.objects.filter(conversation=conversation)
    here = branches.filter(start__lte=OuterRef("position"), current_to__gte=OuterRef("position"))
    return Q(Exists(here)) | Q(~Exists(branches))  # one that never went back has no rows


def current_rows(conversation: Conversation) -> Any:
    """Return the rows of the current branch, as a ``MessageQuerySet``, without rows that a restored copy replaces.

    Each has its ``Message.place`` as the alias ``place``.
    """
    rows: Any = Message.objects.using(conversation._state.db).filter(conversation=conversation)
    if not Branch.objects.using(conversation._state.db).filter(conversation=conversation).exists():
        return rows.alias(place=F("position"))
    current, is_restored = on_current_branch(conversation), Q(origin=Origin.RESTORED)
    restored = Message.objects.filter(current, is_restored, conversation=conversation).order_by()
    # A message may have been restored several times.
    latest = restored.values("covers_from").annotate(latest=Max("position")).values("latest")
    is_replaced = Q(position__in=restored.values("covers_from"))
    rows = rows.filter(current, (is_restored & Q(position__in=latest)) | (~is_restored & ~is_replaced))
    return rows.alias(place=PLACE)
