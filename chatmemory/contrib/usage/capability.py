"""The capability of this app: what other parts of chatmemory do with its rows.

Every process of the project imports this module when it starts, so it imports the others when they are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatmemory.capabilities import AdminPage, Capability, MessageField
from chatmemory.contrib.usage.models import CostField, Operation, Status, Usage, rows_of
from chatmemory.contrib.usage.recording import cost_now
from chatmemory.contrib.usage.sums import total
from chatmemory.core.usage import TOKENS
from chatmemory.database.connections import retry
from chatmemory.database.reading import chunks, in_parts, pages
from chatmemory.models import Conversation
from chatmemory.verification import Finding

if TYPE_CHECKING:
    from django.urls import URLPattern

    from chatmemory.transfer.export import Line

_TEXTS = ("model", "provider", "operation", "status", "tier", "response_id", "currency")
_CHOICES = {"operation": Operation.values, "status": Status.values}
_LONGEST: dict[str, int] = {name: getattr(Usage._meta.get_field(name), "max_length", 0) for name in _TEXTS}
_SECONDS = ("first_delta_seconds", "seconds")
_COUNTS = (*TOKENS, "estimated_tokens")


class UsageCapability(Capability):
    """Rows have no text. They stay when messages and conversations are erased: what was paid stays true."""

    def anonymise(self, conversation: Conversation) -> None:
        # At the provider, its ID may lead to the text of the response.
        rows_of(conversation).update(response_id="")

    def erased(self, conversation: Conversation, positions: Collection[int]) -> None:
        # Titles, summaries and calls without an answer have no position: they may be made from these messages.
        rows = rows_of(conversation).exclude(response_id="")
        for some in chunks(list(positions)):
            rows.filter(Q(position__in=some) | Q(position__isnull=True)).update(response_id="")

    def export_user(self, user: Any, database: str) -> Iterable[dict[str, Any]]:
        rows = Usage.objects.using(database).filter(owner=user).exclude(conversation__owner=user)
        for row in in_parts(rows):
            yield {"conversation": row.conversation_id, **_record(row)}

    def erase_user(self, user: Any, database: str, *, how: str) -> None:
        rows = Usage.objects.using(database).filter(owner=user)
        if how == "erase":
            rows.delete()
        else:
            rows.update(owner=None, response_id="")

    def export(self, conversation: Conversation) -> Iterable[dict[str, Any]]:
        for row in in_parts(rows_of(conversation)):
            by_owner = row.owner_id is not None and row.owner_id == conversation.owner_id
            yield {**_record(row), "by_owner": by_owner}

    def restore(self, conversation: Conversation, line: Line) -> Callable[[], object]:
        row = Usage(conversation=conversation, **_fields(conversation, line))
        # Another user of the same name, in another database, may be another person.
        row.owner_id = conversation.owner_id if line.flag("by_owner") else None
        database = conversation._state.db or "default"
        if Usage.objects.using(database).filter(pk=row.pk).exclude(conversation=conversation).exists():
            raise line.bad(f"id: {row.pk} belongs to another conversation")

        def write() -> None:
            rows_of(conversation).filter(pk=row.pk).delete()  # the conversation was erased, and its rows stayed
            row.save(using=database, force_insert=True)

        return write

    def verify(self, conversations: QuerySet[Conversation], *, repair: bool) -> Iterable[Finding]:
        database = conversations.db
        for page in pages(conversations):
            memory_ids = {conversation.pk: conversation.memory_id for conversation in page}
            rows = Usage.objects.using(database).filter(conversation__in=page)
            yield from _wrong_costs(rows, memory_ids, repair)

    def routes(self) -> Sequence[URLPattern]:
        from chatmemory.contrib.usage.rest import routes

        return routes

    def message_fields(self) -> Sequence[MessageField]:
        from chatmemory.contrib.usage.rest import message_field

        return [message_field()]

    def admin_notes(
        self, model_admin: Any, request: HttpRequest, conversation: Conversation, positions: Collection[int]
    ) -> Mapping[int, str]:
        from chatmemory.contrib.usage.admin import notes

        return notes(rows_of(conversation).filter(position__in=positions))

    def admin_pages(self) -> Sequence[AdminPage]:
        from chatmemory.contrib.usage.admin import usage_page

        return [AdminPage(name="usage", label=gettext_lazy("Usage"), view=usage_page)]

    def cache_read_share(self, conversation: Conversation) -> float | None:
        calls = rows_of(conversation).filter(operation=Operation.CHAT, position__isnull=False)
        return total(calls.filter(cache_read_tokens__isnull=False)).cached_share

    def chat_scripts(self) -> Sequence[str]:
        return ["chatmemory_usage/usage.css", "chatmemory_usage/usage.js"]

    def chat_texts(self) -> Mapping[str, Any]:
        return {"usage-seconds": _("%(seconds)s s"), "usage-tokens": _("%(input)s + %(output)s tokens")}


def _record(row: Usage) -> dict[str, Any]:
    return {
        "id": row.pk,
        "position": row.position,
        **{name: getattr(row, name) for name in (*_TEXTS, *_COUNTS, *_SECONDS)},
        # PostgreSQL returns the keys of objects in an order of its own.
        "details": dict(sorted(row.details.items())),
        "cost": None if row.cost is None else f"{row.cost:f}",
        "created_at": row.created_at.isoformat(),
    }


def _fields(conversation: Conversation, line: Line) -> dict[str, Any]:
    """Return the fields of the row in a line of an export.

    Raises:
        BadRecordError: a field is missing or invalid.
    """
    fields: dict[str, Any] = {"id": _id(line), "position": line.number("position", null=True)}
    for name in _TEXTS:
        text, most = line.text(name), _LONGEST[name]
        if len(text) > most:
            raise line.bad(f"{name}: expected at most {most} characters, got {len(text)}")
        if name in _CHOICES and text not in _CHOICES[name]:
            raise line.bad(f"{name}: expected one of {', '.join(_CHOICES[name])}, got {text!r}")
        fields[name] = text
    for name in _COUNTS:
        fields[name] = line.number(name, null=True)
        if fields[name] is not None and not 0 <= fields[name] < 2**31:
            raise line.bad(f"{name}: expected a number from 0 to {2**31 - 1}, got {str(fields[name])[:100]}")
    position = fields["position"]
    if position is not None and not 0 <= position < conversation.next_position:
        raise line.bad(f"position: expected one of this conversation, got {str(position)[:100]}")
    for name in _SECONDS:
        fields[name] = line.take(name, float, "a number", null=True)
    fields["details"] = line.take("details", dict, "an object")
    if not all(isinstance(number, int) for number in fields["details"].values()):
        raise line.bad("details: expected an object of numbers")
    fields["cost"] = _cost(line)
    fields["created_at"] = line.moment("created_at")
    return fields


def _id(line: Line) -> UUID:
    text = line.text("id")
    try:
        return UUID(text)
    except ValueError:
        raise line.bad(f"id: expected a UUID, got {text[:100]!r}") from None


def _cost(line: Line) -> Decimal | None:
    text = line.text("cost", null=True)
    if text is None:
        return None
    try:
        cost = Decimal(text)
        stored = CostField().get_prep_value(cost)
    except (InvalidOperation, ValueError, OverflowError):  # no number, or an infinite one
        stored = None
    if stored is None or not 0 <= stored < 2**63:
        raise line.bad(f"cost: expected an amount such as 0.0125, got {text[:100]!r}")
    return cost


def _wrong_costs(rows: QuerySet[Usage], memory_ids: Mapping[Any, str], repair: bool) -> Iterator[Finding]:
    """Yield the rows whose cost is not that of their tokens, by the prices that are known now for their time."""
    for row in in_parts(rows):
        cost = cost_now(row)
        if cost is None or (_stored(cost.amount), cost.currency) == (_stored(row.cost), row.currency):
            continue
        finding = Finding(
            conversation=UUID(str(row.conversation_id)),
            memory_id=memory_ids[row.conversation_id],
            what=f"cost of usage {row.pk}",
            expected=f"{cost.amount.normalize():f} {cost.currency}",
            found="none" if row.cost is None else f"{row.cost.normalize():f} {row.currency}",
        )
        if repair:
            same = Usage.objects.using(rows.db).filter(conversation=row.conversation_id, pk=row.pk)
            retry(rows.db, partial(same.update, cost=cost.amount, currency=cost.currency))
        yield replace(finding, repaired=repair)


def _stored(amount: Decimal | None) -> int | None:
    return CostField().get_prep_value(amount)
