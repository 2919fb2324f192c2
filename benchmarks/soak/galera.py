"""Writers on all nodes of a Galera cluster, in the same conversations; then nodes are frozen, killed, and come back.

In the end the same must be on every node, and all of what was acknowledged, once. Half of the rounds set
``wsrep_sync_wait``, by which a node applies what the others have acknowledged before it reads.
"""

from __future__ import annotations

import copy
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.soak.crew import Crew, configure, is_quick
from benchmarks.soak.galera_cluster import GaleraNode, new_cluster
from benchmarks.soak.galera_traffic import PATIENCE, Traffic
from benchmarks.soak.rounds import Round, errors_in, repeat

if TYPE_CHECKING:
    from chatmemory.models import Conversation

__all__ = ["run"]

_CONVERSATIONS = 2
_WAITING = "SET SESSION wsrep_sync_wait = 1"
_CONFLICTS = {
    "conflicts found in applying": "wsrep_local_bf_aborts",
    "conflicts found in certifying": "wsrep_local_cert_failures",
}
_CAME_BACK = {True: "came back from what they had", False: "came back with a full copy"}


def run(folder: Path, minutes: float) -> dict[str, Any]:
    """Run rounds of two conversations, until there were six kills at least, and conflicts."""
    place = folder / "database"
    place.mkdir()
    least = {"nodes killed": 1 if is_quick() else 6, "conflicts found in applying": 1}
    with new_cluster(place) as nodes, _configured(nodes):
        figures = repeat(folder, minutes, least, lambda this: _round(this, nodes))
        return figures | _count_stale_reads(100 if is_quick() else 500)


@contextmanager
def _configured(nodes: Sequence[GaleraNode]) -> Iterator[None]:
    """Make all nodes databases of this process: the first one as default, all by their own names."""
    from django.db import connections

    waiting = {node.name: _database(node, waits=True) for node in nodes}
    configure({"default": _database(nodes[0], waits=True), **waiting, "hasty": _database(nodes[-1], waits=False)})
    try:
        yield
    finally:
        connections.close_all()


def _database(node: GaleraNode, *, waits: bool) -> dict[str, Any]:
    given = node.database()
    return given | {"OPTIONS": given["OPTIONS"] | ({"init_command": _WAITING} if waits else {})}


def _round(this: Round, nodes: Sequence[GaleraNode]) -> dict[str, Any]:
    from django.db import connections

    chance = random.Random(this.seed)
    conversations = [this.conversation() for _ in range(_CONVERSATIONS)]
    before = [copy.copy(conversation) for conversation in conversations]
    waits = this.number % 4 >= 2  # for two rounds, for the windows take turns too
    databases = [{"default": _database(node, waits=waits)} for node in nodes]
    crews = [Crew(this.folder / f"conversation-{number}", this.seed) for number in range(_CONVERSATIONS)]
    traffic = Traffic(conversations, crews, databases)
    with crews[0], crews[1]:
        watchers = traffic.start_one_in_each("watch", 1, chance)
        figures = _work_undisturbed(traffic, nodes, chance)
        connections.close_all()  # or it would be the own ones that fail
        insisting = traffic.start("insist", 1_000_000)
        traffic.wait_for_answers("insist", range(len(nodes)))
        time.sleep(chance.uniform(0, 1))
        figures += _freeze_most(traffic, nodes, chance)
        figures += _kill_one(traffic, nodes, chance, knows_its_position=this.number % 2 == 0)
        traffic.stop([*insisting, *watchers])
    errors: Counter[str] = Counter()
    for crew, conversation, start in zip(crews, conversations, before, strict=True):
        found, failed = _check(crew, conversation, start, nodes)
        figures += found
        errors += failed
    return {**figures, "errors": dict(errors)}


def _work_undisturbed(traffic: Traffic, nodes: Sequence[GaleraNode], chance: random.Random) -> Counter[str]:
    """Run two writers per conversation and node, and one that rewrites, clears and changes the window on one node."""
    each = 10 if is_quick() else 60
    before = _conflicts(nodes)
    writers = [*traffic.start("add", each), *traffic.start("insist", each, "keyed")]
    traffic.finish([*writers, *traffic.start_one_in_each("meddle", each // 2, chance)])
    return _conflicts(nodes) - before


def _freeze_most(traffic: Traffic, nodes: Sequence[GaleraNode], chance: random.Random) -> Counter[str]:
    """Freeze so many nodes that the others must refuse to work, until they do."""
    frozen = chance.sample(nodes, len(nodes) // 2 + 1)
    for node in frozen:
        node.freeze()
    begun = time.monotonic()
    while any(node.status("wsrep_ready") == "ON" for node in nodes if node not in frozen):
        assert time.monotonic() < begun + PATIENCE, "the smaller part of a cluster works on"
        time.sleep(0.1)
    for node in frozen:
        node.thaw()
    for node in nodes:
        node.wait()
    traffic.wait_for_answers("insist", range(len(nodes)))
    return Counter({"times most nodes were frozen": 1})


def _kill_one(
    traffic: Traffic, nodes: Sequence[GaleraNode], chance: random.Random, *, knows_its_position: bool
) -> Counter[str]:
    """Kill a node: the others must answer meanwhile, and all of them when it is back."""
    killed = chance.randrange(len(nodes))
    nodes[killed].kill()
    traffic.wait_for_answers("insist", [number for number in range(len(nodes)) if number != killed])
    nodes[killed].rejoin(knows_its_position=knows_its_position)
    traffic.wait_for_answers("insist", range(len(nodes)))
    return Counter({"nodes killed": 1, _CAME_BACK[knows_its_position]: 1})


def _conflicts(nodes: Sequence[GaleraNode]) -> Counter[str]:
    return Counter({name: sum(int(node.status(status)) for node in nodes) for name, status in _CONFLICTS.items()})


def _check(
    crew: Crew, conversation: Conversation, start: Conversation, nodes: Sequence[GaleraNode]
) -> tuple[Counter[str], Counter[str]]:
    """Check a conversation on every node, and return the figures, and the errors of writers and watchers."""
    from tests.support.traffic_check import check_history, check_order, read_logs

    logs = read_logs(crew.folder)
    rows = []
    for node in nodes:
        there = type(conversation).objects.using(node.name).get(pk=conversation.pk)
        acknowledged = check_history(there, logs)
        compared = check_order(there, start, logs)
        rows.append((vars(there) | {"_state": None}, list(there.messages.order_by("pk").values_list())))
        assert rows[-1] == rows[0], f"{node.name} has other rows than {nodes[0].name}"
    figures = {"acknowledged": acknowledged, "snapshots compared": compared, "rows compared": len(rows[0][1])}
    return Counter(figures), Counter(errors_in(logs))


def _count_stale_reads(count: int) -> dict[str, int]:
    """Add on one node, and read at once on another one."""
    from chatmemory import UserMessage
    from chatmemory.models import Conversation
    from tests.support.factories import ConversationFactory

    conversation: Conversation = ConversationFactory(window="messages", limit=7)  # type: ignore[no-untyped-call,assignment]
    stale = {"hasty": 0, "node3": 0}
    for database in stale:
        elsewhere = Conversation.objects.using(database).get(pk=conversation.pk)
        for number in range(count):
            text = f"{database} {number}"
            conversation.memory.add(UserMessage(text))
            stale[database] += elsewhere.memory.messages()[-1] != UserMessage(text)
    assert not stale["node3"], f"{stale['node3']} of {count} reads were stale in spite of wsrep_sync_wait"
    return {"reads on another node": count, "of these stale without wsrep_sync_wait": stale["hasty"]}
