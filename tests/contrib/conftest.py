"""What the tests of the adapters share."""

from __future__ import annotations

import pytest
from django.db import connection, connections


@pytest.fixture
def short_wait_for_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work beside a transaction waits one second, and not longer, for a lock that it will not have."""
    if connection.vendor == "sqlite":
        monkeypatch.setitem(connections.settings["default"]["OPTIONS"], "timeout", 1)
    monkeypatch.setattr("chatmemory.database.connections._LOCK_PATIENCE", 1)
