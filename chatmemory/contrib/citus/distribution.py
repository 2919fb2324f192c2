"""The steps that distribute the tables by the conversation, from constraints to shards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

from django.contrib.auth import get_user_model
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from chatmemory.contrib.citus.catalog import Catalog
from chatmemory.contrib.citus.constraints import (
    CONVERSATIONS,
    NAMES,
    Step,
    constraint_steps,
    tables_of_rows,
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
        RuntimeError: the database is not PostgreSQL, or is to be distributed and does not have the extension; or a
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
            for step in _shard_steps(catalog, users, shards):
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
    """Let nobody write until the end of the transaction."""
    _execute(
        connection, f"LOCK TABLE {', '.join([CONVERSATIONS, *tables_of_rows(), NAMES])} IN SHARE ROW EXCLUSIVE MODE"
    )


def _shard_steps(catalog: Catalog, users: Users, shards: int) -> Iterator[Step]:
    if catalog.is_distributed(CONVERSATIONS):
        return
    rows = tables_of_rows()
    pairs = [(table, CONVERSATIONS) for table in rows]
    pairs += [(table, reference.to) for table, references in rows.items() for reference in references]
    dropped = []
    # First of all: Citus takes in every table that refers to one of its own, and alters none with an identity column.
    for table, to in pairs:
        for name, columns in catalog.foreign_keys(table, to).items():
            dropped.append((table, to, name, columns))
            yield Step(
                f"{table}: drop the foreign key to {to} for the moment.",
                f'ALTER TABLE {table} DROP CONSTRAINT "{name}"',
            )
    accounts = get_user_model()._meta.db_table
    if users == "reference":
        if not catalog.is_distributed(accounts):
            yield Step(
                f"{accounts}: copy it to every node, as a reference table.",
                f"SELECT create_reference_table('{accounts}')",
            )
    else:
        for name in catalog.foreign_keys(CONVERSATIONS, accounts):
            yield Step(
                f"{CONVERSATIONS}: drop the foreign key to users, which stay on the coordinator.",
                f'ALTER TABLE {CONVERSATIONS} DROP CONSTRAINT "{name}"',
            )
    yield Step(
        f"{CONVERSATIONS}: distribute it by its primary key, in {shards} shards.",
        f"SELECT create_distributed_table('{CONVERSATIONS}', 'id', shard_count := {shards}, colocate_with := 'none')",
    )
    for table in rows:
        yield Step(
            f"{table}: distribute it by the conversation, colocated with it.",
            f"SELECT create_distributed_table('{table}', 'conversation_id', colocate_with := '{CONVERSATIONS}')",
        )
    yield Step(
        f"{NAMES}: distribute it by the name.",
        f"SELECT create_distributed_table('{NAMES}', 'digest', shard_count := {shards}, colocate_with := 'none')",
    )
    for table, to, name, columns in dropped:
        to_columns = "id" if len(columns) == 1 else "conversation_id, id"
        yield Step(
            f"{table}: add the foreign key to {to} again.",
            # Citus checks foreign keys at once only.
            f'ALTER TABLE {table} ADD CONSTRAINT "{name}" '
            f"FOREIGN KEY ({', '.join(columns)}) REFERENCES {to} ({to_columns})",
        )


def _execute(connection: BaseDatabaseWrapper, sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)
