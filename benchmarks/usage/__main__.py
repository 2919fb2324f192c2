"""The command ``python -m benchmarks.usage cpu | sums | kills``. Each prints a line of JSON for each figure.

``cpu`` compares turns of projects with and without the app, ``sums`` adds up a table of many calls, and ``kills`` lets
processes take turns and kills them. The engine is that of ``CHATMEMORY_BENCHMARK_ENGINE`` and the database that of
``CHATMEMORY_BENCHMARK_DATABASE``, which must be empty and is not dropped; by default a file of SQLite.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

_MODELS = ("gpt-5", "gpt-5-mini", "claude-sonnet-4-5", "gemini-2.5-flash")


def tell(**figures: Any) -> None:
    """Print figures."""
    print(json.dumps(figures), flush=True)  # noqa: T201


def set_up(*, usage: bool = True) -> None:
    """Make the tables."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.usage.settings"
    os.environ["CHATMEMORY_BENCHMARK_USAGE"] = str(int(usage))
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)


def make_assistant(new_id: Callable[[], object], **options: Any) -> Any:
    """Return an assistant whose model answers at once. Its responses have the IDs that ``new_id`` returns."""
    from chatmemory import AiMessage
    from chatmemory.assistant import Answered, Assistant, ChatModel, Usage

    class Model(ChatModel):
        name, provider = "gpt-5", "openai"

        def chat(self, messages: Any, tools: Any) -> Answered:
            id = new_id()
            usage = Usage(
                **{"input_tokens": 1000, "output_tokens": 100, "cache_read_tokens": 400, "reasoning_tokens": 20},
                response_id=f"r{id}",
            )
            return Answered(AiMessage(f"Answer {id}"), usage)

    return Assistant(Model(), **options)


