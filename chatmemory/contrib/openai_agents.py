"""A conversation as a session of OpenAI's Agents SDK.

::

    from agents import Agent, Runner
    from chatmemory.contrib.openai_agents import DjangoSession

    session = DjangoSession("support-42", owner=request.user, window="messages", limit=50)
    result = await Runner.run(Agent(name="Support"), "Where is my parcel?", session=session)

Beyond the SDK's ``Session`` protocol:

- The session is the memory: the window evicts whole messages, and history and admin keep all. ``clear_session`` and
  ``pop_item`` evict, too. A window counts messages or tokens; ``limit`` of ``get_items`` counts items.
- The items of one answer (reasoning, text, calls, tools that ran at OpenAI) that are added at once, as ``Runner`` adds
  them, are one message, so the window evicts them together, and with the outputs that follow. Once the window has
  evicted something, outputs whose call is gone are left out of ``get_items``; otherwise it returns what was added.
- Calls of every type are tool requests of the message, and their outputs tool results: computer, shell, patches,
  custom tools, programs, and an MCP approval, too. Other items of an answer are named in its attributes. An item that
  is not part of a conversation (an item reference, an item of an unknown type) is a custom message.
- A memory holds one system message: a ``system`` or ``developer`` item takes the place of the one before, and an equal
  one adds nothing. Instructions of an agent are not stored.
- The messages of other programs become items: thinking is left out, and content that the Responses API cannot express
  is a text in brackets that names it.
- ``Runner.run_sync`` within a transaction uses another connection, which does not see what the transaction wrote. If
  the transaction has locked the conversation, that is a ``TransactionManagementError`` after 5 seconds. There, call
  ``async_to_sync(Runner.run)(…)``, which uses the same connection.
- An item must be JSON. No database takes U+0000 or a lone surrogate in a text: U+FFFD takes its place, and the
  signal ``memory_repaired`` tells of it.

Source: ``agents.memory`` of openai-agents 0.24.
"""

from __future__ import annotations

import json
from itertools import chain
from typing import Any, Unpack, cast

from asgiref.sync import sync_to_async

from chatmemory.contrib.native_memory import (
    ConversationSettings,
    NativeMemory,
    valid_message,
    valid_rows,
    without_stale_thinking,
)
from chatmemory.core.arguments import require_list
from chatmemory.core.asynchronous import run_to_the_end
from chatmemory.core.exceptions import extra
from chatmemory.core.messages import ChatMessage
from chatmemory.database.new_messages import NativeForms
from chatmemory.database.operations.archive import Remainder
from chatmemory.models import Message

with extra("openai-agents"):
    from agents.items import TResponseInputItem
    from agents.memory import SessionSettings
    from agents.memory.session_settings import coerce_session_settings, resolve_session_limit

    from chatmemory.formats.agents_items import FRAMEWORK, Item, answer, answered_alike, groups, items_of, messages_of


class DjangoSession:
    """The session of ``session_id``, for ``Runner.run(…, session=…)``. The first item creates its conversation."""

    session_id: str
    session_settings: SessionSettings | None = None

    def __init__(
        self,
        session_id: str,
        *,
        owner: Any = None,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        **settings: Unpack[ConversationSettings],
    ) -> None:
        """
        Args:
            session_id: the memory ID of the conversation.
            owner: the user who owns the conversation; None for one without an owner.
            session_settings: its ``limit`` is the number of items that ``get_items`` returns by default.
            settings: those of a new conversation, see
                ``ConversationSettings``.

        Raises:
            TypeError: there is no such setting, in ``session_settings`` or here.
            ValueError: an anonymous or unsaved user, an ID that is empty or too long, or settings that no conversation
                can have.
        """
        self.session_id = session_id
        self.session_settings = coerce_session_settings({} if session_settings is None else session_settings)
        self._memory = NativeMemory(FRAMEWORK, session_id, owner, **settings)

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the latest ``limit`` items, oldest first.

        Args:
            limit: by default the limit of the session settings. If that is None too, or the number is negative, all
                items are returned, as by the SDK's own sessions.
        """
        limit = resolve_session_limit(limit, self.session_settings)
        items = cast(list[TResponseInputItem], await sync_to_async(self._items)())
        return items if limit is None or limit < 0 else items[max(0, len(items) - limit) :]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add all of ``items`` or none.

        Raises:
            TypeError: they are no list, or an item is no dict or has no JSON form.
            ValueError: an item holds a number that is not finite.
            TransactionManagementError: the event loop runs within a transaction that has locked the conversation.
        """
        await run_to_the_end(self._add, items)

    async def pop_item(self) -> TResponseInputItem | None:
        """Evict the last item and return it to this caller alone; None if there is none. History keeps it."""
        return cast(TResponseInputItem | None, await run_to_the_end(self._pop))

    async def clear_session(self) -> None:
        """Evict all items. History keeps them."""
        await run_to_the_end(self._memory.clear)

    def _items(self) -> list[Item]:
        rows = list(valid_rows(self._memory))
        written = answered_alike([(message, _items_of_row(row, message)) for row, message in rows])
        answers = without_stale_thinking(rows, written, _without_signed_thinking)
        return list(chain.from_iterable(answers))

    def _add(self, items: list[TResponseInputItem]) -> None:
        plain: list[Item] = json.loads(json.dumps(require_list(items, "items")))
        for index, item in enumerate(plain):
            if not isinstance(item, dict):
                raise TypeError(f"items[{index}] must be a dict, but is: {type(item).__name__}")
        grouped = list(groups(plain))
        messages = list(messages_of(grouped))
        self._memory.add(messages, [_form(group, message) for group, message in zip(grouped, messages, strict=True)])

    def _pop(self) -> Item | None:
        popped: list[Item] = []

        def shorten(row: Message) -> Remainder:
            *items, last = _items_of_row(row, valid_message(row, self._memory.messages.retained()))
            popped[:] = [last]
            return _shorter(items)

        row = self._memory.take_back(shorten)
        return None if row is None else popped[0]


def _form(items: list[Item], message: ChatMessage) -> list[Item] | None:
    return None if items_of(message) == items else items


def _items_of_row(row: Message, message: ChatMessage) -> list[Item]:
    form: list[Item] | None = row.native_of(FRAMEWORK)
    return items_of(message) if form is None else form


def _without_signed_thinking(items: list[Item]) -> list[Item] | None:
    """Return the items without Claude's thinking, which the SDK keeps beside its reasoning; None if there is none."""
    rest = [item for item in items if "thinking_blocks" not in (item.get("provider_data") or {})]
    return None if len(rest) == len(items) else rest


def _shorter(items: list[Item]) -> Remainder:
    """Return what is left of an answer; None if no item is."""
    if not items:
        return None
    message = answer(items)
    return message, NativeForms(FRAMEWORK, [_form(items, message)])
