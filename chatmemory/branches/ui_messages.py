"""The UI messages of a conversation with branches, and their IDs, for the AI SDK's ``useChat`` and assistant-ui.

The ID of a message that the user said is its position. The calls, results and texts of an answer are one message, with
the ID ``answer-4`` if 4 is the position of the question. If the answer is on another branch than the question, it has
the ID ``answer-4-8``, with the position at which its branch starts.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from django.db.models import Q

from chatmemory.branches.tree import tree_of
from chatmemory.core.arguments import whole_number
from chatmemory.core.messages import ChatMessageType, UserMessage
from chatmemory.database.idempotency import keys_of, places
from chatmemory.database.reading import rows_of
from chatmemory.models import MAX_LIMIT, Conversation, Message, MessageQuerySet, Origin
from chatmemory.models.branch import BranchTree

ANSWER_TYPES = (ChatMessageType.AI.value, ChatMessageType.TOOL_EXECUTION_RESULT.value)
"""The types of the messages that make an answer."""

_ANSWER_ID = re.compile("answer-([0-9]{1,10})(-[0-9]{1,10})?")


@dataclass(kw_only=True, slots=True)
class Node:
    """A UI message in the tree of a conversation."""

    id: str

    parent: Node | None
    """The one before it."""

    question: int | None
    """The position of the message that it answers, or its own if it is no answer; None for an answer to nothing."""

    positions: list[int]
    """The positions of its messages. They follow each other, and only the last one may have several successors."""

    is_answer: bool


def answer_id(tree: BranchTree, question: int | None, last: int | None = None) -> str:
    """Return the ID of an answer.

    Args:
        tree: the branches.
        question: the position of the message that is answered; None if nothing was said before.
        last: the position of the last message of the answer; None if that is still to come.
    """
    branch = tree.branches[-1] if last is None else tree.branch_of(last)
    if question is None:
        return "answer" if branch.start == 0 else f"answer-first-{branch.start}"
    return f"answer-{question}" if branch.start <= question else f"answer-{question}-{branch.start}"


def is_answer_id(id: str) -> bool:
    """Return whether an ID is one that ``answer_id`` may return, so that no page made it."""
    return _ANSWER_ID.fullmatch(id) is not None


def position_of(conversation: Conversation, id: str) -> int | None:
    """Return the position of the user message with an ID of ``useChat``, or of the question of such an answer.

    A page numbers the messages that it has said itself, and these numbers are their idempotency keys.
    """
    answer = _ANSWER_ID.fullmatch(id)
    position = whole_number(id if answer is None else answer[1], most=MAX_LIMIT)
    if position is not None:
        rows = rows_of(conversation).filter(position=position, type=UserMessage.type)
        if rows.filter(origin__in=(Origin.SAID, Origin.COPY)).exists():
            return position
    if keys_of(conversation).filter(key=id).exists():
        return places(conversation, id)[0]
    return None


def says(row: Message, message: UserMessage) -> bool:
    """Return whether a user's message is stored in a row."""
    said = row.message
    return isinstance(said, UserMessage) and said.contents == message.contents


def shown_rows(conversation: Conversation) -> MessageQuerySet:
    """Return what was said, without system messages, and the copies of user messages that were asked again."""
    asked_again = Q(type=ChatMessageType.USER.value, origin=Origin.COPY)
    return rows_of(conversation).filter(Q(origin=Origin.SAID) | asked_again).exclude(type=ChatMessageType.SYSTEM.value)


@dataclass(frozen=True, kw_only=True)
class UITree:
    """The UI messages of a conversation, by their positions."""

    nodes: list[Node]
    """Each after its parent."""

    head: Node | None
    """The last one of the current branch."""

    at: dict[int, Node | None]
    """The message that contains each position. At a copy, it is the one before it, which is None if there is none."""

    conversation: Conversation

    def find(self, id: str) -> Node | None:
        """Return the message with an ID, which may be the one that a page gave it; None if there is none."""
        found = next((node for node in self.nodes if node.id == id), None)
        position = position_of(self.conversation, id) if found is None and not is_answer_id(id) else None
        return found if position is None else self.at.get(position)

    def path(self) -> list[Node]:
        """Return the messages of the current branch, the last one first."""
        path: list[Node] = []
        node = self.head
        while node is not None:
            path.append(node)
            node = node.parent
        return path


def read_ui_tree(conversation: Conversation) -> UITree:
    """Read which UI messages a conversation has. No message text is read."""
    branches = BranchTree.read(conversation)
    rows = list(shown_rows(conversation).order_by("position").values_list("position", "type", "origin"))
    tree = tree_of(branches, [position for position, _type, _origin in rows])
    successors = Counter(tree.parents.values())
    nodes: list[Node] = []
    at: dict[int, Node | None] = {}
    types = {position: "" if origin == Origin.COPY else type for position, type, origin in rows}
    for position, type in types.items():
        parent = tree.parents[position]
        before = None if parent is None else at[parent]
        if not type:  # a copy is not shown; what answers it is a message of its own
            at[position] = before
            continue
        is_answer = type in ANSWER_TYPES
        follows_answer = parent is not None and types[parent] in ANSWER_TYPES
        if is_answer and follows_answer and before is not None and successors[parent] == 1:
            before.positions.append(position)
            at[position] = before
            continue
        question = position
        if is_answer:
            question = before.question if follows_answer and before is not None else parent  # type: ignore[assignment]
            id = answer_id(branches, question, position)
            if follows_answer and branches.branch_of(position) is branches.branch_of(parent):  # type: ignore[arg-type]
                id = f"answer-{question}-{position}"  # the rest of an answer, from the middle of which a branch begins
        else:
            id = str(position)
        node = Node(id=id, parent=before, question=question, positions=[position], is_answer=is_answer)
        nodes.append(node)
        at[position] = node
    return UITree(conversation=conversation, nodes=nodes, head=None if tree.head is None else at[tree.head], at=at)
