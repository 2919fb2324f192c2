"""Calls whose connections a server's operator has cut."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import Error, connection, connections

from chatmemory.models import Conversation
from tests.support.cutting import cut_all_others, wait_until_ended

__all__ = ["Calls", "failed_twice", "has_connections"]

Calls = dict[str, Callable[[], Any]]

has_connections = pytest.mark.skipif(connection.vendor == "sqlite", reason="a file has no connections to lose")


def failed_twice(door: Calls) -> list[str]:
    """Make each call after its connections were cut, and once more; return what failed that second time, too."""
    failed = []

    async def all_of_them() -> None:
        for name, call in door.items():
            await sync_to_async(connections.close_all)()
            await sync_to_async(Conversation.objects.count)()  # a connection to lose
            await asyncio.to_thread(_cut)
            for is_last in (False, True):
                try:
                    await (call() if inspect.iscoroutinefunction(call) else sync_to_async(call)())
                except Error:
                    if is_last:
                        failed.append(name)
        await sync_to_async(connections.close_all)()

    connection.close()
    asyncio.run(all_of_them())
    return failed


def _cut() -> None:
    try:
        wait_until_ended(cut_all_others())
    finally:
        connection.close()
