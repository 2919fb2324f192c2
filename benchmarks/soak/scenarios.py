"""The scenarios to run."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.soak.engines import ENGINES, SERVERS

__all__ = ["SCENARIOS", "Scenario"]


@dataclass(frozen=True)
class Scenario:
    """A scenario: a function called with a folder, minutes, and an engine if there is a choice of engines."""

    function: str
    """The function, as ``"module:name"``."""

    title: str

    engines: tuple[str, ...] = ()
    """The engines to run on, one after the other; none if it has its own cluster."""


SCENARIOS = {
    "writers": Scenario(
        "benchmarks.soak.writers:run", "Eight writers, one who rewrites, clears and changes the window", tuple(ENGINES)
    ),
    "kills": Scenario("benchmarks.soak.kills:run", "Writers killed by SIGKILL", tuple(ENGINES)),
    "restarts": Scenario(
        "benchmarks.soak.restarts:run", "Servers restarted and killed, connections cut", tuple(SERVERS)
    ),
    "assistant": Scenario(
        "benchmarks.soak.assistant:run", "Turns of assistants under uvicorn, with a model that fails", ("postgres",)
    ),
    "galera": Scenario("benchmarks.soak.galera:run", "A Galera cluster"),
    "replica": Scenario("benchmarks.soak.replication:run_lagging", "A streaming replica that lags"),
    "promotion": Scenario("benchmarks.soak.replication:run_promotion", "A replica promoted when its primary is killed"),
}
