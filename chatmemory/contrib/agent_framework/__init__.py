"""Conversations as the history of Microsoft's Agent Framework.

::

    from agent_framework import Agent
    from chatmemory.contrib.agent_framework import DjangoHistoryProvider

    history = DjangoHistoryProvider(request.user, window="messages", limit=50)
    agent = Agent(client, "You sell tea.", context_providers=[history])
    result = await agent.run("Where is my parcel?", session=agent.create_session(session_id="support-42"))

What it promises:

- The session ID is the memory ID. An agent without a session gets a random ID, and with it a new conversation.
- The agent gets the memory: the window evicts, and history and admin keep all. Once the window has evicted something,
  results whose call is gone are left out, and so are a user's decisions about them: Agent Framework would take such a
  decision for one that it has not carried out yet, and run the tool again.
- A message of Agent Framework's with the results of several calls is one message for each result, which become one
  again. The window evicts them with their calls.
- Callers may send the whole transcript again. As in Agent Framework's own providers, what is in the history already, by
  ID or else by role and contents, is not added again. So a turn that repeats the one before word for word is added only
  if its messages have IDs. The comparison holds the lock of the conversation.
- A memory holds one system message: another one takes its place, and an equal one adds nothing. Instructions of an
  agent are not stored.
- ``CompactionProvider(before_strategy=…)`` works on what the agent gets. Its ``after_strategy`` finds nothing, because
  the session holds no messages: the window takes its place.
- The signal ``model_called`` tells what a run used, at its last answer. A run that called the model several times is
  one call, unless the agent stores each (``require_per_service_call_history_persistence``).
- No database takes U+0000 or a lone surrogate in a text: U+FFFD takes its place, and the signal ``memory_repaired``
  tells of it.

Source: ``agent_framework`` of agent-framework-core 1.23.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from copy import copy
from typing import Any, ClassVar, Unpack

from asgiref.sync import sync_to_async
from django.db.models import F

from chatmemory.contrib.native_memory import (
    ConversationSettings,
    NativeMemory,
    settings_of_new,
    valid_rows,
    was_cut,
    without_stale_thinking,
)
from chatmemory.core.arguments import require_list
from chatmemory.core.asynchronous import run_to_the_end
from chatmemory.core.entries import Cause, EvictionReason
from chatmemory.core.exceptions import extra
from chatmemory.core.messages import AiMessage, SystemMessage
from chatmemory.core.usage import Usage
from chatmemory.formats.usage import read_usage
from chatmemory.models import Conversation, Origin, require_owner
from chatmemory.models.branch import current_rows

with extra("agent-framework"):
    from agent_framework import HistoryProvider, Message
    from agent_framework._sessions import filter_new_messages  # not public, but every provider has to use it

    from chatmemory.contrib.agent_framework.messages import FRAMEWORK, from_rows, said_in, without_signed_reasoning

__all__ = ["DjangoHistoryProvider"]

_used: ContextVar[Usage] = ContextVar("chatmemory_agent_framework_used", default=Usage())  # noqa: B039  # it is frozen
"""The usage of the run whose messages are being saved: Agent Framework passes only the messages."""


class DjangoHistoryProvider(HistoryProvider):
    """The conversations of one owner, by session IDs. The first message creates a conversation.

    An ID that is None, empty or too long raises a ``ValueError``.
    """

    DEFAULT_SOURCE_ID: ClassVar[str] = "chatmemory"

    def __init__(
        self,
        owner: Any = None,
        *,
        source_id: str = DEFAULT_SOURCE_ID,
        load_messages: bool = True,
        store_inputs: bool = True,
        store_context_messages: bool = False,
        store_context_from: set[str] | None = None,
        store_outputs: bool = True,
        **settings: Unpack[ConversationSettings],
    ) -> None:
        """
        Args:
            owner: the user who owns the conversations; None for those without an owner.
            source_id: the name of the provider, unique in its agent.
            load_messages: whether an agent gets the memory.
            store_inputs: whether what an agent is asked is stored.
            store_context_messages: whether messages of other providers are stored.
            store_context_from: the names of the providers whose messages are stored; None for all.
            store_outputs: whether answers, calls and results are stored.
            settings: those of new conversations, see
                ``ConversationSettings``.

        Raises:
            TypeError: there is no such setting.
            ValueError: an anonymous or unsaved user, or settings that no conversation can have.
        """
        super().__init__(
            source_id,
            load_messages=load_messages,
            store_inputs=store_inputs,
            store_context_messages=store_context_messages,
            store_context_from=store_context_from,
            store_outputs=store_outputs,
        )
        self._owner = require_owner(owner)
        self._settings = settings_of_new(**settings)

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        """Return the messages that the window retains, in order.

        Args:
            session_id: the memory ID of the conversation.
            state: not used.
            kwargs: not used.
        """
        return await sync_to_async(self._memory(session_id).read)()

    async def after_run(self, *, context: Any, **kwargs: Any) -> None:
        """Store the messages of a run, and tell what it used.

        Args:
            context: the run's, with its response.
            kwargs: what ``HistoryProvider`` takes.
        """
        response = context.response
        told = self.store_outputs and response is not None and response.usage_details is not None
        token = _used.set(read_usage(response) if told else Usage())
        try:
            await super().after_run(context=context, **kwargs)
        finally:
            _used.reset(token)

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Add those of ``messages`` that are not in the history yet, all or none.

        Args:
            session_id: the memory ID of the conversation.
            messages: the messages, in order.
            state: not used.
            kwargs: not used.

        Raises:
            TypeError: they are no list, or one of them is not a message of Agent Framework's.
            ValueError: one of them cannot be kept as JSON, because of a number that is not finite, for example.
            TransactionManagementError: the event loop runs within a transaction that has locked the conversation.
        """
        await run_to_the_end(self._memory(session_id).save, messages, _used.get())

    def _memory(self, session_id: str | None) -> _Memory:
        return _Memory(FRAMEWORK, session_id, self._owner, **self._settings)


