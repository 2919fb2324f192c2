"""The branches of ChatGPT's export, beside a reading of each branch on its own."""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chatmemory.contrib.search.indexing import index_all
from chatmemory.models import Conversation
from chatmemory.models.branch import NOTHING, BranchTree
from tests.support import budget
from tests.support.imports import run_import

pytestmark = pytest.mark.django_db

examples = settings(max_examples=budget.examples(6), deadline=None, suppress_health_check=list(HealthCheck))

SIMPLE = ["user", "assistant", "system"]
KINDS = [*SIMPLE, "user", "assistant", "call", "result", "thought", "hidden", "empty", None]


def message(key: str, kind: str, time: float | None) -> dict[str, Any]:
    role = {"call": "assistant", "result": "tool", "thought": "assistant", "hidden": "user", "empty": "user"}
    content: dict[str, Any] = {"content_type": "text", "parts": ["" if kind == "empty" else f"text of {key}"]}
    if kind == "thought":
        content = {"content_type": "thoughts", "thoughts": [{"summary": key, "content": ""}]}
    return {
        "id": key,
        "author": {"role": role.get(kind, kind), "name": "python" if kind == "result" else None},
        "content": content,
        "recipient": "python" if kind == "call" else "all",
        "metadata": {"is_visually_hidden_from_conversation": True} if kind == "hidden" else {},
        "create_time": time,
    }


def export(nodes: list[tuple[str | None, str | None, float | None]], name: str, current: str | None) -> dict[str, Any]:
    """A conversation of nodes, each with its parent, the kind of its message, and its time."""
    mapping: dict[str, Any] = {}
    for number, (parent, kind, time) in enumerate(nodes):
        key = f"n{number}"
        own = kind and message(key, kind, time)
        mapping[key] = {"id": key, "message": own, "parent": parent, "children": []}
        if parent is not None:
            mapping[parent]["children"].append(key)
    return {"conversation_id": name, "title": name, "mapping": mapping, "current_node": current}


@st.composite
def talks(draw: st.DrawFn, kinds: list[str | None] = KINDS, *, in_order: bool = False) -> dict[str, Any]:
    """A conversation with branches in branches, and several roots."""
    chance = draw(st.randoms(use_true_random=False))
    times = [1_700_000_000.0 + (number if in_order else chance.randrange(20)) for number in range(14)]
    nodes: list[tuple[str | None, str | None, float | None]] = []
    for number in range(draw(st.integers(1, 14))):
        near = [f"n{before}" for before in range(max(0, number - 4), number)]
        parent = (
            None if not near or chance.random() < 0.05 else near[-1] if chance.random() < 0.6 else chance.choice(near)
        )
        time = times[number] if in_order or chance.random() < 0.9 else None
        nodes.append((parent, chance.choice(kinds), time))
    return export(nodes, "talk", f"n{chance.randrange(len(nodes))}")


