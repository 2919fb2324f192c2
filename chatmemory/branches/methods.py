"""The methods of conversations that go back. ``AppConfig.ready()`` adds them to ``Conversation``.

The modules that they need are imported when they are called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from chatmemory.core.asynchronous import async_change, async_read

if TYPE_CHECKING:
    from chatmemory.assistant import Assistant
    from chatmemory.branches.tree import ConversationTree
    from chatmemory.core.messages import AiMessage, UserMessage
    from chatmemory.database.change import Change, Terms
    from chatmemory.models import Conversation


def rewind(
    self: Conversation,
    *,
    before: int | None = None,
    after: int | None = None,
    idempotency_key: str | None = None,
    user: Any = None,
    **terms: Unpack[Terms],
) -> Change:
    """Go back to before a message, or to right after one: make the memory what it was then.

    What was said from there on stays in the history, on a branch of its own, and leaves the memory with the reason
    ``rewound``. What the memory has lost since returns as a copy. The window's limit of today holds.

    Args:
        before: the position of a message that was said, on any branch, but not of a tool result.
        after: the position of the message after which the next one is to follow, instead of ``before``. If it is the
            last message of the current branch, nothing changes.
        idempotency_key: as for ``memory.add``. A repeated call does not go back again.
        user: who goes back, for the admin.

    Raises:
        ConversationBusyError: a turn is in progress.
        HistoryNotKeptError: ``KEEP_HISTORY`` is False.
        InvalidValueError: no such message was said at the position.
        TypeError: not exactly one of ``before`` and ``after`` was passed.
        Conversation.DoesNotExist: the conversation has been erased.
    """
    from chatmemory.branches import going_back

    target = self.memory.target(**terms)
    return going_back.rewind(target, before=before, after=after, idempotency_key=idempotency_key, user=user)


def edit(
    self: Conversation,
    position: int,
    message: UserMessage,
    *,
    idempotency_key: str | None = None,
    user: Any = None,
    **terms: Unpack[Terms],
) -> Change:
    """Go back to before a user message, and add another one, in one transaction. Both stay in the history.

    Args:
        position: the position of a user message, on any branch.
        message: the message to add.
        idempotency_key: as for ``rewind``.
        user: as for ``rewind``.

    Returns:
        The change that added the message.

    Raises:
        TypeError: ``message`` is not a user message.
        ValueError: databases cannot store the text or the key, or no user message was said at the position.
        ConversationBusyError, HistoryNotKeptError, Conversation.DoesNotExist: as for ``rewind``.
        IdempotencyConflictError: the key was already used for another request.
    """
    from chatmemory.branches import going_back

    target = self.memory.target(**terms)
    return going_back.edit(target, position, message, idempotency_key=idempotency_key, user=user)


def regenerate(
    self: Conversation, position: int | None = None, *, assistant: Assistant | None = None, user: Any = None
) -> AiMessage:
    """Go back to a question, and let the assistant answer it again. The earlier answer stays in the history.

    Args:
        position: the position of the question or of a message of its answer, on any branch; by default, the last
            question of the current branch.
        assistant: the assistant that answers; by default, that of the setting ``ASSISTANT``.
        user: as for ``rewind``.

    Returns:
        The new answer.

    Raises:
        InvalidValueError: no question was said at or before the position.
        ConversationBusyError, HistoryNotKeptError, Conversation.DoesNotExist: as for ``rewind``.
        Exception: as for ``Assistant.chat``.
    """
    from chatmemory.branches import regenerating

    return regenerating.regenerate(self, position, assistant=assistant, user=user)


def switch(
    self: Conversation,
    position: int,
    *,
    idempotency_key: str | None = None,
    user: Any = None,
    **terms: Unpack[Terms],
) -> Change:
    """Go to the branch of a message, and make the memory what it was when the conversation was last there.

    If the message is on the current branch, nothing changes.

    Args:
        position: the position of a message that was said.
        idempotency_key: as for ``rewind``.
        user: as for ``rewind``.

    Raises:
        InvalidValueError: no message was said at the position.
        ConversationBusyError, HistoryNotKeptError, Conversation.DoesNotExist: as for ``rewind``.
    """
    from chatmemory.branches import going_back

    target = self.memory.target(**terms)
    return going_back.switch(target, position, idempotency_key=idempotency_key, user=user)


def fork(self: Conversation, /, *, at: int, **fields: Any) -> Conversation:
    """Copy the conversation as it was when the message at a position had just been said.

    The copy has rows of its own, at the same positions and versions, and a memory ID of its own. ``forked_from`` is
    the primary key of this conversation. Idempotency keys, and what other apps store, are not copied. No signals are
    sent, because no message is new.

    Args:
        at: the position of the last message of the copy, on any branch.
        fields: ``owner``, ``memory_id``, ``title``, ``metadata``, and settings of the window; the others are those of
            this conversation. Other settings of the window evict what does not fit, as ``memory.set_window`` does.

    Raises:
        InvalidValueError: no message was said at the position.
        TypeError: a field is unknown.
        ValueError: a field is invalid.
        IntegrityError: the owner has a conversation with this memory ID.
        Conversation.DoesNotExist: the conversation has been erased.
    """
    from chatmemory.branches import forking

    return forking.fork(self, at=at, **fields)


def tree(self: Conversation) -> ConversationTree:
    """Return which message follows which one."""
    from chatmemory.branches import tree

    return tree.read_tree(self)


arewind = async_change(rewind)
aedit = async_change(edit)
aswitch = async_change(switch)
afork = async_change(fork)
atree = async_read(tree)


async def aregenerate(
    self: Conversation, position: int | None = None, *, assistant: Assistant | None = None, user: Any = None
) -> AiMessage:
    """Async version of ``regenerate``."""
    from chatmemory.branches import regenerating

    return await regenerating.aregenerate(self, position, assistant=assistant, user=user)


METHODS = {
    method.__name__: method
    for method in (rewind, edit, regenerate, switch, fork, tree, arewind, aedit, aregenerate, aswitch, afork, atree)
}
