"""The distribution of what is stored already."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from time import monotonic
from typing import Any

from benchmarks.soak.citus.cluster import configured, new_cluster
from benchmarks.soak.crew import is_quick

__all__ = ["run"]

_CONVERSATIONS = 10_000
_MESSAGES = 20
_OWNERS = 100


def run(folder: Path, minutes: float) -> dict[str, Any]:
    """Distribute conversations, and compare all rows before and after.

    Raises:
        AssertionError: a row is missing or another one, or a dry run or a second run has changed something.
    """
    with new_cluster(folder) as nodes, configured({"default": nodes[0].database()}):
        from django.core.management import call_command
        from django.db import connections

        from chatmemory.verification import verify

        figures = _fill(100 if is_quick() else _CONVERSATIONS)
        before = _rows()
        call_command("chatmemory_distribute", dry_run=True, stdout=StringIO())
        assert nodes[0].query("SELECT * FROM citus_tables") == [], "a dry run has distributed something"
        begun = monotonic()
        call_command("chatmemory_distribute")
        figures["seconds that it took"] = round(monotonic() - begun, 1)
        connections.close_all()
        assert _rows() == before, "the rows are not what they were"
        zones = [node.query("SHOW TimeZone") for node in nodes]
        assert zones == [[("UTC",)]] * len(nodes), f"a node has another time zone than Django's connections: {zones}"
        tables = nodes[0].query("SELECT * FROM citus_tables ORDER BY 1")
        call_command("chatmemory_distribute")
        assert nodes[0].query("SELECT * FROM citus_tables ORDER BY 1") == tables, "a second run has changed a table"
        assert _rows() == before, "a second run has changed a row"
        assert [finding for finding in verify() if finding.what == "name"] == [], "a name leads elsewhere"
        return figures


def _fill(count: int) -> dict[str, Any]:
    """Insert conversations as a site has them before it uses names: each owner's, with messages, keys and a graph."""
    from django.contrib.auth import get_user_model
    from django.db.models import QuerySet
    from django.utils import timezone
    from langgraph.checkpoint.base import empty_checkpoint

    from chatmemory.contrib.langgraph.saver import DjangoSaver
    from chatmemory.database.idempotency import scope_of_owner
    from chatmemory.models import Conversation, IdempotencyKey, Message

    users = [get_user_model()._default_manager.create_user(f"user{number}") for number in range(_OWNERS)]
    made = [Conversation(owner=users[number % _OWNERS], memory_id=str(number)) for number in range(count)]
    QuerySet[Conversation, Conversation](Conversation).bulk_create(made)  # the model's own one would claim names
    now = timezone.now()
    for conversation in made:
        Message.objects.bulk_create(
            Message(
                conversation=conversation,
                position=position,
                type="USER",
                text=f"message {position} of {conversation.pk}",
                token_count=9,
                memory_order=position,
                added_in=position + 1,
                created_at=now,
            )
            for position in range(_MESSAGES)
        )
    IdempotencyKey.objects.bulk_create(
        IdempotencyKey(conversation=conversation, scope=scope_of_owner(conversation.owner), key=conversation.memory_id)
        for conversation in made
    )
    saver = DjangoSaver(users[0])
    config: Any = {"configurable": {"thread_id": "graph", "checkpoint_ns": ""}}
    saver.put_writes(saver.put(config, empty_checkpoint(), {}, {}), [("messages", "tea")], "task")
    return {"conversations": count, "messages": count * _MESSAGES, "keys": count}


def _rows() -> list[list[tuple[Any, ...]]]:
    from chatmemory.contrib.langgraph.models import Checkpoint, Namespace, Write
    from chatmemory.models import Conversation, IdempotencyKey, Message

    models: list[Any] = [Conversation, Message, IdempotencyKey, Namespace, Checkpoint, Write]
    return [list(model.objects.order_by("pk").values_list()) for model in models]
