"""The command ``python -m benchmarks.worst_requests``."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from random import Random
from typing import Any

from benchmarks.worst_requests.contents import batch
from benchmarks.worst_requests.requests import Asked, Site, filling, random_request, warm_up
from benchmarks.worst_requests.worker import Cost, running_worker

_WORST = 10


def main() -> None:
    """Run the search, and print the worst requests."""
    given = _options()
    os.environ["CHATMEMORY_BENCHMARK_ENGINE"] = given.engine
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.settings"
    import django

    django.setup()
    from benchmarks.places import new_place

    with new_place(given.engine) as place:
        site, cookie = _signed_in()
        with running_worker(place, cookie, warm_up(site)) as worker:
            costs: list[Cost] = []

            def ask(asked: Asked) -> tuple[int, Any]:
                cost, answer = worker.measure(asked)
                costs.append(cost)
                if given.verbose:
                    sys.stderr.write(f"{cost.cpu:7.2f} s {cost.memory:6.0f} MB {cost.status} {asked.name}\n")
                return cost.status, json.loads(answer) if answer[:1] == b"{" and len(answer) < 1_000_000 else None

            random = Random(given.seed)
            filling(random, given.additions, ask, site)
            for _ in range(given.requests):
                ask(random_request(random, site))
    sys.stdout.write(_table(costs, _seconds_per_megabyte()))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.worst_requests", description="Look for the requests that cost a worker most."
    )
    parser.add_argument("--seed", type=int, default=1, help="the same seed makes the same requests (default: 1)")
    parser.add_argument("--requests", type=int, default=300, help="requests after the filling (default: 300)")
    parser.add_argument("--additions", type=int, default=8, help="additions to each conversation (default: 8)")
    parser.add_argument("--engine", choices=["sqlite", "postgres", "mariadb"], default="sqlite", help="the database")
    parser.add_argument("--verbose", action="store_true", help="print each request when it is answered")
    return parser.parse_args()


def _signed_in() -> tuple[Site, str]:
    """Return the site, and the cookie of a user who may do everything."""
    from django.conf import settings
    from django.contrib.auth import get_user_model
    from django.test import Client

    from chatmemory.models import Conversation

    user = get_user_model()._default_manager.create_superuser("ann")  # type: ignore[attr-defined]
    client = Client()
    client.force_login(user)
    small = Conversation.objects.create(owner=user)
    return Site(
        user=user, small=str(small.pk)
    ), f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"


def _seconds_per_megabyte() -> float:
    """Return the seconds in which this machine parses and writes a megabyte of messages as JSON."""
    whole = json.dumps(batch(Random(1), "attributes") * 2)
    start = time.process_time()
    for _ in range(10):
        json.dumps(json.loads(whole))
    return (time.process_time() - start) / 10 / (len(whole) / 1e6)


def _table(costs: Sequence[Cost], per_megabyte: float) -> str:
    """Return the worst requests by time and by memory as Markdown.

    Args:
        costs: the costs of all requests.
        per_megabyte: the seconds in which this machine parses and writes a megabyte of JSON.
    """
    lines = [f"{len(costs)} requests. JSON takes {per_megabyte:.3f} s/MB here.\n"]
    for title, key in (("time", lambda cost: cost.cpu), ("memory", lambda cost: cost.memory)):
        lines += [
            f"\nThe worst by {title}:\n",
            "| CPU s | peak MB | over JSON | in MB | out MB | status | request |",
            "| --- | --- | --- | --- | --- | --- | --- |",
        ]
        for cost in sorted(costs, key=key, reverse=True)[:_WORST]:
            sent, got = len(cost.asked.body) / 1e6, cost.answer_bytes / 1e6
            ratio = cost.cpu / (0.02 + per_megabyte * (sent + got))
            lines.append(
                f"| {cost.cpu:.2f} | {cost.memory:.0f} | {ratio:.1f} | {sent:.2f} | {got:.2f} | {cost.status} "
                f"| {cost.asked.name} |"
            )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
