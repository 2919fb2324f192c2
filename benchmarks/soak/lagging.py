"""A replica that replays nothing for a while, and a router that reads from it: no turn may notice."""

from __future__ import annotations

import traceback
from typing import Any

from django.contrib.auth import get_user_model
from django.test import Client, override_settings

from benchmarks.soak.postgres import PostgresServer
from benchmarks.soak.replica_doors import DOORS, Caller
from benchmarks.soak.rounds import Round
from chatmemory import UserMessage
from chatmemory.models import Conversation, IdempotencyKey, Message

__all__ = ["Lagging", "ReadsFromReplica"]


class ReadsFromReplica:
    """The router that a project would have."""

    def db_for_read(self, model: Any, **hints: Any) -> str:
        return "replica"

    def db_for_write(self, model: Any, **hints: Any) -> str:
        return "default"

    def allow_relation(self, *args: Any, **hints: Any) -> bool:
        return True


class Lagging:
    """Run rounds of turns through every public door, while the replica has only the state before."""

    def __init__(self, replica: PostgresServer) -> None:
        self._replica = replica

    def round(self, this: Round) -> dict[str, int]:
        this.folder.mkdir()
        user = get_user_model().objects.create(username=f"user{this.number}")
        client = Client(headers={"host": "127.0.0.1"})
        client.force_login(user)
        known = {door: Conversation.objects.create(owner=user, window="messages", limit=3) for door in DOORS}
        for conversation in known.values():
            conversation.memory.add(UserMessage("0"), UserMessage("1"))
        self._replica.wait_until_replayed()
        self._replica.query("SELECT pg_wal_replay_pause()")
        self._replica.wait_for("SELECT pg_get_wal_replay_pause_state() = 'paused'")
        with override_settings(DATABASE_ROUTERS=[ReadsFromReplica()], ALLOWED_HOSTS=["127.0.0.1"]):
            failures = [_failure(door, Caller(user, client, known[door])) for door in DOORS]
        self._replica.query("SELECT pg_wal_replay_resume()")
        self._replica.wait_until_replayed()
        rows = sum(map(_compared, (Conversation, Message, IdempotencyKey)))
        found = [failure for failure in failures if failure]
        assert not found, "\n\n".join(["what was just written was not seen:", *found])
        return {"turns": len(DOORS), "rows compared": rows}


def _failure(door: Any, caller: Caller) -> str:
    try:
        door(caller)
    except Exception:
        return f"{door.__name__}: {traceback.format_exc(limit=-1, chain=False)}"
    return ""


def _compared(model: Any) -> int:
    rows, replicated = (list(model.objects.using(alias).order_by("pk").values()) for alias in ("default", "replica"))
    assert rows == replicated, f"the replica has other rows of {model.__name__}"
    return len(rows)
