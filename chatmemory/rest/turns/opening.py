"""How a turn opens: with a new message, with one that was said before, or by going back to another place first.

``edit`` and ``regenerate`` of this API name positions. ``useChat`` names messages by IDs, and sends no idempotency key
when it edits or regenerates. So what it asks for is compared with what is stored, to tell a repeated request from a new
one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import Any

from chatmemory.assistant.errors import ConversationBusyError
from chatmemory.assistant.steps import GoBack
from chatmemory.branches.going_back import go_after, require_question, rewind, said_at
from chatmemory.branches.regenerating import to_question
from chatmemory.branches.tree import read_tree
from chatmemory.branches.ui_messages import answer_id, is_answer_id, position_of, read_ui_tree, says
from chatmemory.core.arguments import whole_number
from chatmemory.core.exceptions import InvalidValueError
from chatmemory.core.messages import UserMessage
from chatmemory.database.change import Change, Target
from chatmemory.database.idempotency import keys_of
from chatmemory.database.reading import rows_of
from chatmemory.models import MAX_LIMIT, Conversation, Message, Origin
from chatmemory.models.branch import OPEN_END, BranchTree
from chatmemory.rest.problems import AnswerDeleted, MessageEdited, NothingSaid, invalid
from chatmemory.rest.turns.history import answer_rows, branch_answer, is_answer, last_question, question_before


@dataclass(frozen=True, kw_only=True)
class TurnRequest:
    """What a request asks a turn to do."""

    message: UserMessage | None = None
    """What the user says; None to go on from where the conversation stands, or for another answer."""

    edit: int | None = None
    """The position of the user message whose place the message takes."""

    regenerates: bool = False
    """Whether another answer is asked for."""

    regenerate: int | None = None
    """The position of the question, or of a message of its answer; None for the last question."""

    ui: UIRequest | None = None
    """What ``useChat`` sends beside the message; None if the request is not from ``useChat``."""


@dataclass(frozen=True, kw_only=True)
class UIRequest:
    """The IDs in a request of ``useChat``."""

    id: str | None
    """The ID of the user's last message."""

    message_id: str | None = None
    """The ID of the message to edit, or of the message to regenerate."""

    follows: str | None = None
    """The ID of the message that the user's last message follows; empty if it is the first, None if that is not told.
    """

    version: int | None = None
    """The version of the memory that the page has seen; None if that is not told."""


@dataclass(frozen=True, kw_only=True)
class Opening:
    """How a turn opens."""

    message: UserMessage | None = None
    """The message to add."""

    key: str | None = None
    """The idempotency key of the message."""

    said_at: int | None = None
    """The position of the message to answer, if it was said before."""

    go_back: GoBack | None = None
    """Goes to the place where the turn begins."""


def opening_of(conversation: Conversation, asked: TurnRequest, key: str | None, user: Any) -> Opening:
    """Return how a turn opens.

    Args:
        conversation: its row.
        asked: the request.
        key: the idempotency key of the request.
        user: who asks.

    Raises:
        ValidationError: no such message was said at the position that the request names.
        MessageEdited, AnswerDeleted: the message of ``useChat`` was said before, with another text, or was deleted.
    """
    message, ui = asked.message, asked.ui
    if ui is not None:
        assert message is not None
        if asked.regenerates:
            return _regenerated(conversation, ui, message, key, user)
        place = None if ui.message_id is None else position_of(conversation, ui.message_id)
        if place is not None:
            return _edited(conversation, place, ui, message, key, user)
        said = None if key is not None or ui.id is None else _position_said(conversation, message, ui.id)
        if said is not None:
            return Opening(said_at=said)
        key = key or ui.id
        return Opening(message=message, key=key, go_back=_behind(conversation, ui.follows, key, user))
    if asked.edit is not None:
        _check_position(conversation, "edit", asked.edit, is_question=True)
        return Opening(message=message, key=key, go_back=_to_before(asked.edit, key, user))
    if asked.regenerates:
        position = asked.regenerate
        if position is not None:
            _check_position(conversation, "regenerate", position)
        return Opening(go_back=_to_question(position, key, user))
    # To go on from where a conversation stands needs no key: it stands at the answer when there is one.
    return Opening(message=message, key=None if message is None else key)


def _check_position(conversation: Conversation, name: str, position: int, *, is_question: bool = False) -> None:
    try:
        row = said_at(conversation, position)
        if is_question:
            require_question(row)
    except InvalidValueError as error:
        raise invalid(name, error) from error


def _to_before(position: int, key: str | None, user: Any) -> GoBack:
    return partial(rewind, before=position, idempotency_key=_key_to_go_back(key), user=user, in_turn=True)


def _key_to_go_back(key: str | None) -> str | None:
    """Return the key of going back, which is a change of its own, for the key of the message that is added then."""
    return None if key is None else sha256(f"go back {key}".encode()).hexdigest()


class AnsweredBeforeError(Exception):
    """The request regenerated an answer before, and others were said since."""

    def __init__(self, question: int | None, rows: Sequence[Message]) -> None:
        super().__init__("the answer was regenerated before")
        self.question, self.rows = question, rows


def _to_question(position: int | None, key: str | None, user: Any) -> GoBack:
    def go_back(target: Target) -> Change:
        def also(change: Change) -> None:
            if change.size is not None and change.moment is None:  # what the first request got
                _require_there(change)
            if target.also is not None:
                target.also(change)

        try:
            return to_question(replace(target, also=also), position=position, idempotency_key=key, user=user)
        except InvalidValueError as error:
            raise NothingSaid from error

    return go_back


