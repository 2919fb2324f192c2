"""The scenarios to run."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.soak.engines import BINDING, ENGINES, SERVERS

__all__ = ["ADVERSARY", "CITUS", "SCENARIOS", "USUAL", "Scenario"]


@dataclass(frozen=True)
class Scenario:
    """A scenario: a function called with a folder, minutes, and an engine if there is a choice of engines."""

    function: str
    """The function, as ``"module:name"``."""

    title: str

    engines: tuple[str, ...] = ()
    """The engines to run on, one after the other; none if it has its own cluster."""

    tries: str = ""
    """What the figure ``tried`` of an adversary's scenario counts; empty for the other scenarios."""


_USUAL_ENGINES = tuple(name for name in ENGINES if name != BINDING)

_PLAIN = tuple(
    name for name in _USUAL_ENGINES if name != "sqlite-wal"
)  # for scenarios with one process at a time, for which WAL makes no difference

SCENARIOS = {
    "writers": Scenario(
        "benchmarks.soak.writers:run", "Eight writers, one who rewrites, clears and changes the window", _USUAL_ENGINES
    ),
    "kills": Scenario("benchmarks.soak.kills:run", "Writers killed by SIGKILL", _USUAL_ENGINES),
    "compactions": Scenario(
        "benchmarks.soak.compactions:run", "Workers that summarise, and writers, killed by SIGKILL", tuple(ENGINES)
    ),
    "restarts": Scenario(
        "benchmarks.soak.restarts:run", "Servers restarted and killed, connections cut", tuple(SERVERS)
    ),
    "assistant": Scenario(
        "benchmarks.soak.assistant:run", "Turns of assistants under uvicorn, with a model that fails", ("postgres",)
    ),
    "turns": Scenario(
        "benchmarks.soak.turns:run", "Turns over HTTP under uvicorn and gunicorn, on bad networks", ("postgres",)
    ),
    "galera": Scenario("benchmarks.soak.galera:run", "A Galera cluster"),
    "replica": Scenario("benchmarks.soak.replication:run_lagging", "A streaming replica that lags"),
    "promotion": Scenario("benchmarks.soak.replication:run_promotion", "A replica promoted when its primary is killed"),
    "faults": Scenario(
        "benchmarks.soak.adversary.faults:run",
        "Faults at every statement and commit",
        (*_PLAIN, BINDING),
        tries="faults",
    ),
    "statement-kills": Scenario(
        "benchmarks.soak.adversary.statement_kills:run", "Kills at every statement and commit", _PLAIN, tries="kills"
    ),
    "linearizability": Scenario(
        "benchmarks.soak.adversary.linearizability:run",
        "Races that must be linearizable",
        _USUAL_ENGINES,
        tries="operations",
    ),
    "pgbouncer": Scenario("benchmarks.soak.adversary.pooling:run", "Forked workers behind pgbouncer", tries="calls"),
    "citus-suites": Scenario("benchmarks.soak.citus.suites:run", "Tests on the nodes of Citus"),
    "citus-existing": Scenario("benchmarks.soak.citus.existing:run", "Stored conversations, distributed by Citus"),
    "citus-commands": Scenario(
        "benchmarks.soak.citus.commands:run", "Commands that the coordinator of Citus sends to two workers"
    ),
    "citus-turns": Scenario("benchmarks.soak.citus.turns:run", "Processor time of the databases for a turn, on Citus"),
    "citus-lists": Scenario("benchmarks.soak.citus.lists:run", "Lists on Citus"),
    "citus-router": Scenario("benchmarks.soak.citus.routed:run", "A site whose chats are at any node of Citus"),
    "citus-kills": Scenario("benchmarks.soak.citus.kills:run", "Nodes of Citus killed"),
}

ADVERSARY = [name for name, scenario in SCENARIOS.items() if scenario.tries]
"""The names of the adversary's scenarios, which count violations and do not end at the first."""

CITUS = [name for name in SCENARIOS if name.startswith("citus-")]
"""The names of the scenarios that need Citus, which most machines do not have."""

USUAL = [name for name in SCENARIOS if name not in CITUS]
"""The names of the scenarios that are run if none are named."""
