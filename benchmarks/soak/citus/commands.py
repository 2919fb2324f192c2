"""The commands that one node of Citus sends to others for each operation, counted in Citus' own log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.soak.citus.cluster import distributed, new_cluster

__all__ = ["run"]

_TIMES = 8
"""How often each operation is done: names and conversations are on one node or on two, as it happens."""

_TURN = ["an addition by primary key", "an addition by memory ID", "a read by primary key", "a read by memory ID"]
"""The operations that a turn is made of: of these each must reach one shard's node, without a two-phase commit."""


@dataclass
class Commands:
    """The commands of one operation."""

    sent: list[str] = field(default_factory=list)
    """Each with the node that it was sent to, as the log has it."""

    def __str__(self) -> str:
        where = ["no node", "one node", "both nodes"][len(self.nodes)]
        return f"{len(self.sent)} to {where}{', two-phase' if self.is_two_phase else ''}"

    @property
    def nodes(self) -> set[str]:
        """The nodes that they were sent to."""
        return {line.partition("on server ")[2].split(" ")[0] for line in self.sent}

    @property
    def is_two_phase(self) -> bool:
        """Whether they commit in two phases."""
        return any("PREPARE TRANSACTION" in line for line in self.sent)


def run(folder: Path, minutes: float) -> dict[str, Any]:
    """Do each operation, connected to the coordinator, and count what it sends to the workers.

    Raises:
        AssertionError: an addition or a read is sent to two nodes, or commits in two phases.
    """
    found: dict[str, set[str]] = defaultdict(set)
    with new_cluster(folder) as nodes, distributed(nodes):
        for number in range(_TIMES):
            for name, act in _operations(f"user{number}"):
                with _counting() as commands:
                    act()
                if name in _TURN:
                    _check(name, commands)
                found[name].add(str(commands))
    return {name: "; or ".join(sorted(texts, key=len)) for name, texts in found.items()}


def _check(name: str, commands: Commands) -> None:
    # Names and messages may be on different nodes: what a name leads to is read before anything is changed.
    of_messages = Commands([line for line in commands.sent if "chatmemory_citus_name" not in line])
    assert len(of_messages.nodes) == 1, f"{name} is sent to several nodes: {of_messages.sent}"
    assert not commands.is_two_phase, f"{name} commits in two phases: {commands.sent}"


def _operations(username: str) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the operations of a user in their order, for each goes on from what those before it have left."""
    from django.contrib.auth import get_user_model
    from langgraph.checkpoint.base import empty_checkpoint
    from rest_framework.test import APIClient

    from chatmemory import UserMessage
    from chatmemory.contrib.langgraph.saver import DjangoSaver
    from chatmemory.core.window import Window, WindowKind
    from chatmemory.models import Conversation
    from chatmemory.personal_data import erase_user
    from chatmemory.stores import DjangoChatMemoryStore
    from chatmemory.verification import verify

    owner = get_user_model()._default_manager.create_user(username)
    other = get_user_model()._default_manager.create_user(f"another than {username}")
    client = APIClient()
    client.force_authenticate(owner)
    store = DjangoChatMemoryStore(owner)
    conversation = Conversation.objects.create(owner=owner, window="messages", limit=7)
    memory = conversation.memory
    window = Window(kind=WindowKind.MESSAGES, limit=7)
    said = iter(UserMessage(str(number)) for number in range(1_000))

    def make() -> None:
        answer = client.post("/api/conversations/", {}, format="json", headers={"Idempotency-Key": "one"})
        assert answer.status_code == 201, answer.content

    def ask(path: str) -> None:
        answer = client.get(path)
        assert answer.status_code == 200, answer.content

    def change(**columns: Any) -> None:
        for name, value in columns.items():
            setattr(conversation, name, value)
        conversation.save()

    memory.add(next(said))  # the connection knows the tables from here on
    store.get_messages("nothing")
    yield (
        "a conversation made",
        lambda: Conversation.objects.create(owner=owner, memory_id="named", window="messages", limit=7),
    )
    yield "a conversation made over REST with a key", make
    yield _TURN[0], lambda: memory.add(next(said))
    memory.add(*(next(said) for _ in range(20)))
    yield "an addition that evicts", lambda: memory.add(next(said))
    yield "an addition with a key", lambda: memory.add(UserMessage("tea"), idempotency_key="k")
    yield "an addition repeated with its key", lambda: memory.add(UserMessage("tea"), idempotency_key="k")
    yield _TURN[1], lambda: store.add_to_window("named", [next(said)], window)
    yield _TURN[2], memory.messages
    yield _TURN[3], lambda: store.get_messages("named")
    yield "a page of the history over REST", lambda: ask(f"/api/conversations/{conversation.pk}/messages/")
    yield "a list of one's own conversations over REST", lambda: ask("/api/conversations/")
    yield "a search over REST", lambda: ask("/api/conversations/?search=tea")
    last = conversation.messages.retained()[0].position
    yield "a pin", lambda: memory.pin(last)
    yield "a change of the window", lambda: memory.set_window(limit=5)
    yield "a summary", lambda: memory.compact(lambda messages, previous: "They talked about tea.", keep=20)
    yield "a rewrite", lambda: memory.set([next(said)])
    yield "a clear", memory.clear
    yield "a new memory ID", lambda: change(memory_id="new")
    yield "another owner", lambda: change(owner=other)
    yield "a verification of one conversation", lambda: list(verify(Conversation.objects.filter(pk=conversation.pk)))

    saver = DjangoSaver(owner)
    config: Any = {"configurable": {"thread_id": "graph", "checkpoint_ns": ""}}

    def put() -> None:
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"messages": ["tea"]}
        checkpoint["channel_versions"] = {"messages": "1"}
        saver.put(config, checkpoint, {}, {"messages": "1"})

    put()
    yield "LangGraph: a checkpoint put", put
    yield "LangGraph: the last checkpoint read", lambda: saver.get_tuple(config)
    yield "LangGraph: a thread deleted", lambda: saver.delete_thread("graph")
    yield "a conversation deleted", conversation.delete
    yield "a user erased, with two conversations", lambda: erase_user(owner, how="erase")


@contextmanager
def _counting() -> Iterator[Commands]:
    from django.db import connection

    commands = Commands()

    def note(diagnostic: Any) -> None:
        if (text := diagnostic.message_primary or "").startswith("issuing"):
            commands.sent.append(f"{text} {diagnostic.message_detail}")

    connection.ensure_connection()
    driver = connection.connection
    driver.add_notice_handler(note)
    with connection.cursor() as cursor:
        cursor.execute("SET client_min_messages TO log; SET citus.log_remote_commands TO on")
    try:
        yield commands
    finally:
        driver.remove_notice_handler(note)
        with connection.cursor() as cursor:
            cursor.execute("RESET client_min_messages; RESET citus.log_remote_commands")
