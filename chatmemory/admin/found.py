"""The messages of conversations that a search found: how many they are, and what two of them say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connections
from django.db.models import Case, IntegerField, Q, QuerySet, Value, When
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext

from chatmemory.admin.display.gauge import grouped
from chatmemory.admin.display.passages import passage, with_passages
from chatmemory.models import Conversation, Message

__all__ = ["Found", "FoundMessage", "found_in"]

_MOST_COUNTED = 10
_MOST_SHOWN = 2
_CONVERSATIONS_AT_ONCE = 200  # SQLite joins 500 queries at most


@dataclass(frozen=True, kw_only=True)
class FoundMessage:
    """A message that has a word of the search."""

    position: int

    passage: SafeString


@dataclass(frozen=True, kw_only=True)
class Found:
    """The messages of one conversation that have a word of the search."""

    count: int

    messages: list[FoundMessage]
    """Some of them: of those with most of the words, the newest."""

    @property
    def words(self) -> str:
        """Their number in words. They are counted only as far as somebody would read them."""
        if self.count > _MOST_COUNTED:
            return gettext("more than %(count)s messages match") % {"count": grouped(_MOST_COUNTED)}
        words = ngettext("%(count)s message matches", "%(count)s messages match", self.count)
        return words % {"count": grouped(self.count)}


def found_in(conversations: Sequence[Conversation], wanted: Sequence[str], database: str) -> dict[Any, Found]:
    """Return what was found in conversations, by their primary keys; those without a match are missing.

    Args:
        conversations: those of a page.
        wanted: the words that were searched for.
        database: the alias of their database.
    """
    counts: dict[Any, int] = {}
    chosen: list[Any] = []
    for start in range(0, len(conversations), _CONVERSATIONS_AT_ONCE):
        part = conversations[start : start + _CONVERSATIONS_AT_ONCE]
        for conversation, hits in _newest(part, wanted, database).items():
            counts[conversation] = len(hits)
            chosen += [key for _words, key in sorted(hits, key=lambda hit: -hit[0])[:_MOST_SHOWN]]
    shown: defaultdict[Any, list[FoundMessage]] = defaultdict(list)
    rows = with_passages(Message.objects.using(database).filter(pk__in=chosen), wanted)
    for row in sorted(rows, key=lambda row: chosen.index(row.pk)):
        said = passage(row, wanted)
        if said is not None:
            shown[row.conversation_id].append(FoundMessage(position=row.position, passage=said))
    return {key: Found(count=count, messages=shown[key]) for key, count in counts.items()}


def _newest(
    conversations: Sequence[Conversation], wanted: Sequence[str], database: str
) -> dict[Any, list[tuple[int, Any]]]:
    """Return, by conversation, how many of the words its newest matches have, and their keys.

    One statement, in which the search of each conversation ends as soon as it has found enough.
    """
    queries = [
        _matches(conversation, number, wanted, database).query.get_compiler(using=database).as_sql()
        for number, conversation in enumerate(conversations)
    ]
    if not queries:
        return {}
    # Not union(): on SQLite it takes no queries with a limit.
    joined = " UNION ALL ".join(f"SELECT * FROM ({sql}) found_{number}" for number, (sql, _) in enumerate(queries))
    hits: defaultdict[Any, list[tuple[int, Any]]] = defaultdict(list)
    with connections[database].cursor() as cursor:
        cursor.execute(joined, [value for _sql, values in queries for value in values])
        for key, _position, number, words in sorted(cursor.fetchall(), key=lambda row: row[1], reverse=True):
            hits[conversations[number].pk].append((words, key))
    return hits


def _matches(
    conversation: Conversation, number: int, wanted: Sequence[str], database: str
) -> QuerySet[Message, tuple[Any, ...]]:
    said: list[Any] = [Q(text__icontains=word) for word in wanted]
    words = sum((Case(When(word, then=1), default=0, output_field=IntegerField()) for word in said), start=Value(0))
    rows = Message.objects.using(database).filter(Q.create(said, connector=Q.OR), conversation=conversation)
    return (
        rows.annotate(number=Value(number, IntegerField()), words=words)
        .order_by("-position")
        .values_list("pk", "position", "number", "words")[: _MOST_COUNTED + 1]
    )
