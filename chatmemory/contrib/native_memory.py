"""The memory that the adapters share: its messages keep the form in which a framework added them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from inspect import unwrap
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack, cast

from django.db import connections, router, transaction
from django.db.models import F, Q

from chatmemory.conf import setting
from chatmemory.core.asynchronous import as_async_change, as_async_read
from chatmemory.core.entries import Cause, EvictionReason
from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.json_text import require_storable, with_replacements
from chatmemory.core.messages import AiMessage, ChatMessage, ToolExecutionRequest, ToolExecutionResultMessage
from chatmemory.core.serialization import storable_message
from chatmemory.core.usage import Usage
from chatmemory.database import operations
from chatmemory.database.change import Change, Target, after_commit
from chatmemory.database.connections import retry
from chatmemory.database.new_messages import NativeForms, NewMessages
from chatmemory.database.operations.archive import Remainder, take_back
from chatmemory.database.reading import fresh_rows
from chatmemory.database.stored_windows import check_window_settings
from chatmemory.formats.thinking import stale_answers
from chatmemory.formats.validity import CallIds, Repair, RepairReason, Valid
from chatmemory.models import Conversation, Message, MessageQuerySet, WindowSettings, require_owner
from chatmemory.models.conversation_names import named_rows
from chatmemory.models.fields import memory_id_text
from chatmemory.signals import memory_repaired, model_called

P = ParamSpec("P")
T = TypeVar("T")


class ConversationSettings(WindowSettings, total=False):
    """Keyword arguments of every adapter, for a conversation that it creates.

    None is the project's default, also of settings for which None is a value. A conversation that exists keeps its own.
    """

    title: str | None
    """The title, with at most 255 characters."""


def settings_of_new(**settings: Unpack[ConversationSettings]) -> dict[str, Any]:
    """Return the columns of a new conversation: ``settings`` without those that are None.

    Raises:
        TypeError: a name that is not in ``ConversationSettings``.
        ValueError: a setting of the window has no meaning, or the title is too long.
    """
    known = ConversationSettings.__annotations__
    for name in settings:
        if name not in known:
            raise TypeError(f"unexpected keyword argument {name!r}; expected one of {', '.join(known)}")
    given: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
    title = given.get("title")
    if title is not None:
        longest = Conversation._meta.get_field("title").max_length or 0
        if len(require_storable(title, "title")) > longest:
            raise ValueError(f"title must have at most {longest} characters, but has {len(title)}")
    window = {name: value for name, value in given.items() if name != "title"}
    return {**check_window_settings(cast(WindowSettings, window)), **({} if title is None else {"title": title})}


class NativeMemory:
    """The conversation under one memory ID, created when something is first added.

    Each method is one transaction, done whole or not at all, so async callers may run it in any thread.
    """

    def __init__(
        self, framework: str, memory_id: Any, owner: Any = None, **settings: Unpack[ConversationSettings]
    ) -> None:
        """
        Args:
            framework: the framework of the native forms.
            memory_id: its text is the conversation's memory ID.
            owner: the user who owns the conversation; None for one without an owner.
            settings: those of a new conversation, see
                ``ConversationSettings``.

        Raises:
            TypeError: there is no such setting.
            ValueError: an anonymous or unsaved user, an ID that is empty or too long, or settings that no conversation
                can have.
        """
        self._framework = framework
        self._owner = require_owner(owner)
        self._memory_id = memory_id_text(memory_id)
        self._settings = settings_of_new(**settings)

    @property
    def database(self) -> str:
        """The alias of the database, never a replica's: the next turn must read what was just added."""
        return router.db_for_write(Conversation)

    @property
    def messages(self) -> MessageQuerySet:
        """The rows of the conversation, each with its ``prefix_version``."""
        found = Message.objects.using(self.database).annotate(prefix_version=F("conversation__prefix_version"))
        return found.filter(**named_rows(self._owner, self._memory_id, self.database))

    def add(
        self,
        messages: Sequence[ChatMessage],
        forms: Sequence[Any],
        replaced: Collection[int] = (),
        usages: Sequence[Usage] = (),
    ) -> None:
        """Add all of ``messages`` or none.

        Args:
            messages: the messages, in order. See ``NativeMessages`` for
                texts that no database can store.
            forms: the framework's own form of each, a JSON value; None if the message expresses all of it.
            replaced: the indexes of messages in which the caller has replaced characters.
            usages: what the framework tells of the call of the model behind each answer.

        Raises:
            ValueError: a form that is no JSON.
        """
        if messages:
            new = NativeMessages(self._framework, messages, forms, replaced)
            change = operations.add(self._target(), new.encoded)
            new.tell_repairs(change)
            tell_calls(change, usages)

    def set(self, messages: Sequence[ChatMessage], forms: Sequence[Any]) -> None:
        """Make ``messages`` the memory, even if they exceed its window. New ones after all that stay count as said.

        Raises:
            ValueError: see ``add``.
        """
        new = NativeMessages(self._framework, messages, forms)
        target, native = self._target(), new.encoded.native
        new.tell_repairs(operations.rewrite(target, new.encoded, native=native, from_foreign_memory=True))

    def take_back(self, shorten: Callable[[Message], Remainder] = lambda row: None) -> Message | None:
        """Evict the last message, or put a shorter one in its place.

        Returns:
            The row as it was; None if the memory is empty.
        """
        try:
            return take_back(self._target(create=False), shorten)
        except Conversation.DoesNotExist:
            return None

    def clear(self) -> None:
        """Evict all messages; history keeps them."""
        try:
            operations.clear(self._target(create=False))
        except Conversation.DoesNotExist:
            return

    def _at_once(self, work: Callable[[], T]) -> T:
        """Do several changes in one transaction."""

        def transact() -> T:
            with transaction.atomic(using=self.database):
                return work()

        return retry(self.database, transact)

    def _target(self, *, create: bool = True) -> Target:
        def new() -> Conversation:
            return Conversation(owner=self._owner, memory_id=self._memory_id, **self._settings)

        return Target.named(self._owner, self._memory_id, new if create else None)


