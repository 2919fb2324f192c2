"""What asyncio, asgiref and Django do not document is used only where a change would wait for ever without it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import chatmemory

ROOT = Path(chatmemory.__file__).parent

PRIVATE = re.compile(
    r"\basyncio\._|\._from_testcase\b|\._for_write\b|\._db\b|\b(AsyncToSync|SyncToAsync)\.|\bthread_sensitive_context\b"
)

USERS = {"core/asynchronous.py", "database/connections.py"}


@pytest.mark.slow
def test_few_modules_use_private_names() -> None:
    found = {str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py") if PRIVATE.search(path.read_text())}
    assert found == USERS
