"""Nodes of Citus that are killed at random, while processes on all of them work in the same conversations."""

from __future__ import annotations

import copy
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.soak.citus.cluster import distributed, new_cluster
from benchmarks.soak.crew import Crew, Process, is_quick, tell
from benchmarks.soak.postgres import PostgresServer
from benchmarks.soak.rounds import Round, errors_in, repeat

if TYPE_CHECKING:
    from chatmemory.models import Conversation

__all__ = ["run"]

_ROLES = ["insist", "insist", "name", "key"]
"""What the processes of each node do."""

_WITHOUT_END = 1_000_000
_LONGEST_WORK, _LONGEST_PAUSE = 6.0, 3.0
"""The most seconds between two kills, and those that a killed node is away."""

_PATIENCE = 150.0
"""The seconds within which every process must go on: Citus settles two-phase commits in doubt once a minute."""

_LEAST_MINUTES = 10.0

_MEANWHILE = "answers to clients of the other nodes while one was away"
_IN_DOUBT = "two-phase commits in doubt at the end of a round"

Logs = dict[str, list[dict[str, Any]]]


def run(folder: Path, minutes: float) -> dict[str, Any]:
    """Run rounds for ten minutes at least, until each node was killed, and a worker together with the coordinator."""
    with new_cluster(folder) as nodes, distributed(nodes):
        least = dict.fromkeys(["a worker killed"] if is_quick() else [*_VICTIMS, _MEANWHILE], 1)
        minutes = minutes if is_quick() else max(minutes, _LEAST_MINUTES)
        return repeat(folder, minutes, least, lambda this: _round(this, nodes))


def _round(this: Round, nodes: Sequence[PostgresServer]) -> dict[str, Any]:
    from django.contrib.auth import get_user_model
    from django.db import connections

    from chatmemory.models import Conversation

    chance = random.Random(this.seed)
    conversation = this.conversation()
    conversation.owner = get_user_model()._default_manager.create_user(f"user{this.number}")
    conversation.save()
    before = copy.copy(Conversation.objects.get(pk=conversation.pk))
    connections.close_all()  # or it would be the own ones that fail
    kills: Counter[str] = Counter()
    with this.crew() as crew:
        processes = list(_start(crew, conversation, nodes))
        crew.wait_until_ready(processes)
        for _ in range(1 if is_quick() else 8):
            time.sleep(chance.uniform(0.5, _LONGEST_WORK))
            what = chance.choice(["a worker killed"] if is_quick() else list(_VICTIMS))
            chosen = {chance.choice(names) for names in _VICTIMS[what]}
            victims = [node for node in nodes if node.name in chosen]
            kills[_MEANWHILE] += _kill(victims, chance.uniform(0, _LONGEST_PAUSE), crew)
            kills[what] += 1
            _wait_for_progress(crew, processes)
        crew.stop()
        crew.finish(processes, timeout=_PATIENCE)
    kills[_IN_DOUBT] += _settle(nodes)
    from tests.support.traffic_check import read_logs

    logs = read_logs(crew.folder)
    figures = {**kills, **_check(conversation, before, nodes, logs)}
    return figures | {"errors": errors_in(logs)}


_WORKERS = ["worker1", "worker2"]
_VICTIMS = {
    "a worker killed": [_WORKERS],
    "the coordinator killed": [["coordinator"]],
    "a worker and the coordinator killed": [_WORKERS, ["coordinator"]],
}
"""What is killed: of each list one node."""


def _start(crew: Crew, conversation: Conversation, nodes: Sequence[PostgresServer]) -> Iterator[Process]:
    """Start the processes of each node, of which each knows another node as ``elsewhere``."""
    for place, node in enumerate(nodes):
        databases = {"default": node.database(), "elsewhere": nodes[place - 1].database()}
        for number, role in enumerate([*_ROLES, *(["watch"] if place else [])]):
            count = 1 if role == "watch" else _WITHOUT_END
            yield crew.start(role, f"{role}-{node.name}-{number}", count, conversation, databases)


def _kill(victims: Sequence[PostgresServer], pause: float, crew: Crew) -> int:
    """Kill nodes, and start them again; return how many answers clients of the others got in the pause."""
    for node in victims:
        node.kill()
    others = [log for log in _logs(crew) if not any(node.name in log.name for node in victims)]
    before = sum(map(_answers, others))
    time.sleep(pause)
    answers = sum(map(_answers, others)) - before
    for node in victims:
        node.start()
    return answers


