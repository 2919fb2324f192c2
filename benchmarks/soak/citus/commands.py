"""The shards that each operation asks, and the commands that one node of Citus sends to others for it.

``operations`` are those of the table of docs/partitions.md. tests/contrib/citus/test_shards.py compares the table with
the statements of each, and ``run`` compares it with Citus' own log.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.soak.citus.cluster import distributed, new_cluster

__all__ = ["ALL", "BOTH", "NAMES", "ONE", "documented", "operations", "run"]

_DOCUMENT = Path(__file__).parents[3] / "docs" / "partitions.md"

_TIMES = 8
"""How often each operation is done: names and conversations are on one node or on two, as it happens."""

ONE, NAMES, BOTH, ALL = "one", "one, and names", "two, and names", "all"
"""The shards that an operation asks: of one conversation, also of its names, also of another one; or of all."""


@dataclass(frozen=True)
class Asked:
    """What the table says of an operation."""

    shards: str
    """``ONE``, ``NAMES``, ``BOTH`` or ``ALL``."""

    may_be_two_phase: bool

    def allows(self, shards: int, names: int) -> bool:
        """Return whether an operation may ask this number of shards of conversations, and of names."""
        most = {ONE: 1, NAMES: 1, BOTH: 2}.get(self.shards)
        return shards > 2 if most is None else shards <= most and (names > 0) == (self.shards != ONE)


def documented() -> dict[str, Asked]:
    """Return what the table of docs/partitions.md says, by operation."""
    [table] = re.findall(r"^\| operation \| shards \|.*?\n\n", _DOCUMENT.read_text(), re.DOTALL | re.MULTILINE)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.strip().splitlines()[2:]]
    return {name: Asked(shards, {"": False, "yes": True}[phases]) for name, shards, phases in rows}


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

    def shards(self, ranges: dict[int, tuple[str, str]]) -> tuple[int, int]:
        """Return how many shards of conversations and of names they ask.

        Args:
            ranges: the table of each shard, and the first value of its range, by the shard's ID.
        """
        asked = {ranges[int(number)] for line in self.sent for number in re.findall(r"chatmemory_\w+?_(\d{6})\b", line)}
        names = {place for table, place in asked if table == "chatmemory_citus_name"}
        return len({place for table, place in asked if table != "chatmemory_citus_name"}), len(names)


def run(folder: Path, minutes: float) -> dict[str, Any]:
    """Do each operation, connected to the coordinator, and count what it sends to the workers.

    Raises:
        AssertionError: an operation asks other shards than docs/partitions.md says, or commits in two phases.
    """
    found: dict[str, set[str]] = defaultdict(set)
    told = documented()
    with new_cluster(folder) as nodes, distributed(nodes):
        shards = nodes[0].query("SELECT shardid, logicalrelid::text, shardminvalue FROM pg_dist_shard")
        ranges = {number: (table, place) for number, table, place in shards}
        for number in range(_TIMES):
            for name, act in operations(f"user{number}"):
                with _counting() as commands:
                    act()
                asked = told.pop(name) if number == _TIMES - 1 else told[name]
                assert asked.allows(*commands.shards(ranges)), f"{name} asks other shards: {commands.sent}"
                assert asked.may_be_two_phase or not commands.is_two_phase, f"{name}: two phases: {commands.sent}"
                found[name].add(str(commands))
    assert not told, f"these operations were not done: {[*told]}"
    return {name: "; or ".join(sorted(texts, key=len)) for name, texts in found.items()}


def operations(username: str) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the operations of a user in their order, for each goes on from what those before it have left."""
    from asgiref.sync import async_to_sync
    from django.contrib.auth import get_user_model
    from django.test import Client
    from langgraph.checkpoint.base import empty_checkpoint
    from pydantic_ai.conversation import Conversation as PydanticConversation
    from pydantic_ai.messages import ModelRequest
    from rest_framework.test import APIClient

    from chatmemory import AiMessage, UserMessage
    from chatmemory.assistant import Answered, Assistant, Usage
    from chatmemory.contrib.langgraph.saver import DjangoSaver
    from chatmemory.contrib.pydantic_ai import DjangoConversationStore
    from chatmemory.core.window import Window, WindowKind
    from chatmemory.models import Conversation
    from chatmemory.personal_data import erase_user, export_user
    from chatmemory.stores import DjangoChatMemoryStore
    from chatmemory.transfer.export import conversation_lines
    from chatmemory.verification import verify

    users = get_user_model()._default_manager
    owner, other = users.create_user(username), users.create_user(f"another than {username}")
    client, staff = APIClient(), Client()
    client.force_authenticate(owner)
    staff.force_login(users.create_superuser(f"staff of {username}"))
    store = DjangoChatMemoryStore(owner)
    conversation = Conversation.objects.create(owner=owner, window="messages", limit=7)
    memory = conversation.memory
    window = Window(kind=WindowKind.MESSAGES, limit=7)
    said = iter(UserMessage(f"tea {number}") for number in range(1_000))
    assistant = Assistant(
        lambda messages, tools: Answered(AiMessage("Green tea."), Usage(input_tokens=9, output_tokens=3)),
        recall="preload",
    )

    def ask(path: str, body: Any = None, *, method: str = "", status: int = 200, by: Any = client) -> None:
        way = method or ("get" if body is None else "post")
        told = {} if body is None else {"format": "json"}
        answer = getattr(by, way)(path, body, **told)
        assert answer.status_code == status, answer.content

    def change(**columns: Any) -> None:
        for name, value in columns.items():
            setattr(conversation, name, value)
        conversation.save()

    def chat(text: str, **how: Any) -> None:
        assistant.chat(conversation, text, **how)

    here = f"/api/conversations/{conversation.pk}/"
    create = {"owner": owner, "window": "messages", "limit": 7}
    memory.add(next(said))  # the connection knows the tables from here on
    store.get_messages("nothing")
    chat("Which tea?")
    yield "create a conversation", lambda: Conversation.objects.create(**create, memory_id="named")
    yield (
        "create a conversation over REST with a key",
        lambda: client.post("/api/conversations/", {}, format="json", headers={"Idempotency-Key": "one"}),
    )
    yield "add messages", lambda: memory.add(next(said))
    memory.add(*(next(said) for _ in range(20)))
    yield "add messages, and evict others", lambda: memory.add(next(said))
    yield "add messages with a key", lambda: memory.add(UserMessage("tea"), idempotency_key="k")
    yield "add messages with the same key again", lambda: memory.add(UserMessage("tea"), idempotency_key="k")
    yield "add more than 50 messages", lambda: memory.add(*(next(said) for _ in range(60)))
    yield "add messages by a memory ID", lambda: store.add_to_window("named", [next(said)], window)
    yield "read the memory", memory.messages
    yield "read the memory by a memory ID", lambda: store.get_messages("named")
    yield "a turn of an assistant, with recall and usage", lambda: chat("And which tea 3?")
    question = {"message": {"type": "USER", "contents": [{"type": "TEXT", "text": "Tea 4?"}]}}
    yield "a turn over REST", lambda: ask(f"{here}turns/", question)
    answer = conversation.messages.filter(type="AI", text="Green tea.").last()
    yield "record usage", lambda: conversation.record_usage({"model": "m", "input_tokens": 1, "response_id": "r"})
    feedback = f"{here}messages/{answer.position}/feedback/"
    yield "give feedback over REST", lambda: ask(feedback, {"value": "up"}, method="put")
    yield "list the messages over REST", lambda: ask(f"{here}messages/")
    yield "read one message over REST", lambda: ask(f"{here}messages/{answer.position}/")
    yield "list the usage of a conversation over REST", lambda: ask(f"{here}usage/")
    yield "search a conversation over REST", lambda: ask(f"{here}search/?q=tea")
    yield (
        "the admin's page about a conversation",
        lambda: ask(f"/admin/chatmemory/conversation/{conversation.pk}/change/", by=staff),
    )
    yield (
        "the admin's page about its usage",
        lambda: ask(f"/admin/chatmemory/conversation/{conversation.pk}/usage/", by=staff),
    )
    last = conversation.messages.retained()[0].position
    yield "pin a message", lambda: memory.pin(last)
    yield "change the window", lambda: memory.set_window(limit=5)
    yield "summarise", lambda: memory.compact(lambda messages, previous: "They talked about tea.", keep=20)
    yield "rewind", lambda: conversation.rewind(after=3)
    yield "edit a message", lambda: conversation.edit(0, UserMessage("Which coffee?"))
    yield "switch to another branch", lambda: conversation.switch(3)
    yield "read the tree over REST", lambda: ask(f"{here}tree/")
    yield "fork a conversation", lambda: conversation.fork(at=1)
    yield "export a conversation", lambda: list(conversation_lines([conversation.pk]))
    yield "verify a conversation", lambda: list(verify(Conversation.objects.filter(pk=conversation.pk)))
    yield "rewrite the memory", lambda: memory.set([next(said)])
    yield "clear the memory", memory.clear
    saver = DjangoSaver(owner)
    config: Any = {"configurable": {"thread_id": "graph", "checkpoint_ns": ""}}

    def put() -> None:
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"messages": ["tea"]}
        checkpoint["channel_versions"] = {"messages": "1"}
        saver.put(config, checkpoint, {}, {"messages": "1"})

    put()
    yield "LangGraph: put a checkpoint", put
    yield "LangGraph: read the last checkpoint", lambda: saver.get_tuple(config)
    yield "LangGraph: delete a thread", lambda: saver.delete_thread("graph")
    agents = DjangoConversationStore(owner=owner)

    async def save() -> None:
        stored = await agents.load("agent") or PydanticConversation(conversation_id="agent")
        stored.messages.append(ModelRequest.user_text_prompt("Hi"))
        await agents.save(stored)

    async_to_sync(save)()
    yield "Pydantic AI: load and save a conversation", async_to_sync(save)
    yield "list one's own conversations over REST", lambda: ask("/api/conversations/")
    yield "search one's own conversations over REST", lambda: ask("/api/conversations/?search=tea")
    yield "add up one's own usage over REST", lambda: ask("/api/usage/")
    yield "the admin's list of conversations", lambda: ask("/admin/chatmemory/conversation/", by=staff)
    yield "the admin's sums of usage", lambda: ask("/admin/chatmemory_usage/usage/?group=owner", by=staff)
    yield "export a user", lambda: list(export_user(owner))
    yield "verify all conversations", lambda: list(verify())
    yield "change the memory ID", lambda: change(memory_id="new")
    yield "change the owner", lambda: change(owner=other)
    yield "delete a conversation", conversation.delete
    yield "erase a user", lambda: erase_user(owner, how="erase")


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
