"""How tests wait for what another process does."""

from __future__ import annotations

import time
from collections.abc import Callable

from django.db import connection

from tests.support.citus import WORKERS

__all__ = ["wait_until", "waits_for_a_lock"]

_PATIENCE = 60  # seconds, for what takes milliseconds

_ON_A_NODE = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = $$Lock$$"
_WAITING = {
    # Who waits for a row waits on the node that has it.
    "postgresql": f"SELECT sum(result::int) FROM run_command_on_all_nodes('{_ON_A_NODE}')" if WORKERS else _ON_A_NODE,
    "mysql": "SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'",
}


def waits_for_a_lock() -> bool:
    """Return whether a connection to the test database waits for the lock of another one."""
    with connection.cursor() as cursor:
        cursor.execute(_WAITING[connection.vendor])
        return bool(cursor.fetchone()[0])


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Wait until a condition is true.

    Raises:
        AssertionError: it never is; ``what`` says what that means.
    """
    until = time.monotonic() + _PATIENCE
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(0.02)