class _Memory(NativeMemory):
    """The conversation of one session."""

    def read(self) -> list[Message]:
        """Return the messages of the memory, as a model may get them."""
        rows = list(valid_rows(self))
        forms = [row.native_of(FRAMEWORK) for row, _ in rows]
        found = from_rows(rows, without_stale_thinking(rows, forms, without_signed_reasoning))
        answers = [message for _, message in rows if isinstance(message, AiMessage)]
        calls = {request.id for answer in answers for request in answer.tool_execution_requests}
        decided = list(_without_decisions_about_others(found, calls))
        return found if decided == found or not was_cut(self.messages) else decided

    def save(self, messages: Sequence[Message], used: Usage) -> None:
        """Add those of ``messages`` that are not in the history yet; ``used`` is what the calls behind them used."""
        given = require_list(messages, "messages")
        said = said_in(given)

        def work() -> None:
            conversation = self._target().change(lambda change: None).conversation  # locks it
            # Equal system messages add nothing anyway, and others may have been said at any time.
            spoken = [index for index, told in enumerate(said) if not isinstance(told[0][0], SystemMessage)]
            # One more row than could match, in case it is a part of a message.
            latest = _latest(conversation, sum(map(len, said)) + 1)
            fresh = filter_new_messages(latest, [given[index] for index in spoken])
            known = set(spoken[: len(spoken) - len(fresh)])
            new = [one for index, told in enumerate(said) if index not in known for one in told]
            answers = sum(isinstance(message, AiMessage) for message, _ in new)
            usages = [*[Usage()] * (answers - 1), used][:answers]
            self.add([message for message, _ in new], [form for _, form in new], usages=usages)

        if given:
            self._at_once(work)


def _latest(conversation: Conversation, size: int) -> list[Message]:
    """Return what was said in the last ``size`` rows, even if it was evicted, but not what somebody removed."""
    said = current_rows(conversation).filter(origin__in=(Origin.SAID, Origin.RESTORED)).exclude(type=SystemMessage.type)
    rows = said.exclude(eviction_reason__in=EvictionReason.of(Cause.SOMEBODY)).order_by(F("place").desc())[:size]
    latest = [(row, row.message) for row in reversed(rows)]
    return from_rows(latest, [row.native_of(FRAMEWORK) for row, _ in latest])


def _without_decisions_about_others(messages: Sequence[Message], calls: set[str | None]) -> Iterator[Message]:
    """Yield ``messages`` without users' decisions about calls that are not among ``calls``."""
    for message in messages:
        rest = [
            content
            for content in message.contents
            if content.type != "function_approval_response"
            or content.function_call is None
            or content.function_call.call_id in calls
        ]
        if len(rest) == len(message.contents):
            yield message
        elif rest:
            left = copy(message)
            left.contents = rest
            yield left
