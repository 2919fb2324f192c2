"""A conversation as LangChain's chat message history.

    from chatmemory.contrib.langchain import DjangoChatMessageHistory

    def history(session_id: str) -> DjangoChatMessageHistory:
        return DjangoChatMessageHistory(session_id, owner=user, window="tokens", limit=4000)

    chat = RunnableWithMessageHistory(prompt | model, history, "question", history_messages_key="history")
    chat.invoke({"question": "Hello"}, {"configurable": {"session_id": "support-42"}})

``messages`` is the memory: the messages that the window of the conversation retains. Evicted messages stay in the
history of the conversation, which the admin and REST show. Tool results are evicted with their call, so the rest
stays valid.

A memory holds one system message at a time: another one takes its place, and an equal one adds nothing.

Without ``history_messages_key``, ``RunnableWithMessageHistory`` finds the new messages of a run by counting: it skips
as many as the history holds when the run ends. If another program adds or evicts messages in the meantime, it adds
too few or too many. With the key it does not count.

Either way LangChain reads the history in a thread of its own, which sees only what is committed: do not start a run
within a transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import starmap
from typing import Any, Unpack

from chatmemory.contrib.native_memory import (
    ConversationSettings,
    NativeMemory,
    async_change,
    left_as_found,
    valid_rows,
    without_stale_thinking,
)
from chatmemory.core.arguments import require_list
from chatmemory.core.asynchronous import as_async_read
from chatmemory.core.exceptions import extra
from chatmemory.core.usage import Usage
from chatmemory.formats.usage import read_usage

with extra("langchain"):
    from langchain_core.chat_history import BaseChatMessageHistory
    from langchain_core.messages import AIMessage, BaseMessage

    from chatmemory.contrib.langchain.messages import FRAMEWORK, form_of, from_row, to_chat_message

__all__ = ["DjangoChatMessageHistory"]


class DjangoChatMessageHistory(BaseChatMessageHistory):
    """The conversation of one owner under ``session_id``, created when something is first added."""

    def __init__(self, session_id: Any, owner: Any = None, **settings: Unpack[ConversationSettings]) -> None:
        """
        Args:
            session_id: its text is the conversation's memory ID.
            owner: the user who owns the conversation; None for one without an owner.
            settings: those of a new conversation, see
                ``ConversationSettings``.

        Raises:
            TypeError: there is no such setting.
            ValueError: an anonymous or unsaved user, an ID that is empty or too long, or settings that no conversation
                can have.
        """
        self._memory = NativeMemory(FRAMEWORK, session_id, owner, **settings)

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]
        """The messages that the window retains, in order."""
        with left_as_found():
            return self._get()

    @left_as_found()
    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add all of ``messages`` or none.

        Raises:
            TypeError: they are no list; or one of them is not a message, or holds a value that has no JSON form.
            ValueError: a number that is not finite.
        """
        given = require_list(messages, "messages")
        usages = [_usage_of(message) for message in given if isinstance(message, AIMessage)]
        self._memory.add(list(map(to_chat_message, given)), list(map(form_of, given)), usages=usages)

    @left_as_found()
    def clear(self) -> None:
        """Evict all messages; the conversation's history keeps them."""
        self._memory.clear()

    aadd_messages = async_change(add_messages)
    aclear = async_change(clear)

    async def aget_messages(self) -> list[BaseMessage]:
        return await as_async_read(self._get)()

    def _get(self) -> list[BaseMessage]:
        rows = list(valid_rows(self._memory))
        return without_stale_thinking(rows, list(starmap(from_row, rows)), _without_signed_thinking)


def _usage_of(message: AIMessage) -> Usage:
    return Usage() if message.usage_metadata is None else read_usage(message)


def _without_signed_thinking(message: BaseMessage) -> BaseMessage | None:
    """Return an answer without the thinking that a provider signed; None if it has none."""
    if not isinstance(message, AIMessage) or isinstance(message.content, str):
        return None
    rest = [block for block in message.content if not _is_signed(block)]
    return None if len(rest) == len(message.content) else message.model_copy(update={"content": rest})


def _is_signed(block: Any) -> bool:
    match block:
        case {"type": "thinking" | "redacted_thinking"}:
            return True
        case {"type": "reasoning", "extras": {"signature": _}}:
            return True  # the same, in LangChain's own blocks
        case {"type": "non_standard", "value": {"type": "redacted_thinking"}}:
            return True
        case {"type": "reasoning_content", "reasoning_content": {"signature": _} | {"redacted_content": _}}:
            return True  # of Bedrock
    return False
