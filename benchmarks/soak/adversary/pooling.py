"""Forked workers behind pgbouncer in transaction mode: each has its own conversation, all share a few connections."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.soak.adversary.course import observed
from benchmarks.soak.adversary.forking import end, fork, outcome
from benchmarks.soak.adversary.invariants import broken
from benchmarks.soak.adversary.pooled import work
from benchmarks.soak.adversary.violations import Violations
from benchmarks.soak.crew import configure, is_quick, versions
from benchmarks.soak.pgbouncer import PgBouncer
from benchmarks.soak.postgres import PostgresServer
from benchmarks.soak.programs import program
from benchmarks.soak.rounds import Round, repeat

__all__ = ["run"]

_WORKERS = 6
_CONNECTIONS = 2
_TURNS = 30


def run(folder: Path, minutes: float) -> dict[str, Any]:
    """Run rounds of six workers on two connections."""
    from django.db import connections

    program("pgbouncer")  # fails early if it is not installed
    place = folder / "database"
    place.mkdir()
    with PostgresServer(place) as server, PgBouncer(place, server, _CONNECTIONS) as bouncer:
        configure({"default": bouncer.database()})
        versions.append(_version())
        violations = Violations(folder)
        try:
            figures = repeat(
                folder, minutes, {"tried": 1 if is_quick() else 5_000}, lambda this: _round(this, violations)
            )
        finally:
            connections.close_all()
    return {**figures, "violations": violations.counts}


def _round(this: Round, violations: Violations) -> dict[str, Any]:
    from chatmemory.verification import verify

    this.folder.mkdir()
    workers = []
    try:
        for number in range(_WORKERS):
            name = f"worker{this.number}-{number}"
            workers.append(_start(this, name))
        for worker in list(workers):
            if status := outcome(worker):
                violations.add("a worker", this.seed, [f"ended with {status}, see {this.folder}"])
            workers.remove(worker)
    finally:
        end(workers)
    calls: Counter[str] = Counter()
    for log in sorted(this.folder.glob("*.jsonl")):
        for line in map(json.loads, log.read_text().splitlines()):
            calls[line["call"]] += 1
            violations.add(line["call"], log.stem, [line["problem"]] if line["problem"] else [])
    violations.add("rows", this.seed, broken(observed()))
    violations.add("verify", this.seed, _findings(verify))
    return {"tried": calls.total(), "calls": dict(calls)}


def _start(this: Round, name: str) -> int:
    from django.contrib.auth import get_user_model

    from chatmemory.models import Conversation

    owner = get_user_model().objects.create(username=name)
    conversation = Conversation.objects.create(owner=owner, memory_id=name, window="messages", limit=4)
    turns = 5 if is_quick() else _TURNS
    return fork(lambda: work(conversation, name, turns, this.folder / f"{name}.jsonl"), this.folder / f"{name}.txt")


def _findings(verify: Any) -> list[str]:
    try:
        return [str(finding) for finding in verify()]
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]


def _version() -> str:
    told = subprocess.run([program("pgbouncer"), "--version"], capture_output=True, check=True, text=True).stdout
    return told.splitlines()[0]
