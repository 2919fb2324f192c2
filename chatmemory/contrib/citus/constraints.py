"""The steps after which each constraint is about one conversation, so that the tables can be distributed by it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.apps import apps

from chatmemory.contrib.citus.catalog import Catalog
from chatmemory.contrib.citus.models import Name
from chatmemory.models import OWNER_SCOPE, Compaction, Conversation, IdempotencyKey, Message

__all__ = ["CONVERSATIONS", "NAMES", "Step", "constraint_steps", "langgraph_tables", "tables_of_rows"]

CONVERSATIONS = Conversation._meta.db_table
NAMES = Name._meta.db_table

_BY = "conversation_id"
_KEYS = IdempotencyKey._meta.db_table
_NUL = r"'\x00'::bytea"


@dataclass(frozen=True)
class Step:
    """A change of the database."""

    what: str
    """A sentence that says what it does."""

    sql: str


def langgraph_tables() -> tuple[str, list[str]] | None:
    """Return LangGraph's table of namespaces, and those whose rows are in one; None if its app is not installed."""
    if not apps.is_installed("chatmemory.contrib.langgraph"):
        return None
    from chatmemory.contrib.langgraph.models import ChannelValue, Checkpoint, Namespace, Write

    return Namespace._meta.db_table, [model._meta.db_table for model in (Checkpoint, ChannelValue, Write)]


def tables_of_rows() -> list[str]:
    """Return the tables whose rows belong to a conversation, in the order in which they refer to each other."""
    found = [model._meta.db_table for model in (Message, IdempotencyKey, Compaction)]
    if (graphs := langgraph_tables()) is not None:
        found += [graphs[0], *graphs[1]]
    return found


def constraint_steps(catalog: Catalog) -> Iterator[Step]:
    """Yield the steps that are still to be done; none if all were done before."""
    yield Step("Give every conversation that has none its name.", _fill())
    graphs = langgraph_tables()
    if graphs is not None:
        for table in graphs[1]:
            for name, columns in catalog.foreign_keys(table, graphs[0]).items():
                if _BY not in columns:
                    yield Step(f"{table}: drop the foreign key to the namespace alone.", _drop(table, name))
    for table in tables_of_rows():
        name, columns = catalog.primary_key(table)
        if _BY not in columns:
            yield Step(
                f"{table}: make the conversation a part of the primary key.",
                f'{_drop(table, name)}, ADD CONSTRAINT "{name}" PRIMARY KEY ({_BY}, {", ".join(columns)})',
            )
    for name in catalog.uniques(CONVERSATIONS):
        yield Step(f"{CONVERSATIONS}: leave memory IDs to the names.", _drop(CONVERSATIONS, name))
    for name, columns in catalog.uniques(_KEYS).items():
        if _BY not in columns:
            yield Step(
                f"{_KEYS}: make keys unique within the conversation, and leave those of owners to the names.",
                f'{_drop(_KEYS, name)}, ADD CONSTRAINT "{name}" UNIQUE ({_BY}, {", ".join(columns)})',
            )
    if graphs is not None:
        for table in graphs[1]:
            if not any(_BY in columns for columns in catalog.foreign_keys(table, graphs[0]).values()):
                yield Step(
                    f"{table}: refer to the namespace by the conversation, too.",
                    f"ALTER TABLE {table} ADD CONSTRAINT {table}_namespace FOREIGN KEY ({_BY}, namespace_id) "
                    f"REFERENCES {graphs[0]} ({_BY}, id) DEFERRABLE INITIALLY DEFERRED",
                )


def _drop(table: str, constraint: str) -> str:
    return f'ALTER TABLE {table} DROP CONSTRAINT "{constraint}"'


def _fill() -> str:
    by_memory_id = f"convert_to(owner_key, 'UTF8') || {_NUL} || convert_to(memory_id, 'UTF8')"
    by_key = f"'key'::bytea || {_NUL} || convert_to(scope, 'UTF8') || {_NUL} || convert_to(key, 'UTF8')"
    return (
        f"INSERT INTO {NAMES} (digest, conversation_id) "
        f"SELECT encode(sha256({by_memory_id}), 'hex'), id FROM {CONVERSATIONS} "
        f"UNION ALL SELECT encode(sha256({by_key}), 'hex'), {_BY} FROM {_KEYS} WHERE scope LIKE '{OWNER_SCOPE}%' "
        "ON CONFLICT DO NOTHING"
    )
