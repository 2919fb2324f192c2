"""The sections of a run: each is measured in processes of its own, and what fails in one leaves the others alone."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from typing import Any

from benchmarks.contenders import OURS
from benchmarks.machine import describe
from benchmarks.places import mariadb_parameters
from benchmarks.ratios import add_ratios, summarise
from benchmarks.report import ENGINES
from benchmarks.worker import WorkerError, in_worker

__all__ = ["mariadb_answers", "measure"]


def mariadb_answers() -> bool:
    """Return whether MariaDB can take part, where only chatmemory's statements are measured."""
    if find_spec("MySQLdb") is None:
        return False
    import MySQLdb

    try:
        MySQLdb.connect(**mariadb_parameters()).close()
    except MySQLdb.Error:
        return False
    return True


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Measure everything that was asked for; ``failed`` has the error of each section that has no figures."""
    looked_at = [*given.engines, *(["mariadb"] if not given.skip_statements and mariadb_answers() else [])]
    results: dict[str, Any] = {"machine": describe(looked_at), "cells": [], "lengths": [], "missing": {}, "failed": {}}

    def section(title: str, engine: str, call: str, /, **arguments: Any) -> Any:
        try:
            return in_worker(engine, f"benchmarks.{call}", **arguments)
        except WorkerError as error:
            results["failed"][f"{title}, {ENGINES[engine]}"] = str(error)
            return None

    asked = {name: getattr(given, name) for name in ("windows", "histories", "turns", "warm_up")}
    for engine in given.engines:
        if given.only:
            part = section("A turn", engine, "turns.measure_turns", engine=engine, only=given.only, **asked)
            results["cells"] += part["cells"] if part else []
            results["missing"] |= part["missing"] if part else {}
        if OURS in given.only:
            title = "The length of the history"
            results["lengths"] += section(title, engine, "turns.measure_lengths", engine=engine, **asked) or []
    add_ratios(results["cells"], results["lengths"])
    results["summary"] = summarise(results["cells"])
    if not given.skip_statements:
        call = "statements.measure_statements"
        results["statements"] = {
            engine: figures
            for engine in looked_at
            if (figures := section("Statements", engine, call, engine=engine, windows=given.windows))
        }
        results["tokenizer"] = section("The tokenizer", "sqlite", "statements.measure_tokenizer")
    if not given.skip_http and "postgres" in given.engines:
        rounds = 30 if given.quick else 200
        results["http"] = section("HTTP", "postgres", "http.measure_http", engine="postgres", rounds=rounds)
    if not given.skip_throughput and "postgres" in given.engines:
        results["throughput"] = section(
            "Turns by a process on each core",
            "postgres",
            "throughput.measure_throughput",
            engine="postgres",
            windows=given.windows,
            seconds=2 if given.quick else 20,
        )
    return results