def _wait_for_progress(crew: Crew, processes: Sequence[Process]) -> None:
    """Wait until each process that writes has two more answers, of which it has not asked for the second one yet."""
    logs = _logs(crew)
    before = {log: _answers(log) for log in logs}
    begun = time.monotonic()
    while slow := [log.name for log in logs if _answers(log) < before[log] + 2]:
        ended = [process.poll() for process in processes if process.poll() is not None]
        assert not ended, f"a process ended with {ended}"
        assert time.monotonic() < begun + _PATIENCE, f"no answer for {_PATIENCE:.0f} seconds: {slow}"
        time.sleep(0.1)


def _logs(crew: Crew) -> list[Path]:
    """Return the logs of those that write."""
    return [path for path in crew.folder.glob("*.jsonl") if not path.name.startswith("watch")]


def _answers(log: Path) -> int:
    return log.read_text().count('"act": "done')


def _settle(nodes: Sequence[PostgresServer]) -> int:
    """Settle the two-phase commits in doubt, as each node does by itself once a minute; return how many there were."""
    until = time.monotonic() + _PATIENCE
    in_doubt = _in_doubt(nodes)
    while _in_doubt(nodes):
        assert time.monotonic() < until, "two-phase commits stay in doubt"
        for node in nodes:
            node.query("SELECT recover_prepared_transactions()")
        time.sleep(0.5)
    return in_doubt


def _in_doubt(nodes: Sequence[PostgresServer]) -> int:
    return sum(len(node.query("SELECT gid FROM pg_prepared_xacts")) for node in nodes)


def _check(
    conversation: Conversation, before: Conversation, nodes: Sequence[PostgresServer], logs: Logs
) -> dict[str, Any]:
    from chatmemory.models import Conversation
    from chatmemory.verification import verify
    from tests.support.traffic_check import check_history, check_order

    figures: Counter[str] = Counter()
    for node in nodes:
        there = Conversation.objects.using(node.name).get(pk=conversation.pk)
        figures["acknowledged"] = check_history(there, logs)
        figures["snapshots compared"] = check_order(there, before, logs)
    figures["acknowledged by name"], figures["names"] = _check_names(conversation, logs)
    figures["conversations made over REST with a key"] = _check_keys(conversation, logs)
    assert (found := list(verify())) == [], f"the verification finds {found}"
    seen = [record for records in logs.values() for record in records if record["act"] == "seen elsewhere"]
    figures["reads on another node of what was just acknowledged"] = len(seen)
    figures["of these not shown at once"] = sum(not record["at_once"] for record in seen)
    slowest = max((record["after"] for record in seen if not record["at_once"]), default=0)
    tell(f"the latest of these was shown after {slowest:.1f} s")
    return dict(figures)


def _check_names(conversation: Conversation, logs: Logs) -> tuple[int, int]:
    """Check that each name has one conversation with all that was acknowledged; return how many of each there are."""
    from chatmemory.models import Conversation

    asked, done = defaultdict(set), defaultdict(set)
    for record in (record for records in logs.values() for record in records):
        if record["act"] == "asked by name":
            asked[record["memory_id"]].add(record["text"])
        elif record["act"] == "done by name":
            done[record["memory_id"]].add((record["text"], record["conversation"]))
    rows = Conversation.objects.filter(owner=None, memory_id__startswith=f"{conversation.pk} ")
    found = dict(rows.values_list("memory_id", "pk"))
    assert len(found) == rows.count(), "two conversations have one name"
    for memory_id, said in done.items():
        assert {pk for _, pk in said} == {str(found[memory_id])}, f"{memory_id} was in other conversations: {said}"
        texts = list(Conversation.objects.get(pk=found[memory_id]).messages.values_list("text", flat=True))
        assert len(texts) == len(set(texts)), f"something is in {memory_id} twice: {texts}"
        assert {text for text, _ in said} <= set(texts) <= asked[memory_id], f"{memory_id} has {texts}, not {said}"
    return sum(map(len, done.values())), len(found)


def _check_keys(conversation: Conversation, logs: Logs) -> int:
    """Check that each key has made one conversation, which has its new name; return how many there are."""
    from chatmemory.database.idempotency import scope_of_owner
    from chatmemory.models import Conversation, IdempotencyKey

    theirs = IdempotencyKey.objects.filter(scope=scope_of_owner(conversation.owner))
    made = 0
    for records in logs.values():
        done = {record["key"]: record["conversation"] for record in records if record["act"] == "done by key"}
        asked = [record["key"] for record in records if record["act"] == "asked by key"]
        keys = theirs.filter(key__in=asked)
        found = dict(keys.values_list("key", "conversation_id"))
        assert len(found) == keys.count(), "two conversations were made with one key"
        assert done.items() <= {key: str(pk) for key, pk in found.items()}.items(), "what was made is not there"
        named = dict(Conversation.objects.filter(pk__in=done.values()).values_list("memory_id", "pk"))
        assert {key: str(pk) for key, pk in named.items()} == done, "a conversation has lost its new name"
        made += len(done)
    return made
