"""LangGraph's checkpoints in exports, imports and ``chatmemory_verify``."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.db import connection
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from chatmemory import AiMessage, UserMessage
from chatmemory.contrib.langgraph.models import ChannelValue, Checkpoint, Namespace, Write
from chatmemory.contrib.langgraph.saver import DjangoSaver
from chatmemory.models import Conversation
from chatmemory.transfer.export import conversation_lines
from chatmemory.verification import verify
from tests.contrib.langgraph.test_messages import Steps, Turned, human
from tests.contrib.langgraph.test_saver import CONFIG, agent_graph
from tests.support.citus import WORKERS

pytestmark = pytest.mark.django_db

TABLES = (Namespace, Checkpoint, ChannelValue, Write)


def exported(path: Path) -> Path:
    file = path / "all.jsonl"
    file.write_text("".join(conversation_lines(Conversation.objects.order_by("pk").values_list("pk", flat=True))))
    return file


def imported(file: Path, *options: str) -> str:
    out = io.StringIO()
    with suppress(SystemExit):  # something is left out
        call_command("chatmemory_import", str(file), *options, stdout=out, stderr=out)
    return out.getvalue()


@contextmanager
def without_foreign_keys() -> Iterator[None]:
    """Write as a restored backup does."""
    if connection.vendor != "postgresql":
        with connection.constraint_checks_disabled():
            yield
        return
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        yield
        cursor.execute("SET session_replication_role = DEFAULT")


def counts() -> list[int]:
    return [model._default_manager.count() for model in TABLES]


def states(saver: DjangoSaver) -> Any:
    """All that a graph can read of its thread."""
    return [
        (one.config, one.checkpoint, one.metadata, one.parent_config, one.pending_writes) for one in saver.list(CONFIG)
    ]


def steps_of(saver: DjangoSaver) -> Steps:
    steps = Steps(saver)
    steps.put(human("a"))
    steps.put(human("a", "b"))
    saver.put_writes(steps.config, [("messages", human("c")), ("note", b"\x00\xff")], "task", "~a, b")
    steps.put([], checkpoint_ns="inner:1")
    return steps


class TestTransfer:
    @pytest.mark.parametrize("serde", [None, EncryptedSerializer(Turned())], ids=["plain", "encrypted"])
    def test_an_import_restores_what_an_export_has(self, tmp_path: Path, serde: Any) -> None:
        saver = DjangoSaver(serde=serde)
        steps_of(saver)
        known, rows, file = states(saver), counts(), exported(tmp_path)
        times = list(Checkpoint.objects.order_by("pk").values_list("created_at", flat=True))
        text = file.read_text()
        Conversation.objects.all().delete()
        assert counts() == [0] * 4
        assert "left out: 0" in imported(file, "--dry-run")
        assert counts() == [0] * 4
        assert "left out: 0" in imported(file)
        assert states(saver) == known
        assert counts() == rows
        assert list(Checkpoint.objects.order_by("pk").values_list("created_at", flat=True)) == times
        assert exported(tmp_path).read_text() == text
        assert "there already: 1, left out: 0" in imported(file)
        assert list(verify()) == []

    @pytest.mark.slow
    @pytest.mark.django_db(transaction=True)
    def test_a_run_goes_on_after_it(self, tmp_path: Path) -> None:
        graph = agent_graph(DjangoSaver())
        graph.invoke({"messages": HumanMessage("Weather?")}, CONFIG)
        said = Conversation.objects.get().message_count
        file = exported(tmp_path)
        Conversation.objects.all().delete()
        imported(file)
        assert len(graph.invoke({"messages": HumanMessage("And now?")}, CONFIG)["messages"]) == 2 * said
        conversation = Conversation.objects.get()
        assert conversation.message_count == 2 * said
        assert [message for message in conversation.memory.messages() if isinstance(message, UserMessage)] == [
            UserMessage("Weather?"),
            UserMessage("And now?"),
        ]
        assert isinstance(conversation.memory.messages()[-1], AiMessage)

    @pytest.mark.parametrize(
        ("kind", "change", "problem"),
        [
            ("checkpoint", {"stored": {}}, "stored: expected the type and the Base64 of state"),
            ("checkpoint", {"checkpoint": "a" * 65}, "checkpoint checkpoint_id has 65 characters; at most 64"),
            ("checkpoint", {"versions": {"messages": 1}}, "versions: expected texts and nulls"),
            ("checkpoint", {"more": 1}, "'more' is unknown"),
            ("channel", {"stored": {"value": {"type": "msgpack", "base64": "!"}}}, "the Base64 of value"),
            ("channel", {"version": "a\x00b"}, "U+0000"),
            ("task", {"index": "1"}, "index: expected a whole number"),
            ("mirrored", {"mirrored": None}, "mirrored: expected a text"),
        ],
    )
    def test_a_bad_line_leaves_the_conversation_out(
        self, tmp_path: Path, kind: str, change: dict[str, Any], problem: str
    ) -> None:
        steps_of(DjangoSaver())
        file = exported(tmp_path)
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        number = next(number for number, line in enumerate(lines) if kind in line and "app" in line)
        lines[number] |= change
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        Conversation.objects.all().delete()
        for options in (["--dry-run"], []):
            said = imported(file, *options)
            assert f"all.jsonl:{number + 1}: " in said
            assert problem in said
        assert not Conversation.objects.exists()

    def test_a_file_that_was_only_for_people_is_read_without_its_checkpoints(self, tmp_path: Path) -> None:
        """Earlier versions wrote checkpoints behind the end of the conversation, without an app."""
        steps_of(DjangoSaver())
        file = exported(tmp_path)
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        own = [line for line in lines if "app" not in line]
        del own[-1]["end"]["others"]
        others = [{name: value for name, value in line.items() if name != "app"} for line in lines if "app" in line]
        file.write_text("".join(json.dumps(line) + "\n" for line in [*own, *others]))
        Conversation.objects.all().delete()
        assert "conversations: 1, messages: 2; there already: 0, left out: 1" in imported(file)
        assert Conversation.objects.get().message_count == 2


class TestVerify:
    def test_a_checkpoint_without_its_values_is_deleted_with_its_writes(self) -> None:
        saver = DjangoSaver()
        steps_of(saver)
        second = Checkpoint.objects.filter(namespace__name="").order_by("-checkpoint_id")[0]
        ChannelValue.objects.of(second).filter(version=second.versions["messages"]).delete()
        (found,) = verify()
        assert found.conversation == second.conversation_id
        assert (found.what, found.found) == (
            f"LangGraph checkpoint {second.checkpoint_id!r} of graph ''",
            "none of messages",
        )
        assert Checkpoint.objects.filter(pk=second.pk).exists()
        assert [one.repaired for one in verify(repair=True)] == [True]
        assert not Checkpoint.objects.filter(pk=second.pk).exists()
        assert not Write.objects.exists()
        assert list(verify()) == []
        latest = saver.get_tuple(CONFIG)
        assert latest is not None
        assert latest.checkpoint["channel_values"]["messages"] == human("a")

    def test_it_stays_where_later_ones_may_be_built_on_it(self) -> None:
        steps_of(DjangoSaver())
        ChannelValue.objects.filter(namespace__name="").delete()
        newest = Checkpoint.objects.filter(namespace__name="").order_by("-checkpoint_id")[0]
        Checkpoint.objects.filter(pk=newest.pk).update(versions={"messages": None})
        assert [one.repaired for one in verify(repair=True)] == [False]
        assert Checkpoint.objects.filter(namespace__name="").count() == 2

    def test_only_the_chosen_conversations_are_looked_at(self) -> None:
        Steps(DjangoSaver()).put(human("a"))
        ChannelValue.objects.all().delete()
        others = Conversation.objects.exclude(memory_id="t")
        assert list(verify(others)) == []

    @pytest.mark.slow
    @pytest.mark.skipif(bool(WORKERS), reason="the nodes cannot be told to check no foreign keys")
    @pytest.mark.django_db(transaction=True)
    def test_what_belongs_to_no_conversation_is_deleted(self) -> None:
        saver = DjangoSaver()
        steps_of(saver)
        rows, known, gone = counts(), states(saver), uuid4()
        with without_foreign_keys():
            space = Namespace(conversation_id=gone, name="")
            Namespace.objects.bulk_create([space])
            of = {"conversation_id": gone, "namespace_id": space.pk}
            Write.objects.create(**of, checkpoint_id="1", task_id="t", index=0, channel="c", type="t", value=b"")
            ChannelValue.objects.create(**of, channel="c", version="1", type="t", value=b"")
        assert {(one.conversation, one.what) for one in verify()} == {
            (gone, f"LangGraph {name}") for name in ("namespaces", "channel values", "writes")
        }
        assert list(verify(Conversation.objects.filter(memory_id="t"))) == []
        assert [one.repaired for one in verify(repair=True)] == [True] * 3
        assert counts() == rows
        assert list(verify()) == []
        assert states(saver) == known
