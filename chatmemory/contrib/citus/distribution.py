"""The tables and constraints of PostgreSQL's catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

from django.apps import apps
from django.contrib.auth import get_user_model
from django.db import connections, models, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from chatmemory.capabilities import capabilities
from chatmemory.contrib.citus.models import Name
from chatmemory.models import OWNER_SCOPE, Conversation, IdempotencyKey

_COLUMNS = (
    "ARRAY(SELECT attname::text FROM unnest(conkey) WITH ORDINALITY AS part (number, place) "
    "JOIN pg_attribute ON attrelid = conrelid AND attnum = number ORDER BY place)"
)


class Catalog:
    """The catalog of one database."""

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self._connection = connection

    def primary_key(self, table: str) -> tuple[str, list[str]]:
        """Return the name of a table's primary key, and its columns."""
        [(name, columns)] = self._constraints(table, "p")
        return name, columns

    def uniques(self, table: str) -> dict[str, list[str]]:
        """Return the columns of a table's unique constraints, by their names."""
        return dict(self._constraints(table, "u"))

    def foreign_keys(self, table: str, to: str) -> dict[str, list[str]]:
        """Return the columns of the foreign keys from one table to another, by the names of the constraints."""
        return dict(self._constraints(table, "f", to))

    def definitions(self, table: str, to: str) -> list[tuple[str, str, bool]]:
        """Return the foreign keys of a table: their names, their definitions, and whether they refer to ``to``."""
        return self._rows(
            "SELECT conname::text, pg_get_constraintdef(oid), confrelid = %s::regclass FROM pg_constraint "
            "WHERE conrelid = %s::regclass AND contype = 'f' ORDER BY 1",
            to,
            table,
        )

    def sequences(self) -> dict[tuple[str, str], int]:
        """Return the last values of the sequences of columns, by the names of table and column."""
        rows = self._rows(
            "SELECT owner.relname::text, attname::text, last_value FROM pg_depend "
            "JOIN pg_class AS sequence ON sequence.oid = objid AND sequence.relkind = 'S' "
            "JOIN pg_class AS owner ON owner.oid = refobjid "
            "JOIN pg_attribute ON attrelid = refobjid AND attnum = refobjsubid "
            "JOIN pg_sequences ON sequencename = sequence.relname "
            "AND schemaname = sequence.relnamespace::regnamespace::text "
            "WHERE classid = 'pg_class'::regclass AND refclassid = 'pg_class'::regclass AND deptype IN ('a', 'i') "
            "AND owner.relnamespace = current_schema()::regnamespace AND last_value IS NOT NULL"
        )
        return {(table, column): value for table, column, value in rows}

    def has_citus(self) -> bool:
        """Return whether the extension is in the database."""
        return bool(self._rows("SELECT 1 FROM pg_extension WHERE extname = 'citus'"))

    def is_distributed(self, table: str) -> bool:
        """Return whether Citus has distributed a table, or made a reference table of it."""
        sql = "SELECT 1 FROM pg_dist_partition WHERE logicalrelid = %s::regclass"
        return self.has_citus() and bool(self._rows(sql, table))

    def _constraints(self, table: str, kind: str, to: str | None = None) -> list[tuple[str, list[str]]]:
        sql = f"SELECT conname::text, {_COLUMNS} FROM pg_constraint WHERE conrelid = %s::regclass AND contype = %s"
        if to is None:
            return self._rows(f"{sql} ORDER BY 1", table, kind)
        return self._rows(f"{sql} AND confrelid = %s::regclass ORDER BY 1", table, kind, to)

    def _rows(self, sql: str, *params: str) -> list[Any]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql, params)
            return list(cursor.fetchall())


CONVERSATIONS = Conversation._meta.db_table
NAMES = Name._meta.db_table

_BY = "conversation_id"
_KEYS = IdempotencyKey._meta.db_table
_DEFERRED = " DEFERRABLE INITIALLY DEFERRED"
_NUL = r"'\x00'::bytea"


@dataclass(frozen=True)
class Step:
    """A change of the database."""

    what: str
    """A description of the step."""

    sql: str


@dataclass(frozen=True)
class Reference:
    """A foreign key from one table of rows to another."""

    to: str
    """The other table."""

    field: str

    column: str