def _require_there(change: Change) -> None:
    """Check that a conversation still answers the question that a change went back to.

    Raises:
        AnsweredBeforeError: it does not.
    """
    tree = BranchTree.read(change.conversation)
    branch = next((each for each in tree.branches if each.version == change.memory.version), None)
    if branch is not None:
        question = question_before(tree, branch.follows)
        is_current = tree.leads_to(branch.start, OPEN_END)
        if not is_current or last_question(change.conversation) != question:
            raise AnsweredBeforeError(question, branch_answer(tree, branch.start))


def _behind(conversation: Conversation, follows: str | None, key: str | None, user: Any) -> GoBack | None:
    """Return what goes to right behind a UI message; None if the conversation is there, or nothing is known of it."""
    if follows is None:
        return None
    tree = read_ui_tree(conversation)
    node = tree.find(follows) if follows else None
    if node is tree.head or (node is None and follows):
        return None
    position = None if node is None else node.positions[-1]
    return partial(go_after, position=position, idempotency_key=_key_to_go_back(key), user=user, in_turn=True)


def _unless_moved(conversation: Conversation, go_back: GoBack) -> GoBack:
    """Return what goes back unless something was said since the row was read, such as by the first of two equal
    requests."""
    known = conversation.next_position

    def go_back_once(target: Target) -> Change:
        def check(row: Conversation) -> None:
            if target.precondition is not None:
                target.precondition(row)
            if row.next_position != known:
                raise ConversationBusyError("another turn has ended just now; try again")

        return go_back(replace(target, precondition=check))

    return go_back_once


def _regenerated(
    conversation: Conversation, ui: UIRequest, message: UserMessage, key: str | None, user: Any
) -> Opening:
    """Return how a turn opens that regenerates an answer in ``useChat``.

    After a failure, this may be what reaches the server first of a message, or of an edit. If there is an answer that
    the page has not seen, it is the request of the turn that gave it, once more.
    """
    is_of_answer = ui.message_id is not None and is_answer_id(ui.message_id)
    question = None if ui.message_id is None else position_of(conversation, ui.message_id)
    if question is None and ui.id is not None:
        is_of_answer, question = False, position_of(conversation, ui.id)
    if question is None:
        question = last_question(conversation)
        if question is None or not says(rows_of(conversation).get(position=question), message):
            key = key or ui.id
            return Opening(message=message, key=key, go_back=_behind(conversation, ui.follows, key, user))
    elif not is_of_answer:
        # An edited message keeps its ID in the page.
        there = [*_in_place_of(conversation, question, None), rows_of(conversation).get(position=question)]
        said = next((row.position for row in there if says(row, message)), None)
        if said is None:
            return _edited(conversation, question, ui, message, key, user)
        question = said
    tree = BranchTree.read(conversation)
    if tree.leads_to(question, OPEN_END):
        rows = answer_rows(conversation, question)
        if rows and is_answer(rows[-1].message):
            is_another = is_of_answer and ui.message_id != answer_id(tree, question, rows[-1].position)
            if is_another or (ui.version is not None and rows[-1].added_in > ui.version):
                return Opening(said_at=question)
    return Opening(go_back=_unless_moved(conversation, _to_question(question, key, user)))


def _edited(
    conversation: Conversation, place: int, ui: UIRequest, message: UserMessage, key: str | None, user: Any
) -> Opening:
    """Return how a turn opens that edits a message in ``useChat``.

    If such a message that the page has not seen is in its place, this is the request that said it, once more.
    """
    last = last_question(conversation)
    for row in _in_place_of(conversation, place, ui.version):
        if says(row, message) and (ui.version is not None or row.position == last):
            return Opening(said_at=row.position)
    return Opening(message=message, key=key, go_back=_unless_moved(conversation, _to_before(place, key, user)))


def _in_place_of(conversation: Conversation, position: int, version: int | None) -> list[Message]:
    """Return the user messages that follow the same message as one, the newest first.

    Args:
        conversation: its row.
        position: the position of the one.
        version: only those that were added after this version; None for the one on the current branch.
    """
    tree = read_tree(conversation)
    places = tree.siblings(position) if position in tree.parents else [position]
    if version is None:
        path = {*tree.path()}
        places = [place for place in places if place in path]
    rows = rows_of(conversation).filter(position__in=places, type=UserMessage.type).order_by("-position")
    return list(rows if version is None else rows.filter(added_in__gt=version))


def _position_said(conversation: Conversation, message: UserMessage, id: str) -> int | None:
    """Return where a message of ``useChat`` was said, if its ID is the one that ``GET turns/`` gave it.

    It may have been said without a key, so its position is all that is known of it.

    Raises:
        MessageEdited: it says something else than what was said there.
        AnswerDeleted: what was said there has been deleted.
    """
    position = whole_number(id, most=MAX_LIMIT)
    if position is None or position >= conversation.next_position:
        return None
    row = rows_of(conversation).filter(position=position).first()
    if row is not None and (row.type, row.origin) != (UserMessage.type, Origin.SAID):
        return None
    if row is not None and says(row, message):
        return position
    # A client that numbers its messages itself means no position. Longer numbers, such as times, are none of these.
    digits = len(str(conversation.next_position))
    if keys_of(conversation).filter(key__regex=f"^[0-9]{{1,{digits}}}$").exists():
        return None
    raise AnswerDeleted if row is None else MessageEdited
