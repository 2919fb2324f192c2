"""Tables of other programs, written by these programs themselves, made conversations of."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError
from django.db import connection
from langchain_core.messages import BaseMessage, HumanMessage

from chatmemory import AiMessage, CustomMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory import SystemMessage as Instructions
from chatmemory.models import Conversation, Message
from chatmemory.transfer import tables
from tests.support.factories import UserFactory
from tests.support.imports import row_texts, run_import, sqlalchemy_url
from tests.support.langchain_talk import langchain_talk

pytestmark = pytest.mark.django_db(transaction=True)


class TestLangChain:
    @pytest.fixture
    def write(self, drop: Any) -> Iterator[Any]:
        from langchain_community.chat_message_histories import SQLChatMessageHistory
        from sqlalchemy import create_engine

        drivers = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "mysql": "mysql+mysqldb"}
        engine = create_engine(sqlalchemy_url(**drivers))
        drop(["message_store", "other_store"])

        def write(session: str, messages: list[BaseMessage], table: str = "message_store") -> SQLChatMessageHistory:
            history = SQLChatMessageHistory(session, table_name=table, connection=engine)
            history.add_messages(messages)
            return history

        yield write
        engine.dispose()

    def test_sessions(self, write: Any) -> None:
        for part in range(5):  # two at once
            write("s/1", langchain_talk()[part : part + 1])
            write("s2", [HumanMessage(f"é {part}")])
        assert "conversations: 2, messages: 10" in run_import("langchain-sql", "--from", "default")
        said = [row.message for row in Conversation.objects.get(memory_id="s/1").messages.history()]
        assert said[0] == Instructions("Be kind.")
        assert said[2:] == [
            AiMessage(None, [ToolExecutionRequest("c1", "weather", '{"city":"Rome"}')]),
            ToolExecutionResultMessage("c1", "weather", "sunny"),
            AiMessage("Sunny."),
        ]
        assert row_texts("s2") == [f"é {part}" for part in range(5)]
        assert "there already: 2" in run_import("langchain-sql", "--from", "default")

    def test_ids_are_told_apart_by_every_character(self, write: Any) -> None:
        for part in range(2):
            for session in ("ann", "Ann", "änn"):
                write(session, [HumanMessage(f"{session} {part}")])
        assert "conversations: 3, messages: 6" in run_import("langchain-sql", "--from", "default")
        assert row_texts("Ann") == ["Ann 0", "Ann 1"]

    def test_langchain_reads_what_it_wrote(self, write: Any) -> None:
        from chatmemory.contrib.langchain.messages import from_row

        history = write("s1", langchain_talk())
        run_import("langchain-sql", "--from", "default")
        assert [from_row(row) for row in Message.objects.order_by("position")] == history.messages == langchain_talk()

    def test_what_was_added_since(self, write: Any) -> None:
        write("s1", langchain_talk()[:2])
        run_import("langchain-sql", "--from", "default")
        write("s1", langchain_talk()[2:])
        assert "messages: 3;" in run_import("langchain-sql", "--from", "default")
        assert Message.objects.count() == 5

    def test_another_table(self, write: Any) -> None:
        write("s1", langchain_talk(), "other_store")
        assert "message_store: there is no such table" in run_import("langchain-sql", "--from", "default")
        assert "messages: 5" in run_import("langchain-sql", "--from", "default", "--table", "other_store")
        assert "auth_user: has no column session_id" in run_import(
            "langchain-sql", "--from", "default", "--table", "auth_user"
        )

    def test_a_bad_row_is_named(self, write: Any) -> None:
        write("s1", langchain_talk()[:1])
        for session, text in (("s1", "{"), ("s1", '{"type": "dog", "data": {}}'), ("s1", "[]"), (None, "{}")):
            with connection.cursor() as cursor:
                cursor.execute("INSERT INTO message_store (session_id, message) VALUES (%s, %s)", [session, text])
        said = run_import("langchain-sql", "--from", "default")
        assert "default.message_store: id 2: not JSON" in said
        assert "default.message_store: id 3: no message of LangChain's" in said
        assert "default.message_store: id 4: expected a JSON object" in said
        assert "1 messages have no session_id" in said
        assert row_texts("s1") == ["Be kind."]

    @pytest.mark.slow
    def test_pages(self, write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """However they fall on the sessions."""
        for number in range(5):
            for session in range(3):
                write(f"s{session}", [HumanMessage(f"{session} {number}")] * (session + 1))
        for size in (1, 2, 3, 100):
            monkeypatch.setattr(tables, "_ROWS", size)
            assert "messages: 30;" in run_import("langchain-sql", "--from", "default")
            assert row_texts("s1") == [f"1 {number}" for number in range(5) for _ in range(2)]
            Conversation.objects.all().delete()


# What the schemas that spring-ai-model-chat-memory-repository-jdbc publishes have beside ID, content and type.
_TIMES = {"sqlite": "timestamp INTEGER", "postgresql": '"timestamp" TIMESTAMP', "mysql": "`timestamp` TIMESTAMP"}
SPRING_AI = {"timestamp": _TIMES[connection.vendor], "sequence": "sequence_id BIGINT"}


def moment(second: int) -> Any:
    """A time as JDBC writes it."""
    return 1_700_000_000_000 + second * 1000 if connection.vendor == "sqlite" else f"2023-11-14 22:13:{20 + second}"


def insert(*values: Any) -> None:
    """Insert a row of Spring AI's."""
    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO SPRING_AI_CHAT_MEMORY VALUES ({', '.join(['%s'] * len(values))})", values)


