"""The command ``python -m benchmarks.search_times``."""

from __future__ import annotations

import argparse
import itertools
import os
import random
import statistics
import string
import time
from array import array
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import django
from django.core.management import call_command

from benchmarks.places import new_place
from benchmarks.publishing import publish

_VOCABULARY = 60_000
_ENGINES = ["sqlite", "postgres", "mariadb"]
_ADDITIONS = 640  # so that 20 of them index the conversation


def options() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search_times", description="Measure searches.")
    parser.add_argument("--engine", choices=_ENGINES, default="sqlite")
    parser.add_argument("--messages", type=int, default=1_000_000, help="in all conversations together")
    parser.add_argument("--conversations", type=int, default=1, help="of each owner")
    parser.add_argument("--owners", type=int, default=1)
    parser.add_argument("--searches", type=int, default=40, help="of each kind, which are timed")
    parser.add_argument("--output", type=Path, help="folder for results.json and RESULTS.md")
    return parser.parse_args()


class Texts:
    """Random texts, whose words are as frequent as those of a language."""

    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)
        letters = string.ascii_lowercase
        lengths = [self._random.randint(3, 10) for _ in range(_VOCABULARY)]
        self.words = ["".join(self._random.choices(letters, k=length)) for length in lengths]
        self._frequencies = list(itertools.accumulate(1 / (rank + 2.7) ** 1.05 for rank in range(_VOCABULARY)))

    def one(self) -> str:
        """Return a text of 5 to 110 words."""
        count = self._random.randint(5, 110)
        return " ".join(self._random.choices(self.words, cum_weights=self._frequencies, k=count))

    def queries(self) -> dict[str, Callable[[], str]]:
        """Return functions of random queries: of rare words, of common words, and of both."""

        def of(*parts: tuple[int, int, int]) -> Callable[[], str]:
            return lambda: " ".join(
                word for first, end, count in parts for word in self._random.sample(self.words[first:end], count)
            )

        return {"rare": of((3000, 40_000, 4)), "common": of((0, 100, 5)), "mixed": of((0, 300, 4), (2000, 40_000, 3))}


def fill(owner: Any, conversations: int, messages: int, texts: Texts) -> None:
    """Write conversations of an owner, each with the same number of messages, of which the memory has ten."""
    from django.utils import timezone

    from chatmemory.models import Conversation, Message

    each = messages // conversations
    start = timezone.now() - timedelta(days=100)
    for _ in range(conversations):
        conversation = Conversation.objects.create(owner=owner, window="messages", limit=10)
        for some in _parts(range(each), 5000):
            rows = [
                Message(
                    conversation=conversation,
                    position=position,
                    type="AI" if position % 2 else "USER",
                    text=texts.one(),
                    token_count=80,
                    memory_order=position * 2**32,
                    added_in=position + 1,
                    created_at=start + timedelta(seconds=position),
                    **(
                        {"evicted_in": position + 11, "evicted_at": start, "eviction_reason": "window"}
                        if position < each - 10
                        else {}
                    ),
                )
                for position in some
            ]
            Message.objects.bulk_create(rows, batch_size=500)
        Conversation.objects.filter(pk=conversation.pk).update(
            next_position=each, message_count=each, retained_count=10, retained_tokens=800, version=each
        )


def copy(original: Any, owner: Any) -> None:
    """Copy the conversations of an owner for another one, with their index."""
    from django.db import transaction

    from chatmemory.contrib.search.models import Page, Progress, Segment
    from chatmemory.contrib.search.postings import bytes_of
    from chatmemory.contrib.search.segments import keys_of
    from chatmemory.models import Conversation, Message

    for conversation in Conversation.objects.filter(owner=original):
        rows = {model: [*model.objects.filter(conversation=conversation)] for model in (Segment, Progress)}
        source = conversation.pk
        pages = Page.objects.order_by("pk").values_list("pk", flat=True)
        old = [*pages.filter(conversation=source)]
        conversation.pk = Conversation._meta.pk.get_default()
        conversation.memory_id = str(conversation.pk)
        conversation.owner = owner
        with transaction.atomic():
            conversation.save(force_insert=True)
            for model in (Message, Page):
                _copy_rows(model, source, conversation.pk)
            new = dict(zip(old, pages.filter(conversation=conversation), strict=True))
            for row in itertools.chain(*rows.values()):
                row.pk = None
                row.conversation = conversation
                if isinstance(row, Segment):
                    row.pages = bytes_of(array("q", [new[key] for key in keys_of(row)]))
                row.save(force_insert=True)


def _copy_rows(model: Any, source: Any, target: Any) -> None:
    from django.db import connection

    fields = [field for field in model._meta.concrete_fields if not field.primary_key]
    columns = ", ".join(connection.ops.quote_name(field.column) for field in fields)
    key = next(field for field in fields if field.name == "conversation")
    values = columns.replace(connection.ops.quote_name(key.column), "%s", 1)
    table = connection.ops.quote_name(model._meta.db_table)
    parameters = [key.get_db_prep_value(value, connection) for value in (target, source)]
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} ({columns}) SELECT {values} FROM {table} WHERE {key.column} = %s ORDER BY id",
            parameters,
        )