def imported(*talks: dict[str, Any]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "conversations.json"
        file.write_text(json.dumps(talks))
        return run_import("chatgpt", str(file))


Node = tuple[str, ...]
"""The IDs of the messages of the export of which a message is made."""


def path_to(talk: dict[str, Any], key: str | None) -> list[Any]:
    path = []
    while key is not None:
        path.append(talk["mapping"][key])
        key = talk["mapping"][key]["parent"]
    return path[::-1]


def leaves(talk: dict[str, Any], keys: list[str]) -> list[str]:
    """The last nodes of the branches, in the order of the children, and the current node where it is none of them."""
    found = []
    for key in keys:
        children = talk["mapping"][key]["children"]
        found += [key] if key == talk["current_node"] or not children else []
        found += leaves(talk, children)
    return found


def read_alone(talk: dict[str, Any], key: str) -> list[Node]:
    """The messages of one branch, imported as a conversation of its own."""
    path = path_to(talk, key)
    nodes = [(f"n{number - 1}" if number else None, None, None) for number in range(len(path))]
    alone = export(nodes, f"alone {key}", f"n{len(path) - 1}")
    for node, whole in zip(alone["mapping"].values(), path, strict=True):
        node["message"] = whole["message"]
    imported(alone)
    made = Conversation.objects.get(memory_id=f"alone {key}")
    assert not made.branches.exists()
    return [node_of(row) for row in made.messages.history()]


def node_of(row: Any) -> Node:
    return tuple(source["id"] for source in row.native_of("chatgpt"))


Tree = dict[tuple[Node, ...], list[Node]]
"""The messages that follow each branch, in order."""


def naive_tree(branches: list[list[Node]]) -> Tree:
    tree: Tree = {}
    for branch in branches:
        for number, node in enumerate(branch):
            following = tree.setdefault(tuple(branch[:number]), [])
            following += [] if node in following else [node]
    return tree


def tree_of(made: Conversation) -> tuple[Tree, tuple[Node, ...]]:
    """The tree of a conversation, with its system messages, and its current branch."""
    branches, said = BranchTree.read(made), {row.position: row for row in made.messages.history()}

    def path(position: int) -> tuple[Node, ...]:
        found = []
        while position != NOTHING:
            found += [node_of(said[position])] if position in said else []
            position = branches.before(position)
        return tuple(found[::-1])

    tree: Tree = {}
    for position, row in said.items():
        tree.setdefault(path(branches.before(position)), []).append(node_of(row))
    return tree, path(branches.end)


@pytest.mark.slow
@examples
@given(talk=talks())
def test_are_what_each_is_on_its_own(talk: dict[str, Any]) -> None:
    with transaction.atomic():
        roots = [key for key, node in talk["mapping"].items() if node["parent"] is None]
        alone = {key: read_alone(talk, key) for key in leaves(talk, roots)}
        imported(talk)
        made = Conversation.objects.get(memory_id="talk")
        tree, current = tree_of(made)
        assert tree == naive_tree([*alone.values()])
        assert current == tuple(alone[talk["current_node"]])
        rows = list(made.messages.history())
        times = [(row.created_at.timestamp(), row.native_of("chatgpt")[-1]["create_time"] or 0) for row in rows]
        assert all(stored >= told for stored, told in times), "a message is not older than the one before it"
        before = made.version
        assert "there already: 1" in imported(talk)
        made.refresh_from_db()
        assert made.version == before
        transaction.set_rollback(True)


@pytest.mark.slow
@examples
@given(talk=talks(SIMPLE, in_order=True), count=st.integers(1, 13), seed=st.integers(0, 9))
def test_that_were_said_since_are_added(talk: dict[str, Any], count: int, seed: int) -> None:
    with transaction.atomic():
        earlier = json.loads(json.dumps(talk))
        keys = [key for key in talk["mapping"] if int(key[1:]) < count]
        earlier["mapping"] = {key: earlier["mapping"][key] for key in keys}
        for node in earlier["mapping"].values():
            node["children"] = [key for key in node["children"] if key in keys]
        earlier["current_node"] = random.Random(seed).choice(keys)
        imported(earlier)
        imported(talk)
        in_parts = tree_of(Conversation.objects.get())
        Conversation.objects.all().delete()
        imported(talk)
        assert in_parts == tree_of(Conversation.objects.get())
        transaction.set_rollback(True)


@pytest.mark.slow
def test_with_many_messages_are_added_in_batches() -> None:
    chain = [(f"n{number - 1}" if number else None, "user", None) for number in range(450)]
    edits = [(f"n{parent}", "user", None) for parent in range(0, 450, 50)]
    imported(export([*chain, *edits], "talk", "n449"))
    made = Conversation.objects.get()
    assert made.message_count == 459
    assert made.tree().head == next(row.position for row in made.messages.history() if row.text == "text of n449")
    index_all(made)
    assert made.search("n455")[0].position == made.messages.history().get(text="text of n455").position
