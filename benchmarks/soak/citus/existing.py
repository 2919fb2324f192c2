"""The distribution of what is stored already, with rows of every capability."""

from __future__ import annotations

from io import StringIO
from itertools import product
from pathlib import Path
from time import monotonic
from typing import Any

from benchmarks.soak.citus.cluster import configured, join, new_cluster
from benchmarks.soak.citus.one_database import routed
from benchmarks.soak.crew import is_quick
from benchmarks.soak.postgres import DATABASE, PostgresServer

__all__ = ["run"]

_CONVERSATIONS = 10_000
_MESSAGES = 20
_OWNERS = 100

_MODES = list(product(["reference", "local"], [True, False]))
"""Where users are, and whether the coordinator is told its address: each is a database."""


def run(folder: Path, minutes: float) -> dict[str, Any]:
    """Distribute conversations in each mode, and compare all rows before and after.

    Raises:
        AssertionError: a row is missing or another one, a table has none, a dry run or a second run has changed
            something, or what is stored cannot be used.
    """
    with new_cluster(folder) as nodes:
        databases = {"default": nodes[0].database()}
        for users, with_host in _MODES[1:]:
            name = f"{DATABASE}_{users}_{'with' if with_host else 'without'}"
            for node in nodes:
                node.query(f"CREATE DATABASE {name}", database="postgres")
            join(nodes, name, with_host=with_host)
            databases[name] = nodes[0].database(NAME=name)
        with configured(databases), routed() as router:
            figures: dict[str, Any] = {}
            for alias, (users, _with_host) in zip(databases, _MODES, strict=True):
                router.alias = alias
                is_first = alias == "default"
                found = _distribute(nodes, databases[alias]["NAME"], alias, users, is_large=is_first and not is_quick())
                figures |= found if is_first else {}
            return {**figures, "modes": len(_MODES)}


def _distribute(nodes: list[PostgresServer], name: str, alias: str, users: str, *, is_large: bool) -> dict[str, Any]:
    from django.core.management import call_command
    from django.db import connections

    def tables() -> Any:
        return nodes[0].query("SELECT * FROM citus_tables ORDER BY 1", name)

    call_command("migrate", database=alias, verbosity=0)
    figures = _fill(_CONVERSATIONS if is_large else 100)
    _fill_capabilities()
    before = _rows()
    assert [table for table, rows in before.items() if not rows] == [], "these tables have no rows to distribute"
    arguments: dict[str, Any] = {"database": alias, "users": users}
    call_command("chatmemory_distribute", **arguments, dry_run=True, stdout=StringIO())
    assert tables() == [], "a dry run has distributed something"
    begun = monotonic()
    call_command("chatmemory_distribute", **arguments)
    figures["seconds that it took"] = round(monotonic() - begun, 1)
    connections.close_all()
    assert _rows() == before, "the rows are not what they were"
    zones = [node.query("SHOW TimeZone", name) for node in nodes]
    assert zones == [[("UTC",)]] * len(nodes), f"a node has another time zone than Django's connections: {zones}"
    distributed = tables()
    call_command("chatmemory_distribute", **arguments)
    assert tables() == distributed, "a second run has changed a table"
    assert _rows() == before, "a second run has changed a row"
    _use()
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


def _fill_capabilities() -> None:
    """Store rows of every table of chatmemory and its capabilities."""
    from asgiref.sync import async_to_sync
    from django.contrib.auth import get_user_model
    from langgraph.checkpoint.base import empty_checkpoint
    from pydantic_ai.conversation import Conversation as PydanticConversation
    from pydantic_ai.messages import ModelRequest

    from chatmemory import AiMessage, UserMessage
    from chatmemory.assistant import Answered, Assistant, Usage
    from chatmemory.contrib.feedback.giving import give_feedback
    from chatmemory.contrib.langgraph.saver import DjangoSaver
    from chatmemory.contrib.pydantic_ai import DjangoConversationStore
    from chatmemory.models import Conversation

    owner = get_user_model()._default_manager.create_user("ann")
    conversation = Conversation.objects.create(owner=owner, window="messages", limit=7)
    for number in range(40):
        conversation.memory.add(UserMessage(f"tea {number}"), AiMessage(f"cup {number}"), idempotency_key=str(number))
    conversation.memory.compact(lambda messages, previous: "They talked about tea.", keep=20)
    assistant = Assistant(
        lambda messages, tools: Answered(AiMessage("Green tea."), Usage(input_tokens=9, output_tokens=3)),
        recall="preload",
    )
    assistant.chat(conversation, "Which tea 3?")
    give_feedback(conversation, 1, owner, "up")
    conversation.edit(4, UserMessage("Which coffee?"), user=owner)
    saver = DjangoSaver(owner)
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"], checkpoint["channel_versions"] = {"messages": ["tea"]}, {"messages": "1"}
    config: Any = {"configurable": {"thread_id": "another graph", "checkpoint_ns": ""}}
    saver.put(config, checkpoint, {}, {"messages": "1"})
    stored = PydanticConversation(conversation_id="agent", messages=[ModelRequest.user_text_prompt("Hi")])
    async_to_sync(DjangoConversationStore(owner=owner).save)(stored)
    erased = Conversation.objects.create(owner=owner)
    erased.record_usage({"model": "m", "input_tokens": 5})
    erased.delete()  # its usage stays


def _use() -> None:
    """Change and erase what was distributed, as its owner's data."""
    from django.contrib.auth import get_user_model
    from django.contrib.auth.models import Permission
    from django.contrib.contenttypes.models import ContentType

    from chatmemory import UserMessage
    from chatmemory.contrib.usage.models import Usage
    from chatmemory.models import Branch, Conversation
    from chatmemory.personal_data import erase_user, export_user

    owner = get_user_model()._default_manager.get(username="ann")
    _verify([*Conversation.objects.filter(owner=owner).values_list("pk", flat=True)])
    [conversation] = Conversation.objects.filter(owner=owner, limit=7)
    conversation.rewind(before=2, user=owner)
    conversation.memory.add(UserMessage("Or milk?"))
    assert Branch.objects.filter(user=owner).count() == 2
    assert [line for line in export_user(owner) if '"app":"chatmemory_usage"' in line.replace(" ", "")]
    erase_user(owner, how="erase")
    owner.delete()
    assert not Branch.objects.filter(user__isnull=False).exists()
    assert not Usage.objects.exists()
    kind = ContentType.objects.create(app_label="tea", model="cup")  # as a later migration does
    new = get_user_model()._default_manager.create_user("bob")
    new.user_permissions.add(Permission.objects.create(codename="drink", name="Drink", content_type=kind))
    new.delete()


def _verify(conversations: list[Any]) -> None:
    """Verify all conversations. The counters of those that were inserted without operations are wrong."""
    from chatmemory.verification import verify

    found = [finding for finding in verify() if finding.what == "name" or finding.conversation in conversations]
    assert found == [], f"these are wrong: {found}"


def _rows() -> dict[str, list[tuple[Any, ...]]]:
    from django.apps import apps

    from chatmemory.contrib.citus.distribution import CONVERSATIONS, tables_of_rows

    tables = {CONVERSATIONS, *tables_of_rows()}
    models: list[Any] = [model for model in apps.get_models() if model._meta.db_table in tables]
    return {model._meta.db_table: list(model._base_manager.order_by("pk").values_list()) for model in models}
