"""The statements, rows, bytes and tokens of an add and a read, and the memory that a turn takes."""

from __future__ import annotations

import statistics
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any
from unittest.mock import patch

import tiktoken
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from benchmarks.filling import message_at, new_conversation
from benchmarks.places import new_place
from benchmarks.texts import ai_text, count_tokens, user_text
from benchmarks.windows import WINDOWS, Window
from chatmemory import AiMessage, ChatMemory, UserMessage
from chatmemory.models import Conversation, Message

__all__ = ["measure_statements", "measure_tokenizer"]

_ADDS = 200  # over which rows and bytes are averaged
_FULL = 1_000  # messages after which either window is full
_LONG = 100_000
_TRANSACTIONS = ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "START TRANSACTION")


def measure_statements(engine: str, *, windows: list[str]) -> dict[str, dict[str, Any]]:
    """Return the figures of one engine, by window and by kind.

    Statements are those of one add or read at most, without the ones that begin and end transactions.
    """
    return {window: _of_window(engine, WINDOWS[window]) for window in windows}


def _of_window(engine: str, window: Window) -> dict[str, Any]:
    with new_place(engine) as place:
        empty = new_conversation(window, 0).memory
        full = new_conversation(window, _FULL).memory
        for memory in empty, full:
            memory.add(message_at(0), message_at(1))  # what is done once is no matter of each add
            memory.messages()
        figures: dict[str, Any] = {
            "statements per add, nothing evicted": _most_statements(empty, 10),
            "statements per add, something evicted": _most_statements(full, 40),
            "statements per read": len(_statements(full.messages)),
            "tokenizer calls per add": _tokenizer_calls(lambda: full.add(message_at(2))),
            "tokenizer calls per read": _tokenizer_calls(full.messages),
        }
        if (touched := _rows_touched()) is not None:
            _add_many(full)
            figures["rows written per add"] = (_rows_touched() - touched) / _ADDS  # type: ignore[operator]
        with _written_bytes(place.database) as written:
            before = written()
            _add_many(full)
            figures["bytes of log written per add"] = round((written() - before) / _ADDS)
        stored, indexes = _stored_bytes(), _index_bytes()
        long = new_conversation(window, _LONG)
        figures["bytes stored per message, with indexes"] = round((_stored_bytes() - stored) / _LONG)
        if indexes is not None:
            figures["bytes of these in indexes"] = round((_index_bytes() - indexes) / _LONG)  # type: ignore[operator]
        figures[f"peak memory of a turn at {_LONG:,} messages, KiB"] = _peak_memory(long)
    return figures


def _add_many(memory: ChatMemory) -> None:
    for position in range(_ADDS):
        memory.add(message_at(position))


def _statements(call: Callable[[], Any]) -> list[str]:
    seen: list[str] = []
    if connection.vendor == "sqlite":
        # The driver sees all, also what would pass Django's log by.
        connection.ensure_connection()
        connection.connection.set_trace_callback(seen.append)
        call()
        connection.connection.set_trace_callback(None)
    else:
        with CaptureQueriesContext(connection) as captured:
            call()
        seen = [query["sql"] for query in captured]
    return [statement for statement in seen if not statement.lstrip().upper().startswith(_TRANSACTIONS)]


def _most_statements(memory: ChatMemory, adds: int) -> int:
    return max(len(_statements(partial(memory.add, message_at(position)))) for position in range(adds))


def _tokenizer_calls(call: Callable[[], Any]) -> int:
    calls: list[str] = []
    encode = tiktoken.Encoding.encode_ordinary

    def counted(encoding: tiktoken.Encoding, text: str) -> list[int]:
        calls.append(text)
        return encode(encoding, text)

    with patch.object(tiktoken.Encoding, "encode_ordinary", counted):
        call()
    return len(calls)


def _rows_touched() -> int | None:
    """Return the rows inserted, updated and deleted so far; None if the engine does not report them."""
    if connection.vendor == "sqlite":
        return int(connection.connection.total_changes)
    if connection.vendor == "postgresql":
        _value("SELECT pg_stat_force_next_flush()")
        return int(_value("SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables"))
    return None


@contextmanager
def _written_bytes(database: str) -> Iterator[Callable[[], int]]:
    """Yield a function that returns the bytes logged so far: SQLite's WAL file, PostgreSQL's WAL, InnoDB's redo log."""
    if connection.vendor == "sqlite":
        # The file is overwritten from its beginning after a checkpoint, so there must be none meanwhile.
        _value("PRAGMA wal_checkpoint(TRUNCATE)")
        _value("PRAGMA wal_autocheckpoint = 0")
        yield lambda: Path(f"{database}-wal").stat().st_size
        _value("PRAGMA wal_autocheckpoint = 1000")
    elif connection.vendor == "postgresql":
        yield lambda: int(_value("SELECT pg_current_wal_lsn() - '0/0'"))
    else:
        yield lambda: int(_value("SHOW GLOBAL STATUS LIKE 'Innodb_os_log_written'", column=1))


def _stored_bytes() -> int:
    """Return the size of the table of messages and its indexes; on SQLite of the whole file."""
    if connection.vendor == "sqlite":
        return int(_value("PRAGMA page_count")) * int(_value("PRAGMA page_size"))
    if connection.vendor == "postgresql":
        return int(_value(f"SELECT pg_total_relation_size('{Message._meta.db_table}')"))
    _value(f"ANALYZE TABLE {Message._meta.db_table}")
    size = "SELECT data_length + index_length FROM information_schema.tables WHERE table_schema = DATABASE()"
    return int(_value(f"{size} AND table_name = '{Message._meta.db_table}'"))


def _index_bytes() -> int | None:
    """Return the size of the indexes of the table of messages; None if the engine does not report it."""
    if connection.vendor == "sqlite":
        indexes = f"SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = '{Message._meta.db_table}'"
        try:
            return int(_value(f"SELECT sum(pgsize) FROM dbstat WHERE name IN ({indexes})"))
        except OperationalError:  # dbstat is an option of SQLite's build
            return None
    if connection.vendor == "postgresql":
        return int(_value(f"SELECT pg_indexes_size('{Message._meta.db_table}')"))
    _value(f"ANALYZE TABLE {Message._meta.db_table}")
    size = "SELECT index_length FROM information_schema.tables WHERE table_schema = DATABASE()"
    return int(_value(f"{size} AND table_name = '{Message._meta.db_table}'"))


def _value(statement: str, column: int = 0) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        row = cursor.fetchone()
        return row[column] if row else None


def _peak_memory(conversation: Conversation) -> int:
    """Return the peak memory of a turn, in KiB above what was in use before it."""

    def turn(number: int) -> None:
        conversation.memory.add(UserMessage(user_text(number)))
        conversation.memory.add(AiMessage(ai_text(number)))
        conversation.memory.messages()

    turn(_LONG)
    tracemalloc.start()
    before, _peak = tracemalloc.get_traced_memory()
    turn(_LONG + 1)
    _current, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return round((peak - before) / 1024)


def measure_tokenizer() -> dict[str, float]:
    """Return the tokens of o200k_base counted per second: in a text of 100,000 characters, and in single messages."""
    short = [ai_text(turn) for turn in range(300)]
    long = " ".join(short)[:100_000]
    return {"long text": _tokens_per_second([long]), "single messages": _tokens_per_second(short)}


def _tokens_per_second(texts: list[str]) -> float:
    rates: list[float] = []
    for _ in range(50):
        start = perf_counter()
        tokens = sum(count_tokens(text) for text in texts)
        rates.append(tokens / (perf_counter() - start))
    return statistics.median(rates)
