"""The command ``python -m benchmarks.soak``."""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.machine import describe
from benchmarks.soak.crew import tell
from benchmarks.soak.engines import ENGINES
from benchmarks.soak.report import markdown
from benchmarks.soak.scenarios import ADVERSARY, CITUS, SCENARIOS, USUAL

_GROUPS = {"adversary": ADVERSARY, "citus": CITUS}


def options() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.soak", description="Show for a long time that nothing acknowledged is lost."
    )
    parser.add_argument("group", nargs="?", choices=list(_GROUPS), help="run only the scenarios of this group")
    parser.add_argument(
        "--minutes", type=float, default=30, help="the minutes that all scenarios share; they may take longer"
    )
    parser.add_argument("--only", nargs="+", choices=list(SCENARIOS), metavar="SCENARIO", help="run only these")
    parser.add_argument("--engines", nargs="+", choices=list(ENGINES), default=list(ENGINES), help="run only on these")
    parser.add_argument(
        "--output", type=Path, help="folder for SOAK.md and soak.json; keeps the results of whatever is not run again"
    )
    parser.add_argument("--seed", default=str(random.randrange(1_000_000)), help="the seed of all random choices")
    parser.add_argument("--quick", action="store_true", help="run the smallest counts, to see that everything works")
    given = parser.parse_args()
    given.only = given.only or _GROUPS.get(given.group, USUAL)
    if given.quick:
        given.minutes = 0
    return given


def in_worker(
    folder: Path, minutes: float, function: str, arguments: dict[str, Any], given: argparse.Namespace
) -> dict[str, Any]:
    """Return the answer of a scenario that runs in a process of its own."""
    environment = os.environ | {"CHATMEMORY_SOAK_SEED": given.seed}
    if given.quick:
        environment["CHATMEMORY_SOAK_QUICK"] = "1"
    worker = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.soak.worker"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # it is told once that it shall end, and not by the keyboard as well
    )
    asked = {"function": function, "folder": str(folder), "minutes": minutes, "with": arguments}
    try:
        answer, _ = worker.communicate(json.dumps(asked).encode())
    except BaseException:
        worker.terminate()
        worker.wait()
        raise
    if worker.returncode:
        return {"error": f"its process ended with {worker.returncode}", "seconds": 0, "versions": []}
    return dict(json.loads(answer))


def soak(given: argparse.Namespace, place: Path) -> list[dict[str, Any]]:
    """Run everything that was asked for, one after the other."""
    runs = [
        (name, engine)
        for name in given.only
        for engine in SCENARIOS[name].engines or [None]
        if engine is None or engine in given.engines
    ]
    results = []
    for name, engine in runs:
        folder = place / (f"{name}-{engine}" if engine else name)
        folder.mkdir()
        folder.chmod(0o755)
        arguments = {"engine": engine} if engine else {}
        try:
            answer = in_worker(folder, given.minutes / len(runs), SCENARIOS[name].function, arguments, given)
        except BaseException:  # somebody wants no more of it, so there is nothing to look at
            shutil.rmtree(folder)
            raise
        if "error" in answer:
            tell(f"{folder.name}: FAILED after {answer['seconds']} s, logs in {folder}: {answer['error']}")
        else:
            tell(f"{folder.name}: all well, {answer['seconds']} s")
            shutil.rmtree(folder)
        results.append({"scenario": name, "engine": engine, **answer})
    return results


def with_others(results: dict[str, Any], before: dict[str, Any], *, is_whole: bool) -> dict[str, Any]:
    """Return the results, and of an earlier soak those of what was not run again.

    Args:
        results: the results of this soak.
        before: the results of the earlier one.
        is_whole: whether this soak had all usual scenarios; otherwise the report goes on to speak of the earlier one.
    """
    again = {(run["scenario"], run["engine"]) for run in results["runs"]}
    asked = {"date": results["machine"]["date"], **{name: results[name] for name in ("minutes", "seed", "quick")}}
    runs = [run for run in before["runs"] if (run["scenario"], run["engine"]) not in again]
    if is_whole:
        earlier = {"date": before["machine"]["date"], **{name: before[name] for name in ("minutes", "seed", "quick")}}
        runs = [{"asked": earlier, **run} for run in runs] + results["runs"]
    else:
        runs += [{**run, "asked": asked} for run in results["runs"]]
    scenarios, engines = list(SCENARIOS), [None, *ENGINES]
    runs.sort(key=lambda run: (scenarios.index(run["scenario"]), engines.index(run["engine"])))
    return {**(results if is_whole else before), "runs": runs}


def main() -> None:
    """Run, print and write."""
    given = options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # as an exception, so that the scenario is ended too
    tell(f"Seed {given.seed}")
    place = Path(tempfile.mkdtemp(prefix="chatmemory-soak-"))
    place.chmod(0o755)  # servers of other users have their data in it
    try:
        runs = soak(given, place)
    finally:
        if not any(place.iterdir()):
            place.rmdir()
    asked = {name: getattr(given, name) for name in ("minutes", "seed", "quick")}
    results = {"machine": describe([]), **asked, "runs": runs}
    is_whole = set(given.only) >= set(USUAL) and set(given.engines) == set(ENGINES)
    if given.output and (given.output / "soak.json").exists():
        results = with_others(results, json.loads((given.output / "soak.json").read_text()), is_whole=is_whole)
    text = markdown(results)
    print(text)  # noqa: T201
    if given.output:
        given.output.mkdir(parents=True, exist_ok=True)
        (given.output / "soak.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        (given.output / "SOAK.md").write_text(text, encoding="utf-8")
    if any("error" in run for run in runs):
        sys.exit(1)


main()