@contextmanager
def left_as_found() -> Iterator[None]:
    """Close the connection to the database of conversations afterwards if it was not open before.

    Some frameworks run steps in threads of their own, in sync code too. These threads end with the run, and
    nothing else would close their connections.
    """
    connection = connections[router.db_for_write(Conversation)]
    was_open = connection.connection is not None or threading.current_thread() is threading.main_thread()
    try:
        yield
    finally:
        if not was_open:
            connection.close()


def async_change(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Return an async version of a method that changes a memory, without ``left_as_found``."""
    return as_async_change(unwrap(method))


def async_read(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Return an async version of a method that reads, without ``left_as_found``."""
    return as_async_read(unwrap(method))


class NativeMessages:
    """Messages that a framework adds, often in the middle of a run, which an error would end.

    So U+FFFD takes the place of each character that no database can store, in the message and in its form.
    """

    def __init__(
        self,
        framework: str,
        messages: Sequence[ChatMessage],
        forms: Sequence[Any],
        replaced: Collection[int] = (),
    ) -> None:
        """
        Args:
            framework: the framework of the native forms.
            messages: the messages, in order.
            forms: the framework's own form of each, a JSON value; None if the message expresses all of it.
            replaced: the indexes of messages in which the caller has replaced characters.

        Raises:
            TypeError: one of ``messages`` is no message.
            ValueError: a form is no JSON.
        """
        self._framework = framework
        changed = set(replaced)
        try:
            self.encoded = NewMessages(messages, NativeForms(framework, forms))
        except InvalidMessageError:
            cleaned = list(map(storable_message, messages))
            changed |= {index for index, message in enumerate(messages) if cleaned[index] != message}
            self.encoded = NewMessages(cleaned, NativeForms(framework, list(map(with_replacements, forms))))
        what = "U+FFFD took the place of a character that no database can store"
        self._repairs = [Repair(index, RepairReason.CHARACTER, what) for index in sorted(changed)]

    def tell_repairs(self, change: Change) -> None:
        """Send the signal ``memory_repaired`` once a change that stored these messages is committed."""
        if self._repairs:
            after_commit(memory_repaired, change.conversation, format=self._framework, repairs=self._repairs)


def tell_calls(change: Change, usages: Sequence[Usage]) -> None:
    """Send the signal ``model_called`` for each answer whose usage is known, once its change is committed."""
    answers = [row for row in change.added if row.type == AiMessage.type]
    if len(answers) != len(usages):  # a system message may have been left out, but no answer
        return
    for row, usage in zip(answers, usages, strict=True):
        if usage != Usage():
            after_commit(
                model_called,
                change.conversation,
                position=row.position,
                usage=usage,
                model=usage.model,
                provider=usage.provider,
                operation="chat",
                status="ok",
                seconds=None,
                first_delta_seconds=None,
                estimated_tokens=None,
                error=None,
            )


def valid_rows(memory: NativeMemory) -> Iterator[tuple[Message, ChatMessage]]:
    """Yield the rows of the memory, each with its message, as ``valid_among`` does."""
    found = memory.messages
    return valid_among(retry(memory.database, lambda: list(found.retained())), found)


def valid_among(rows: Iterable[Message], history: MessageQuerySet | None) -> Iterator[tuple[Message, ChatMessage]]:
    """Yield rows, each with its message, in which every tool call and result has an ID.

    The window evicts a call together with the results that directly follow it, but may leave other results behind. So
    after the first eviction, results without a call are left out here. Before it, they were written so, and they stay.
    A result without a tool's name gets the name of its call.

    Args:
        rows: of one conversation, in memory order.
        history: all rows of that conversation; None to leave out nothing.
    """
    names: dict[str | None, str | None] = {}
    ids: CallIds | None = None
    cut: bool | None = None
    for row in rows:
        message = row.message
        if isinstance(message, AiMessage):
            ids = _call_ids(row)
            message = ids.with_ids(message)
            names |= {request.id: request.name for request in message.tool_execution_requests}
        elif isinstance(message, ToolExecutionResultMessage):
            id = message.id if ids is None else ids.id_answered_by(message)
            if id not in names and history is not None:
                cut = was_cut(history) if cut is None else cut
                if cut:
                    continue
            name = names.get(id) if message.tool_name is None else message.tool_name
            message = replace(message, id=f"call_{row.place}" if id is None else id, tool_name=name)
        yield row, message


def valid_message(row: Message, rows: MessageQuerySet) -> ChatMessage:
    """Return the message of one row as ``valid_among`` yields it among ``rows``, which are in memory order."""
    until = rows.filter(memory_order__lte=row.memory_order)
    answer = until.filter(type=AiMessage.type).last() or row  # a result answers the last one before it
    *_, (_row, message) = valid_among(until.filter(memory_order__gte=answer.memory_order), None)
    return message


def request_of(id: str | None, name: str | None, arguments: Any) -> ToolExecutionRequest:
    """Return a call whose arguments are a text, or a JSON value."""
    if arguments is not None and not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    return ToolExecutionRequest(id, name, arguments)


def _call_ids(row: Message) -> CallIds:
    # By the position, so that what was evicted changes no ID.
    return CallIds(lambda number: f"call_{row.place}_{number}", keep_empty=True)


def was_cut(history: MessageQuerySet) -> bool:
    """Return whether the memory has lost the start of what was said, so that a call may be missing.

    Args:
        history: all rows of the conversation.
    """
    if not setting("KEEP_HISTORY"):
        return True  # it cannot be known any more
    # Nor can it be known of messages that were purged.
    cut = history.filter(
        Q(eviction_reason__in=EvictionReason.of(Cause.ROOM, Cause.SUMMARY)) | Q(conversation__purged_count__gt=0)
    )
    return retry(history.db, cut.exists)


def without_stale_thinking(
    rows: Sequence[tuple[Message, ChatMessage]], forms: Sequence[T], without: Callable[[T], T | None]
) -> list[T]:
    """Return a framework's messages without the thinking that is stale; see ``chatmemory.formats.thinking``.

    Args:
        rows: the rows of the memory with their messages, in memory order.
        forms: the framework's message of each.
        without: returns a message without its signed thinking; None if it has none.
    """
    kept = list(forms)
    if rows:
        fresh = fresh_rows([row for row, _ in rows], vars(rows[0][0])["prefix_version"])  # see NativeMemory.messages
        memory = Valid([message for _, message in rows], list(range(len(rows))), [])
        for index, rest in stale_answers(memory, fresh, lambda index: without(forms[index])):
            kept[index] = rest
    return kept
