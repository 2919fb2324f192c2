"""A primary that is killed under load, and its replica that is promoted: nothing acknowledged may be lost."""

from __future__ import annotations

import copy
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.soak.crew import Crew, is_quick
from benchmarks.soak.postgres import PostgresServer
from benchmarks.soak.rounds import Round, errors_in

if TYPE_CHECKING:
    from chatmemory.models import Conversation

__all__ = ["Failover"]

_WRITERS = 3
_WITHOUT_END = 1_000_000
_PATIENCE = 90.0


class Failover:
    """A pair of servers that swap their roles."""

    def __init__(self, primary: PostgresServer, replica: PostgresServer) -> None:
        self.longest_pause = 0.0
        """Seconds from the end of a primary to the first answer of the next one."""

        self._primary = primary
        self._replica = replica
        self._rounds: list[tuple[Conversation, dict[str, list[dict[str, Any]]]]] = []

    def round(self, this: Round) -> dict[str, Any]:
        """Kill the primary at a random moment, promote the replica, and make the former primary a replica."""
        from tests.support.traffic_check import check_history, check_order, read_logs

        chance = random.Random(this.seed)
        self._primary.synchronise(self._replica)
        conversation = this.conversation()
        before = copy.copy(conversation)
        with this.crew() as crew:
            processes = [crew.start("insist", f"i{number}", _WITHOUT_END, conversation) for number in range(_WRITERS)]
            processes.append(crew.start("watch", "r", 1, conversation))
            giving_up = crew.start("add", "a", _WITHOUT_END, conversation)  # mostly without keys, as most programs
            crew.wait_until_ready([*processes, giving_up])
            _wait_for_answers(crew, chance.randrange(10, 50 if is_quick() else 500))
            time.sleep(chance.uniform(0, 0.1))
            self._fail_over(crew)
            assert giving_up.wait(timeout=_PATIENCE), "a process has not noticed that the primary was killed"
            _wait_for_answers(crew, 50)
            crew.stop()
            crew.finish(processes, timeout=_PATIENCE)
        logs = read_logs(this.folder)
        acknowledged = check_history(conversation, logs)
        compared = check_order(conversation, before, logs)
        self._rounds.append((conversation, logs))
        self._replica.become_replica_of(self._primary)
        return {
            "acknowledged": acknowledged,
            "promotions": 1,
            "snapshots compared": compared,
            "errors": errors_in(logs),
        }

    def check_all_rounds(self) -> int:
        """Return the number of acknowledged messages of all rounds, after checking that all survived the promotions."""
        from tests.support.traffic_check import check_history

        return sum(check_history(conversation, logs) for conversation, logs in self._rounds)

    def lose(self, folder: Path) -> dict[str, int]:
        """Promote a replica that is behind, which must lose messages, and the checks must find it.

        While the primary has to wait for a replica that is cut off, it acknowledges nothing. So it is told not to wait.
        """
        from chatmemory.models import Conversation
        from tests.support.traffic_check import check_history, read_logs

        self._primary.synchronise(self._replica)
        conversation = Conversation.objects.create()
        with Crew(folder) as crew:
            processes = [crew.start("insist", f"i{number}", _WITHOUT_END, conversation) for number in range(_WRITERS)]
            crew.wait_until_ready(processes)
            _wait_for_answers(crew, 20)
            self._replica.set("primary_conninfo", "")
            self._primary.wait_for("SELECT count(*) = 0 FROM pg_stat_replication")
            time.sleep(0.5)
            waiting = _answers(crew)
            time.sleep(2)
            assert _answers(crew) == waiting, "an addition was acknowledged that no replica has"
            self._primary.set("synchronous_standby_names", "")
            _wait_for_answers(crew, 50)
            self._fail_over(crew)
            _wait_for_answers(crew, 20)
            crew.stop()
            crew.finish(processes, timeout=_PATIENCE)
        logs = read_logs(folder)
        there = set(conversation.messages.values_list("text", flat=True))
        said = [
            text
            for records in logs.values()
            for record in records
            if record["act"] == "done"
            for text in record["said"]
        ]
        lost = sum(text not in there for text in said)
        assert lost, "a replica that was behind has lost nothing, so these rounds prove nothing"
        try:
            check_history(conversation, logs)
        except AssertionError:
            return {"lost on purpose, without a synchronous replica": lost}
        raise AssertionError(f"{lost} messages were lost, and the check has not found it")

    def _fail_over(self, crew: Crew) -> None:
        from django.db import connection

        connection.close()
        begun = time.monotonic()
        self._primary.kill()
        self._replica.promote()
        self._primary, self._replica = self._replica, self._primary
        _wait_for_answers(crew, 1)
        self.longest_pause = max(self.longest_pause, time.monotonic() - begun)


def _wait_for_answers(crew: Crew, count: int) -> None:
    """Wait until so many more messages are acknowledged."""
    enough, begun = _answers(crew) + count, time.monotonic()
    while _answers(crew) < enough:
        assert time.monotonic() < begun + _PATIENCE, f"the writers got no {count} answers in {_PATIENCE:.0f} seconds"
        time.sleep(0.05)


def _answers(crew: Crew) -> int:
    return sum(path.read_text().count('"act": "done"') for path in crew.folder.glob("i*.jsonl"))