def tables_of_rows() -> dict[str, list[Reference]]:
    """Return the tables of chatmemory and its capabilities whose rows belong to a conversation.

    Each is there by its name, behind the tables that it refers to, with these references. A model belongs to a
    conversation by a foreign key named ``conversation``. If its rows outlive the conversation, they keep its key.
    """
    labels = {"chatmemory", *(capability.app.label for capability in capabilities())}
    chosen = [model for model in apps.get_models() if model._meta.app_label in labels and _has_conversation(model)]
    references = {model: [field for field in _foreign_keys(model) if _referred(field) in chosen] for model in chosen}
    found: dict[str, list[Reference]] = {}
    while references:
        ready = [model for model, fields in references.items() if references.keys().isdisjoint(map(_referred, fields))]
        assert ready, f"these models refer to each other: {[model._meta.label for model in references]}"
        for model in ready:
            found[model._meta.db_table] = [
                Reference(to=_referred(field)._meta.db_table, field=field.name, column=field.column)
                for field in references.pop(model)
            ]
    return found


def _referred(field: Any) -> Any:
    return field.related_model


def _has_conversation(model: type[models.Model]) -> bool:
    return any(field.name == "conversation" and field.related_model is Conversation for field in _foreign_keys(model))


def _foreign_keys(model: type[models.Model]) -> list[Any]:
    return [field for field in model._meta.concrete_fields if isinstance(field, models.ForeignKey)]