class TestSpringAi:
    """Its rows as ``JdbcChatMemoryRepository.saveAll`` writes them; the project itself needs Java."""

    ROWS = (("SYSTEM", "Be kind."), ("USER", "Weather?"), ("ASSISTANT", ""), ("TOOL", ""), ("ASSISTANT", "Sunny."))

    @pytest.fixture(params=["timestamp", "sequence"])
    def kind(self, request: pytest.FixtureRequest, drop: Any) -> str:
        drop(["SPRING_AI_CHAT_MEMORY" if connection.vendor != "postgresql" else "spring_ai_chat_memory"])
        with connection.cursor() as cursor:
            cursor.execute(
                "CREATE TABLE SPRING_AI_CHAT_MEMORY (conversation_id VARCHAR(36) NOT NULL, content TEXT NOT NULL, "
                f"type VARCHAR(10) NOT NULL, {SPRING_AI[request.param]} NOT NULL)"
            )
        return str(request.param)

    @pytest.fixture
    def write(self, kind: str) -> Any:
        def write(id: str, rows: Any) -> None:
            for number, (type, text) in enumerate(rows):
                insert(id, text, type, moment(number) if kind == "timestamp" else number)

        return write

    def test_conversations(self, write: Any, kind: str) -> None:
        write("c1", self.ROWS)
        write("c2", self.ROWS[1:2])
        assert "conversations: 2, messages: 6" in run_import("spring-ai-sql", "--from", "default")
        rows = list(Conversation.objects.get(memory_id="c1").messages.history())
        assert [row.message for row in rows] == [
            Instructions("Be kind."),
            UserMessage("Weather?"),
            AiMessage(""),
            CustomMessage({"framework": "spring_ai", "type": "TOOL", "text": ""}),
            AiMessage("Sunny."),
        ]
        if kind == "timestamp":
            assert [row.created_at.timestamp() for row in rows] == [1_700_000_000 + number for number in range(5)]
        assert "there already: 2" in run_import("spring-ai-sql", "--from", "default")

    def test_ids_are_told_apart_by_every_character(self, write: Any) -> None:
        for id in ("ann", "Ann", "änn"):
            write(id, [("USER", id)])
        assert "conversations: 3, messages: 3" in run_import("spring-ai-sql", "--from", "default")
        assert row_texts("Ann") == ["Ann"]

    @pytest.mark.parametrize("kind", ["timestamp"], indirect=True)
    def test_a_table_that_was_migrated_to_numbers(self, kind: str) -> None:
        """Where nothing was written since, all of them are 0."""
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE SPRING_AI_CHAT_MEMORY ADD COLUMN sequence_id BIGINT NOT NULL DEFAULT 0")
        for number in (2, 0, 3, 1):
            insert("old", str(number), "USER", moment(number), 0)
            insert("new", str(number), "USER", moment(9 - number), number)
        run_import("spring-ai-sql", "--from", "default")
        assert row_texts("old") == row_texts("new") == ["0", "1", "2", "3"]

    def test_many(self, write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        for number in range(5):
            write(f"c{number}", self.ROWS[:2])
        monkeypatch.setattr(tables, "_ROWS", 2)
        assert "conversations: 5, messages: 10" in run_import("spring-ai-sql", "--from", "default")


class TestDjangoAiAssistant:
    @pytest.fixture
    def source(self, tmp_path: Path, connect: Callable[[Path], str]) -> str:
        """The database of another project, with the threads that the package wrote."""
        file = tmp_path / "assistant.sqlite3"
        settings = {"DJANGO_SETTINGS_MODULE": "tests.settings.ai_assistant", "CHATMEMORY_TEST_AI_ASSISTANT": str(file)}
        subprocess.run(
            [sys.executable, "-m", "tests.tools.write_ai_assistant"], env=os.environ | settings, check=True, timeout=300
        )
        return connect(file)

    def test_threads(self, source: str) -> None:
        from chatmemory.contrib.langchain.messages import from_row

        said = run_import("django-ai-assistant", "--from", source)
        assert (
            "source.django_ai_assistant_thread: thread 1: there is no user 'ann'; create one, or use --map-owner"
            in said
        )
        ann = UserFactory(username="ann")
        assert "conversations: 2, messages: 5; there already: 1" in run_import("django-ai-assistant", "--from", source)
        made = Conversation.objects.get(memory_id="thread-2")
        assert (made.owner, made.title) == (ann, "Weather")
        assert made.metadata["django_ai_assistant"] == {"assistant_id": "weather"}
        assert row_texts("thread-2") == ["Be kind.", "Weather here?", "", "sunny", "Sunny."]
        again = [from_row(row) for row in made.messages.order_by("position")]
        assert [message.id for message in again] == ["1", "2", "3", "4", "5"]
        assert [message.content for message in again] == [message.content for message in langchain_talk()]
        assert made.created_at < made.messages.first().created_at < made.messages.last().created_at
        assert Conversation.objects.get(memory_id="thread-3").owner is None
        assert "there already: 3" in run_import("django-ai-assistant", "--from", source)


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["langchain-sql"], "name their database with --from"),
        (["langchain-sql", "--from", "nope"], "--from: there is no 'nope' in DATABASES"),
        (["openai", "--from", "default"], "reads files; give at least one FILE, and no --from"),
        (["openai"], "reads files; give at least one FILE, and no --from"),
    ],
)
def test_options_that_cannot_be(args: list[str], problem: str) -> None:
    with pytest.raises(CommandError, match=problem):
        run_import(*args)
