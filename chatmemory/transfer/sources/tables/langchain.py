"""Tables with LangChain's messages: of its ``SQLChatMessageHistory``, and of django-ai-assistant.

LangChain's own code reads its messages, so langchain-core must be installed. They are stored as
:mod:`chatmemory.contrib.langchain.messages` stores them, so LangChain reads equal messages from the conversation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from django.contrib.auth import get_user_model

from chatmemory.transfer.moments import from_column
from chatmemory.transfer.records import BadRecordError, Found, FoundConversation, FoundMessage
from chatmemory.transfer.sources.tables.table import Row, Table, json_object

__all__ = ["read_ai_assistant", "read_langchain"]

_AI_ASSISTANT = "django_ai_assistant"


def read_langchain(database: str, table: str = "message_store") -> Found:
    """Yield the sessions of ``SQLChatMessageHistory``, with the session IDs as memory IDs. The table has no times."""
    messages = Table(database, table)
    messages.require("id", "session_id", "message")
    without = messages.count_nulls("session_id")
    if without:
        yield BadRecordError(messages.place, f"{without} messages have no session_id, so their conversation is unknown")
    for session, rows in groupby(messages.rows(["message"], "session_id", "id"), key=lambda row: row["session_id"]):
        yield FoundConversation(
            place=f"{messages.place}: session {session!r:.100}",
            memory_id=session,
            framework=_framework(messages.place),
            messages=_messages(messages.place, rows),
        )


def read_ai_assistant(database: str, table: str = "django_ai_assistant_thread") -> Found:
    """Yield the threads of django-ai-assistant, with the memory IDs ``thread-1`` and so on."""
    threads = Table(database, table)
    threads.require("id", "name", "created_by_id", "assistant_id", "created_at")
    messages = Table(database, f"{threads.name.removesuffix('thread')}message")
    messages.require("id", "thread_id", "message", "created_at")
    users = get_user_model()._default_manager.using(database)
    by_thread = groupby(messages.rows(["message", "created_at"], "thread_id", "id"), key=lambda row: row["thread_id"])
    following = next(by_thread, None)
    for thread in threads.rows(["name", "created_by_id", "assistant_id", "created_at"], "id"):
        rows: Iterable[Row] = ()
        # Both are in the order of the threads.
        while following is not None and following[0] < thread["id"]:
            yield BadRecordError(
                messages.place, f"has messages of thread {following[0]}, which the table of threads does not have"
            )
            following = next(by_thread, None)
        if following is not None and following[0] == thread["id"]:
            rows = following[1]
        owner = users.filter(pk=thread["created_by_id"]).first() if thread["created_by_id"] is not None else None
        assistant = thread["assistant_id"]
        yield FoundConversation(
            place=f"{threads.place}: thread {thread['id']}",
            memory_id=f"thread-{thread['id']}",
            framework=_framework(messages.place),
            title=thread["name"],
            metadata={_AI_ASSISTANT: {"assistant_id": assistant}} if assistant else {},
            owner=None if owner is None else owner.get_username(),
            created_at=from_column(thread["created_at"]),
            messages=_messages(messages.place, rows),
        )
        if rows:
            following = next(by_thread, None)


def _framework(place: str) -> str:
    try:
        from chatmemory.contrib.langchain.messages import FRAMEWORK
    except ImportError as error:
        raise BadRecordError(
            place, f"these messages are read by LangChain's own code; install langchain-core ({error})"
        ) from error
    return FRAMEWORK


def _messages(place: str, rows: Iterable[Row]) -> Iterator[FoundMessage | BadRecordError]:
    from langchain_core.messages import messages_from_dict

    from chatmemory.contrib.langchain.messages import form_of, to_chat_message

    for row in rows:
        here = f"{place}: id {row['id']}"
        try:
            data: Any = json_object(here, row["message"])
            (message,) = messages_from_dict([data])
            yield FoundMessage(
                place=here,
                message=to_chat_message(message),
                said_at=from_column(row.get("created_at")),
                native=form_of(message),
            )
        except BadRecordError as error:
            yield error
        except (KeyError, TypeError, ValueError) as error:
            yield BadRecordError(here, f"no message of LangChain's: {error}")
