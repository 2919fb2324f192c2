"""The steps after which each constraint is about one conversation, so that the tables can be distributed by it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.db import models

from chatmemory.capabilities import capabilities
from chatmemory.contrib.citus.catalog import Catalog
from chatmemory.contrib.citus.models import Name
from chatmemory.models import OWNER_SCOPE, Conversation, IdempotencyKey

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
    conversation by a foreign key named ``conversation``.
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
                    f"REFERENCES {reference.to} ({_BY}, id) DEFERRABLE INITIALLY DEFERRED",
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