def cpu(turns: int) -> None:
    """Tell the milliseconds of CPU of a turn. A process with the app and one without it take turns by turns."""
    programs = {
        name: subprocess.Popen(
            [sys.executable, "-m", "benchmarks.usage", "turns-of", name, str(turns)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "CHATMEMORY_BENCHMARK_DATABASE": f"{os.environ[_DATABASE]}-{name}"},
        )
        for name in ("with", "without")
    }
    times: dict[str, list[float]] = {name: [] for name in programs}
    for turn in range(turns):
        for name in random.Random(turn).sample(sorted(programs), 2):
            program = programs[name]
            assert program.stdin is not None
            assert program.stdout is not None
            program.stdin.write("\n")
            program.stdin.flush()
            times[name].append(float(program.stdout.readline()))
    for program in programs.values():
        program.communicate()
    for what, at in {"lowest tenth": 0, "median": 4}.items():  # on a busy machine, the first is less disturbed
        found = {name: statistics.quantiles(those[turns // 10 :], n=10)[at] for name, those in times.items()}
        tell(what=f"CPU ms of a turn, {what}", **found, more=found["with"] - found["without"])


def turns_of(name: str, turns: int) -> None:
    """Take a turn for each line of the input, and print its milliseconds of CPU."""
    set_up(usage=name == "with")
    from chatmemory.models import Conversation

    numbers = iter(range(turns + 1))
    assistant = make_assistant(lambda: next(numbers))
    conversation = Conversation.objects.create()
    for _line in sys.stdin:
        begun = time.process_time()
        assistant.chat(conversation, "Hello")
        print(1000 * (time.process_time() - begun), flush=True)  # noqa: T201


def fill(rows: int, days: int) -> None:
    """Insert random calls of so many days."""
    from django.db import connection

    from chatmemory.contrib.usage.models import Operation, Usage

    rng = random.Random(1)
    end = datetime(2026, 11, 28, 23, tzinfo=UTC)

    def calls(count: int) -> Iterator[Usage]:
        for _ in range(count):
            yield Usage(
                owner_id=rng.randrange(1, 10_000),
                model=rng.choice(_MODELS),
                provider="openai",
                operation=rng.choice(Operation.values),
                input_tokens=rng.randrange(10_000),
                output_tokens=rng.randrange(1000),
                cache_read_tokens=rng.randrange(1000),
                cost=Decimal(rng.randrange(10**10)).scaleb(-12),
                currency="USD",
                created_at=end - timedelta(minutes=rng.randrange(days * 1440)),
            )

    sample = 10_000
    Usage.objects.bulk_create(calls(sample), batch_size=1000)
    # Copies with other keys and owners: a database makes them faster than Django.
    columns = [field.column for field in Usage._meta.concrete_fields]
    others = {
        "sqlite": {"id": "lower(hex(randomblob(16)))", "owner_id": "1 + abs(random()) % 9999"},
        "postgresql": {"id": "gen_random_uuid()", "owner_id": "1 + (random() * 9998)::int"},
    }[connection.vendor]
    table = Usage._meta.db_table
    chosen = ", ".join(others.get(column, f'"{column}"') for column in columns)
    names = ", ".join(f'"{column}"' for column in columns)
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TEMPORARY TABLE sample AS SELECT * FROM {table}")
        for _ in range(rows // sample - 1):
            cursor.execute(f"INSERT INTO {table} ({names}) SELECT {chosen} FROM sample")


def sums(rows: int) -> None:
    """Tell the milliseconds of sums over a table of a year, for the last 30 days, one user, and all of it."""
    set_up()
    from django.db import connection

    from chatmemory.contrib.usage import sums as adding
    from chatmemory.contrib.usage.models import Usage

    fill(rows, 365)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE" if connection.vendor == "sqlite" else "VACUUM ANALYZE chatmemory_usage_usage")
    last = Usage.objects.latest("day").day
    chosen = {
        "30 days": Usage.objects.filter(day__range=(last - timedelta(days=29), last)),
        "one user": Usage.objects.filter(owner=77),
        "all": Usage.objects.all(),
    }
    for name, found in chosen.items():
        for group in ("day", "model", "operation", "owner"):
            times = []
            for _ in range(5):
                begun = time.perf_counter()
                groups = adding.sums(found, group)
                times.append(1000 * (time.perf_counter() - begun))
            tell(
                what="ms of sums",
                rows=name,
                group=group,
                calls=sum(one.calls for one in groups),
                groups=len(groups),
                median=round(statistics.median(times)),
            )


def kills(turns: int, every: float) -> None:
    """Kill processes while they take turns, and tell how many calls have no row, or more than one."""
    set_up()
    from chatmemory.contrib.usage.models import Usage
    from chatmemory.models import Conversation

    conversation = Conversation.objects.create()
    rng = random.Random(1)
    called: set[str] = set()
    ended: set[str] = set()
    done = killed = 0
    while done < turns:
        arguments = ["take", str(conversation.pk), str(done), str(turns)]
        worker = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.usage", *arguments], stdout=subprocess.PIPE, text=True
        )
        assert worker.stdout is not None
        until = None
        for line in worker.stdout:
            what, value = line.split()
            if what == "called":
                called.add(value)
            elif what == "ended":
                ended.add(value)
            else:
                done = int(value)
            until = until or time.monotonic() + rng.uniform(0, 2 * every)
            if time.monotonic() > until and worker.poll() is None:
                worker.send_signal(signal.SIGKILL)
                killed += 1
                until = float("inf")
        worker.wait()
    rows = Counter(Usage.objects.values_list("response_id", flat=True))
    tell(
        what="turns with kills",
        turns=done,
        kills=killed,
        calls=len(called),
        counted_twice=sum(count > 1 for count in rows.values()),
        ended_without_row=len(ended - rows.keys()),
        killed_without_row=len(called - ended - rows.keys()),
        not_called=len(rows.keys() - called),
    )


def take(conversation: str, first: str, turns: str) -> None:
    """Take turns from the one with number ``first`` on, each twice, and tell each call."""
    set_up()
    from chatmemory.models import Conversation

    found = Conversation.objects.get(pk=conversation)
    made: list[str] = []

    def new_id() -> str:
        made.append(f"{os.getpid()}-{len(made)}")
        print("called", f"r{made[-1]}", flush=True)  # noqa: T201
        return made[-1]

    assistant = make_assistant(new_id, turn_timeout=2)
    for turn in range(int(first), int(turns)):
        for _ in range(2):  # repeated by its key
            assistant.chat(found, f"Question {turn}", idempotency_key=f"k{turn}")
        if made:
            print("ended", f"r{made[-1]}", flush=True)  # noqa: T201
        print("done", turn + 1, flush=True)  # noqa: T201


_DATABASE = "CHATMEMORY_BENCHMARK_DATABASE"


def main() -> None:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.usage", description=__doc__)
    parser.add_argument("what", choices=("cpu", "sums", "kills", "turns-of", "take"))
    parser.add_argument("rest", nargs="*", help="of cpu and kills the number of turns, of sums that of rows")
    given = parser.parse_args()
    if given.what == "turns-of":
        turns_of(given.rest[0], int(given.rest[1]))
    elif given.what == "take":
        take(*given.rest)
    else:
        number = int(given.rest[0]) if given.rest else {"cpu": 500, "sums": 1_000_000, "kills": 10_000}[given.what]
        with tempfile.TemporaryDirectory() as folder:
            os.environ.setdefault(_DATABASE, str(Path(folder) / "usage.sqlite3"))
            if given.what == "cpu":
                cpu(number)
            elif given.what == "sums":
                sums(number)
            else:
                kills(number, every=1)


if __name__ == "__main__":
    main()
