"""Writing the rows: of each call that ``model_called`` tells of, and of responses from elsewhere.

A row is one insertion outside of transactions of chatmemory. It takes no lock of the conversation.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from hashlib import sha256
from typing import Any
from uuid import UUID

from django.db import connections, router
from django.db.models.constants import OnConflict
from django.db.models.sql import InsertQuery
from django.utils import timezone

from chatmemory.contrib.usage.models import (
    LONGEST_NAME,
    LONGEST_PROVIDER,
    LONGEST_TIER,
    Operation,
    Status,
    Usage,
    rows_of,
)
from chatmemory.contrib.usage.prices import Cost, cost_of
from chatmemory.core.asynchronous import async_change
from chatmemory.core.json_text import with_replacements
from chatmemory.core.usage import TOKENS
from chatmemory.core.usage import Usage as Reported
from chatmemory.database.connections import retry
from chatmemory.formats.usage import read_usage
from chatmemory.models import Conversation
from chatmemory.signals import model_called


def record_usage(
    self: Conversation,
    response: Any,
    operation: str = Operation.CHAT.value,
    *,
    model: str | None = None,
    provider: str | None = None,
    tier: str | None = None,
    position: int | None = None,
    status: str = Status.OK.value,
    seconds: float | None = None,
    first_delta_seconds: float | None = None,
) -> Usage:
    """Store what a call of a model used, and return its row.

    A response that is recorded again in the conversation has one row: the one with its ID and its counts.

    Args:
        response: see ``chatmemory.formats.usage.read_usage``.
        operation: ``"chat"``, ``"summary"``, ``"title"`` or ``"tool"``.
        model: the name of the model, if the response does not tell it.
        provider: the provider, if the response does not tell it, or another server answered with the provider's API.
        tier: the tier, if the response does not tell it, such as ``"batch"``.
        position: the position of the stored answer.
        status: ``"ok"``, ``"failed"`` or ``"interrupted"``.
        seconds: the time from the request to the end of the answer.
        first_delta_seconds: the time from the request to the first delta of a stream.

    Raises:
        TypeError: the usage of the response cannot be read.
        ValueError: the model is not known, the conversation is not saved, or an argument is invalid.
    """
    if self._state.adding:
        raise ValueError("save the conversation before you record its usage")
    if operation not in Operation.values:
        raise ValueError(f"operation must be one of {', '.join(Operation.values)}, got {operation!r}")
    if status not in Status.values:
        raise ValueError(f"status must be one of {', '.join(Status.values)}, got {status!r}")
    if position is not None and not 0 <= position < self.next_position:
        raise ValueError(f"position must be one of this conversation, got {position!r}")
    reported = read_usage(response)
    given: dict[str, Any] = {"model": model, "provider": provider, "tier": tier}
    reported = replace(reported, **{name: text for name, text in given.items() if text is not None})
    if not reported.model:
        raise ValueError("the response does not tell its model; pass model=")
    row = _new_row(
        reported,
        conversation_id=self.pk,
        owner_id=self.owner_id,
        operation=operation,
        position=position,
        status=status,
        seconds=seconds,
        first_delta_seconds=first_delta_seconds,
    )
    database = router.db_for_write(Usage, instance=self)
    _write(row, database)
    stored = rows_of(self, database).filter(pk=row.pk)
    return retry(database, stored.get) if row.response_id else row


arecord_usage = async_change(record_usage)
"""Async version of ``record_usage``."""


def connect_receiver() -> None:
    """Write a row after each call of a model in a conversation."""
    model_called.connect(_record_call, sender=Conversation, dispatch_uid="chatmemory.contrib.usage")


_CALL = ("operation", "position", "status", "seconds", "first_delta_seconds", "estimated_tokens")


def _record_call(
    conversation: Conversation | None, usage: Reported | None, model: str, provider: str, **call: Any
) -> None:
    if conversation is None:
        return
    database = router.db_for_write(Usage, instance=conversation)
    reported = Reported() if usage is None else usage
    owner: Any = conversation.owner_id
    if call["position"] is None:  # nothing was stored: it may have been erased or anonymised during the call
        owners = Conversation.objects.using(database).filter(pk=conversation.pk).values_list("owner_id")
        found = retry(database, owners.first)
        owner = found and found[0]
        if found != (conversation.owner_id,):
            reported = replace(reported, response_id="")  # which would lead to the text at the provider
    # The name that was asked for: providers name a model more precisely, and by another date every few months.
    reported = replace(reported, model=model, provider=reported.provider or provider)
    fields = {name: call[name] for name in _CALL}
    _write(_new_row(reported, conversation_id=conversation.pk, owner_id=owner, **fields), database)


def _new_row(reported: Reported, **fields: Any) -> Usage:
    now = timezone.now()
    cost = cost_of(reported, at=now)
    money: dict[str, Any] = {} if cost is None else {"cost": cost.amount, "currency": cost.currency}
    row = Usage(
        model=_storable(reported.model, LONGEST_NAME),
        provider=_storable(reported.provider, LONGEST_PROVIDER),
        tier=_storable(reported.tier, LONGEST_TIER),
        details=dict(reported.details),
        response_id=_storable(reported.response_id, LONGEST_NAME),
        created_at=now,
        **money,
        **reported.to_data(),
        **fields,
    )
    if row.response_id:
        row.pk = _key(row)
    return row


def cost_now(row: Usage) -> Cost | None:
    """Return the cost of the call of a row, by the prices that are known now for the time of the call."""
    names = (*TOKENS, "tier", "details", "model", "provider")
    return cost_of(Reported(**{name: getattr(row, name) for name in names}), at=row.created_at)


def _write(row: Usage, database: str) -> None:
    """Insert a row, unless it is there."""
    connection = connections[database]
    values = [
        field.get_db_prep_save(field.pre_save(row, True), connection=connection)
        for field in Usage._meta.concrete_fields
    ]

    def insert() -> None:
        with connection.cursor() as cursor:
            cursor.execute(_insertion(database), values)

    retry(database, insert)


@cache
def _insertion(database: str) -> str:
    """Return the SQL that inserts a row. To compile it for each row would take Django longer than all the rest."""
    query = InsertQuery(Usage, on_conflict=OnConflict.IGNORE)
    query.insert_values(Usage._meta.concrete_fields, [Usage()], raw=True)
    [(sql, _values)] = query.get_compiler(using=database).as_sql()
    return str(sql)


def _key(row: Usage) -> UUID:
    """Return the primary key of a call with a response's ID, so that its row is not inserted twice.

    The counts are part of it, because some servers (Ollama) have only a thousand IDs.
    """
    told = (row.conversation_id, row.response_id, row.input_tokens, row.output_tokens)
    return UUID(bytes=sha256("\0".join(map(str, told)).encode()).digest()[:16], version=5)


def _storable(text: str, most: int) -> str:
    replaced: str = with_replacements(text)
    return replaced[:most]