def _parts(numbers: range, size: int) -> Iterator[range]:
    for first in range(0, len(numbers), size):
        yield numbers[first : first + size]


def measure_searches(texts: Texts, count: int) -> list[dict[str, Any]]:
    """Return p50 and p95 of each order and kind of query, in milliseconds, over random owners."""
    from django.contrib.auth import get_user_model

    from chatmemory.models import Conversation

    users = list(get_user_model().objects.all()[:200])
    chance = random.Random(2)
    rows = []
    for order in ("newest", "relevance"):
        for kind, query in texts.queries().items():
            times = []
            hits = 0
            for number in range(count + 3):
                scope = Conversation.objects.filter(owner=chance.choice(users))
                text = query() if order == "relevance" else " ".join(query().split()[-2:])
                start = time.perf_counter()
                hits += len(scope.search(text, order=order))  # type: ignore[attr-defined]
                if number >= 3:
                    times.append((time.perf_counter() - start) * 1000)
            p95 = statistics.quantiles(times, n=20)[-1]
            rows.append({"order": order, "query": kind, "p50": statistics.median(times), "p95": p95, "hits": hits})
    return rows


def measure_size() -> dict[str, int]:
    """Return the bytes of the texts and of the index's values, and the index's rows."""
    from django.db.models import Count, Sum
    from django.db.models.functions import Length

    from chatmemory.contrib.search.models import Page, Segment
    from chatmemory.models import Message

    pages = Page.objects.aggregate(bytes=Sum(Length("data")), rows=Count("pk"))
    columns = ("facts", "times", "tokens", "pages")
    segments = Segment.objects.aggregate(bytes=sum((Sum(Length(name)) for name in columns[1:]), Sum(Length("facts"))))
    return {
        "text": Message.objects.aggregate(bytes=Sum(Length("text")))["bytes"],
        "index": pages["bytes"] + segments["bytes"],
        "rows": pages["rows"] + Segment.objects.count(),
    }


def measure_additions(texts: Texts) -> float:
    """Return the time of additions with the index over that without it, in turns on the same machine."""
    from chatmemory import AiMessage, UserMessage
    from chatmemory.contrib.search.capability import index_new
    from chatmemory.models import Conversation
    from chatmemory.signals import messages_added

    def seconds(*, is_indexed: bool) -> float:
        conversation = Conversation.objects.create(window="messages", limit=20)
        said = [(UserMessage(texts.one()), AiMessage(texts.one())) for _ in range(_ADDITIONS // 2)]
        if is_indexed:
            messages_added.connect(index_new, sender=Conversation)
        else:
            messages_added.disconnect(index_new, sender=Conversation)
        start = time.perf_counter()
        for question, answer in said:
            conversation.memory.add(question)
            conversation.memory.add(answer)
        return time.perf_counter() - start

    messages_added.disconnect(dispatch_uid="chatmemory.contrib.search", sender=Conversation)
    seconds(is_indexed=True)
    return statistics.median(seconds(is_indexed=True) / seconds(is_indexed=False) for _ in range(7))


def markdown(results: dict[str, Any]) -> str:
    """Return the results as a page."""
    size = results["size"]
    index_time = results["index_seconds"] * results["owners"] / results["messages"]
    lines = [
        f"# Searches on {results['engine']}",
        "",
        f"{results['messages']:,} messages of {results['owners']:,} owners, {results['conversations']:,} conversations "
        "each; a search is in all conversations of one owner. All owners have the same texts.",
        "",
        "| order | query | p50, ms | p95, ms | hits in a search |",
        "| --- | --- | --- | --- | --- |",
        *(
            f"| {row['order']} | {row['query']} | {row['p50']:.1f} | {row['p95']:.1f} "
            f"| {row['hits'] / (results['searches'] + 3):.1f} |"
            for row in results["rows"]
        ),
        "",
        f"- index / text: {size['index'] / size['text']:.2f} ({size['index']:,} of {size['text']:,} bytes, "
        f"{size['rows']:,} rows)",
        f"- an addition with the index / without: {results['addition']:.2f}",
        f"- indexed in {index_time * 1e6:.0f} us for each message",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure, print and write."""
    given = options()
    os.environ["CHATMEMORY_BENCHMARK_ENGINE"] = given.engine
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.search_times.settings"
    django.setup()
    with new_place(given.engine):
        call_command("migrate", verbosity=0)
        texts = Texts()
        results: dict[str, Any] = vars(given) | {"output": None, "addition": measure_additions(texts)}
        from django.contrib.auth import get_user_model

        from chatmemory.contrib.search.indexing import index_all
        from chatmemory.models import Conversation

        Conversation.objects.all().delete()
        users = [get_user_model().objects.create(username=f"user{number}") for number in range(given.owners)]
        fill(users[0], given.conversations, given.messages // given.owners, texts)
        start = time.perf_counter()
        for conversation in Conversation.objects.all():
            index_all(conversation)
        results["index_seconds"] = time.perf_counter() - start
        results["size"] = measure_size()
        for user in users[1:]:
            copy(users[0], user)
        results["rows"] = measure_searches(texts, given.searches)
        publish(results, markdown(results), given.output)
        from django.db import connections

        connections.close_all()


if __name__ == "__main__":
    main()
