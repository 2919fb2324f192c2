"""Another answer to a question: go back to the question, and let the assistant answer it again."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from chatmemory.assistant.project import project_assistant
from chatmemory.branches.going_back import (
    Destination,
    after_message,
    before_message,
    go_back,
    last_said,
    next_on_path,
    require_question,
    said_at,
)
from chatmemory.core.exceptions import InvalidValueError
from chatmemory.core.messages import ChatMessageType
from chatmemory.database.change import Change, Target
from chatmemory.models import Conversation
from chatmemory.models.branch import BranchTree

if TYPE_CHECKING:
    from chatmemory.assistant import Assistant
    from chatmemory.core.messages import AiMessage


def regenerate(
    conversation: Conversation, position: int | None, *, assistant: Assistant | None, user: Any = None
) -> AiMessage:
    """See ``methods.regenerate``."""
    back = partial(to_question, position=position, user=user)
    return (assistant or project_assistant(None)).chat(conversation, go_back=back)


async def aregenerate(
    conversation: Conversation, position: int | None, *, assistant: Assistant | None, user: Any = None
) -> AiMessage:
    """Async version of ``regenerate``."""
    back = partial(to_question, position=position, user=user)
    return await (assistant or project_assistant(None)).achat(conversation, go_back=back)


def to_question(
    target: Target, *, position: int | None, idempotency_key: str | None = None, user: Any = None
) -> Change:
    """Go back to a question, within the turn that is to answer it again.

    Args:
        target: the conversation.
        position: the position of the question or of a message of its answer; None for the last question.
        idempotency_key: as for ``memory.add``.
        user: who goes back.
    """
    find = partial(_question, position=position)
    return go_back(target, find, ["regenerate", position], idempotency_key, user, in_turn=True)


def _question(tree: BranchTree, position: int | None) -> Destination | None:
    """Return the place right behind a question; None if the conversation is there.

    Raises:
        InvalidValueError: no question was said at or before the position.
    """
    end = tree.end
    if position is not None:
        said_at(tree.conversation, position)
        end = end if tree.leads_to(position, end) else position
    asked = last_said(tree, end if position is None else position)
    while asked is not None and asked.type in _OF_ANSWER:
        asked = last_said(tree, tree.before(asked.position))
    if asked is None:
        raise InvalidValueError("the user said nothing yet that could be answered")
    require_question(asked)
    answer = next_on_path(tree, asked.position, end)
    if answer is not None:
        return before_message(tree, answer)
    return None if end == tree.end else after_message(tree, asked)


_OF_ANSWER = (ChatMessageType.AI.value, ChatMessageType.TOOL_EXECUTION_RESULT.value)