def constraint_steps(catalog: Catalog) -> Iterator[Step]:
    """Yield the steps that are still to be done; none if all were done before."""
    yield Step("Give every conversation that has none its name.", _fill())
    tables = tables_of_rows()
    for table, references in tables.items():
        for reference in references:
            for name, columns in catalog.foreign_keys(table, reference.to).items():
                if _BY not in columns:
                    yield Step(f"{table}: drop the foreign key to the {reference.field} alone.", _drop(table, name))
    for table in tables:
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
    for table, references in tables.items():
        for reference in references:
            if not any(_BY in columns for columns in catalog.foreign_keys(table, reference.to).values()):
                yield Step(
                    f"{table}: refer to the {reference.field} by the conversation, too.",
                    f"ALTER TABLE {table} ADD CONSTRAINT {table}_{reference.field} "
                    f"FOREIGN KEY ({_BY}, {reference.column}) "
                    f"REFERENCES {reference.to} ({_BY}, id){_DEFERRED}",
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


_SETTINGS = {
    # Citus refuses to change a table that users refer to after it has changed many shards at once, as the deletion of a
    # user does.
    "citus.multi_shard_modify_mode": "sequential",
    # How long a transaction waits for a lock is to hold on the node that has the row.
    "citus.propagate_set_commands": "local",
}
"""The settings that every connection to any node needs, beside the time zone."""

_NODES_WITHOUT = (
    "SELECT nodeid FROM run_command_on_all_nodes($$SELECT setconfig::text FROM pg_db_role_setting "
    "JOIN pg_database ON pg_database.oid = setdatabase WHERE datname = current_database() AND setrole = 0$$) "
    "WHERE NOT success OR coalesce(result, '') NOT LIKE %s ORDER BY 1"
)

Users = Literal["reference", "local"]
"""Where users are: copied to every node, or on the coordinator only."""


def distribute(
    database: str,
    *,
    users: Users = "reference",
    shards: int = 32,
    constraints_only: bool = False,
    dry_run: bool = False,
    tell: Callable[[str], object] = lambda said: None,
) -> None:
    """Make every constraint one about a conversation, and distribute the tables by it, in one transaction.

    What is stored is kept. What was done before is not done again.

    Args:
        database: the alias of a database on PostgreSQL; of the coordinator, if tables are distributed.
        users: where users are.
        shards: the number of shards of each table, above zero.
        constraints_only: only change the constraints. Any PostgreSQL can do that.
        dry_run: only tell what would be done.
        tell: called with a sentence before each step.

    Raises:
        RuntimeError: the database is not PostgreSQL, or lacks the extension that distributing needs; or a
            node does not have a setting.
    """
    connection = connections[database]
    if connection.vendor != "postgresql":
        raise RuntimeError(
            f"Citus is an extension of PostgreSQL, but the database {database!r} is {connection.vendor}."
        )
    catalog = Catalog(connection)
    if not constraints_only and not catalog.has_citus():
        raise RuntimeError(
            f"The database {database!r} does not have the extension citus: run CREATE EXTENSION citus on every node, "
            "and add the nodes by citus_add_node(). To change the constraints alone, add --constraints-only."
        )
    with transaction.atomic(using=database):
        _lock(connection)
        if not constraints_only:
            _execute(connection, "SET LOCAL citus.multi_shard_modify_mode TO 'sequential'")
        # Each step is found after the one before it was done, and undone at the end of a dry run.
        for step in constraint_steps(catalog):
            tell(step.what)
            _execute(connection, step.sql)
        if not constraints_only:
            before = catalog.sequences()
            for step in chain(shard_steps(catalog, users, shards), sequence_steps(catalog, before)):
                tell(step.what)
                _execute(connection, step.sql)
        if dry_run:
            transaction.set_rollback(True, using=database)
    if not (constraints_only or dry_run):
        # Nodes are not told the time zone of a session, which moments without one are in where USE_TZ is off.
        for name, value in {**_SETTINGS, "TimeZone": connection.timezone_name}.items():
            tell(f"Set {name} to {value} in the database, for new connections to any node.")
            _set(connection, name, value)
        tell("Delete what is left of the tables on the coordinator itself.")
        for table in [CONVERSATIONS, *tables_of_rows(), NAMES]:
            _execute(connection, f"SELECT truncate_local_data_after_distributing_table('{table}')")


def _set(connection: BaseDatabaseWrapper, name: str, value: str) -> None:
    """Set a setting in the database. Citus does the same on the other nodes.

    Raises:
        RuntimeError: a node does not have it.
    """
    statement = f"ALTER DATABASE {connection.ops.quote_name(connection.settings_dict['NAME'])} SET {name} TO '{value}'"
    with connection.cursor() as cursor:
        cursor.execute(statement)
        cursor.execute(_NODES_WITHOUT, [f"%{name}={value}%"])
        if nodes := [node for (node,) in cursor.fetchall()]:
            raise RuntimeError(
                f"All is distributed, but these nodes have not set {name}: {nodes}. Run there: {statement}; "
                "then run this command again."
            )


def _lock(connection: BaseDatabaseWrapper) -> None:
    """Block writes until the end of the transaction."""
    tables = ", ".join([CONVERSATIONS, *tables_of_rows(), NAMES])
    _execute(connection, f"LOCK TABLE {tables} IN SHARE ROW EXCLUSIVE MODE")


def shard_steps(catalog: Catalog, users: Users, shards: int) -> Iterator[Step]:
    """Yield the steps that distribute the tables which are not distributed; none if all are."""
    rows = [table for table in tables_of_rows() if not catalog.is_distributed(table)]
    is_new = not catalog.is_distributed(CONVERSATIONS)
    accounts = get_user_model()._meta.db_table
    dropped = []
    # First of all: Citus takes in every table that refers to one of its own, and alters none with an identity column.
    # And a table is not altered in the transaction in which its rows were copied with a deferred foreign key.
    for table in [CONVERSATIONS, *rows] if is_new else rows:
        for name, definition, is_to_users in catalog.definitions(table, accounts):
            if users == "reference" or not is_to_users:
                dropped.append((table, name, definition))
                yield Step(f"{table}: drop the foreign key {name} for the moment.", _drop(table, name))
            else:
                what = f"{table}: drop the foreign key {name} to users, who stay on the coordinator."
                yield Step(what, _drop(table, name))
    if is_new:
        if users == "reference" and not catalog.is_distributed(accounts):
            yield Step(
                f"{accounts}: copy it to every node, as a reference table.",
                f"SELECT create_reference_table('{accounts}')",
            )
        yield Step(
            f"{CONVERSATIONS}: distribute it by its primary key, in {shards} shards.",
            f"SELECT create_distributed_table('{CONVERSATIONS}', 'id', shard_count := {shards}, "
            "colocate_with := 'none')",
        )
    for table in rows:
        yield Step(
            f"{table}: distribute it by the conversation, colocated with it.",
            f"SELECT create_distributed_table('{table}', '{_BY}', colocate_with := '{CONVERSATIONS}')",
        )
    if is_new:
        yield Step(
            f"{NAMES}: distribute it by the name.",
            f"SELECT create_distributed_table('{NAMES}', 'digest', shard_count := {shards}, colocate_with := 'none')",
        )
    for table, name, definition in dropped:
        yield Step(
            f"{table}: add the foreign key {name} again.",
            # Citus checks foreign keys at once only.
            f'ALTER TABLE {table} ADD CONSTRAINT "{name}" {definition.removesuffix(_DEFERRED)}',
        )


def sequence_steps(catalog: Catalog, before: dict[tuple[str, str], int]) -> Iterator[Step]:
    """Yield the steps after which sequences go on from their values ``before`` the distribution.

    If the coordinator knows its address, Citus also takes in the tables that refer to users, such as permissions, and
    those to which these refer. It makes new ones of them, whose identity columns begin again.
    """
    after = catalog.sequences()
    for (table, column), value in sorted(before.items()):
        if after.get((table, column), 0) < value:
            yield Step(
                f"{table}: let {column} go on after {value}.",
                f"SELECT setval(pg_get_serial_sequence('\"{table}\"', '{column}'), {value})",
            )


def _execute(connection: BaseDatabaseWrapper, sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)
