"""Tables of other programs, written by these programs themselves, made conversations of."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, connections
from langchain_core.messages import BaseMessage, HumanMessage

from chatmemory import AiMessage, CustomMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory import SystemMessage as Instructions
from chatmemory.models import Conversation, Message
from chatmemory.transfer.sources.tables import table as tables
from chatmemory.verification import verify
from tests.support.factories import UserFactory
from tests.support.langchain_talk import langchain_talk

pytestmark = pytest.mark.django_db(transaction=True)


def run(*args: str) -> str:
    out = io.StringIO()
    try:
        call_command("chatmemory_import", "--format", *args, stdout=out, stderr=out)
    except SystemExit:
        assert "left out: 0" not in out.getvalue()
    else:
        assert "left out: 0" in out.getvalue()
    assert list(verify()) == []
    return out.getvalue()


@pytest.fixture
def drop() -> Iterator[Any]:
    """Names tables that are gone after the test."""
    names: list[str] = []
    yield names.extend
    with connection.cursor() as cursor:
        for name in names:
            cursor.execute(f"DROP TABLE IF EXISTS {connection.ops.quote_name(name)}")


def url(**drivers: str) -> str:
    """The test database as SQLAlchemy calls it."""
    of = connection.settings_dict
    driver = drivers[connection.vendor]
    if connection.vendor == "sqlite":
        return f"{driver}:///{of['NAME']}"
    return f"{driver}://{of['USER']}:{of['PASSWORD']}@{of['HOST']}/{of['NAME']}"


def row_texts(memory_id: str) -> list[str]:
    return [row.text for row in Conversation.objects.get(memory_id=memory_id).messages.history()]


class TestLangChain:
    @pytest.fixture
    def write(self, drop: Any) -> Iterator[Any]:
        from langchain_community.chat_message_histories import SQLChatMessageHistory
        from sqlalchemy import create_engine

        drivers = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "mysql": "mysql+mysqldb"}
        engine = create_engine(url(**drivers))
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
        assert "conversations: 2, messages: 10" in run("langchain-sql", "--from", "default")
        said = [row.message for row in Conversation.objects.get(memory_id="s/1").messages.history()]
        assert said[0] == Instructions("Be kind.")
        assert said[2:] == [
            AiMessage(None, [ToolExecutionRequest("c1", "weather", '{"city":"Rome"}')]),
            ToolExecutionResultMessage("c1", "weather", "sunny"),
            AiMessage("Sunny."),
        ]
        assert row_texts("s2") == [f"é {part}" for part in range(5)]
        assert "there already: 2" in run("langchain-sql", "--from", "default")

    def test_ids_are_told_apart_by_every_character(self, write: Any) -> None:
        for part in range(2):
            for session in ("ann", "Ann", "änn"):
                write(session, [HumanMessage(f"{session} {part}")])
        assert "conversations: 3, messages: 6" in run("langchain-sql", "--from", "default")
        assert row_texts("Ann") == ["Ann 0", "Ann 1"]

    def test_langchain_reads_what_it_wrote(self, write: Any) -> None:
        from chatmemory.contrib.langchain.messages import from_row

        history = write("s1", langchain_talk())
        run("langchain-sql", "--from", "default")
        assert [from_row(row) for row in Message.objects.order_by("position")] == history.messages == langchain_talk()

    def test_what_was_added_since(self, write: Any) -> None:
        write("s1", langchain_talk()[:2])
        run("langchain-sql", "--from", "default")
        write("s1", langchain_talk()[2:])
        assert "messages: 3;" in run("langchain-sql", "--from", "default")
        assert Message.objects.count() == 5

    def test_another_table(self, write: Any) -> None:
        write("s1", langchain_talk(), "other_store")
        assert "message_store: there is no such table" in run("langchain-sql", "--from", "default")
        assert "messages: 5" in run("langchain-sql", "--from", "default", "--table", "other_store")
        assert "auth_user: has no column session_id" in run(
            "langchain-sql", "--from", "default", "--table", "auth_user"
        )

    def test_a_bad_row_is_named(self, write: Any) -> None:
        write("s1", langchain_talk()[:1])
        for session, text in (("s1", "{"), ("s1", '{"type": "dog", "data": {}}'), ("s1", "[]"), (None, "{}")):
            with connection.cursor() as cursor:
                cursor.execute("INSERT INTO message_store (session_id, message) VALUES (%s, %s)", [session, text])
        said = run("langchain-sql", "--from", "default")
        assert "default.message_store: id 2: not JSON" in said
        assert "default.message_store: id 3: no message of LangChain's" in said
        assert "default.message_store: id 4: expected a JSON object" in said
        assert "1 messages have no session_id" in said
        assert row_texts("s1") == ["Be kind."]

    def test_pages(self, write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """However they fall on the sessions."""
        for number in range(5):
            for session in range(3):
                write(f"s{session}", [HumanMessage(f"{session} {number}")] * (session + 1))
        for size in (1, 2, 3, 100):
            monkeypatch.setattr(tables, "_ROWS", size)
            assert "messages: 30;" in run("langchain-sql", "--from", "default")
            assert row_texts("s1") == [f"1 {number}" for number in range(5) for _ in range(2)]
            Conversation.objects.all().delete()


@pytest.mark.skipif(connection.vendor == "mysql", reason="SQLAlchemySession makes no tables on MySQL and MariaDB")
class TestOpenAiAgents:
    ITEMS: list[Any] = [
        {"role": "user", "content": "Weather?"},
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "Look."}],
            "encrypted_content": "x",
        },
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "c1",
            "name": "weather",
            "arguments": "{}",
            "status": "completed",
        },
        {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
        {"role": "assistant", "content": "Sunny.", "type": "message"},
    ]

    @pytest.fixture
    def write(self, drop: Any) -> Any:
        from agents.extensions.memory import SQLAlchemySession

        drop(["agent_messages", "agent_sessions"])

        def write(session: str, items: list[Any]) -> list[Any]:
            async def add() -> list[Any]:
                made = SQLAlchemySession.from_url(
                    session, url=url(sqlite="sqlite+aiosqlite", postgresql="postgresql+psycopg"), create_tables=True
                )
                await made.add_items(items)
                try:
                    return list(await made.get_items())
                finally:
                    await made._engine.dispose()

            return asyncio.run(add())

        return write

    def test_sessions(self, write: Any) -> None:
        write("s1", self.ITEMS)
        write("s2", self.ITEMS[:1])
        assert "conversations: 2, messages: 5" in run("openai-agents-sql", "--from", "default")
        made = Conversation.objects.get(memory_id="s1")
        assert [row.message for row in made.messages.history()] == [
            UserMessage("Weather?"),
            AiMessage(None, [ToolExecutionRequest("c1", "weather", "{}")], thinking="Look."),
            ToolExecutionResultMessage("c1", "weather", "sunny"),
            AiMessage("Sunny."),
        ]
        assert "there already: 2" in run("openai-agents-sql", "--from", "default")

    def test_a_session_over_the_conversation_reads_what_the_sdk_wrote(self, write: Any) -> None:
        from chatmemory.contrib.openai_agents import DjangoSession

        written = write("s1", self.ITEMS)
        run("openai-agents-sql", "--from", "default")
        assert DjangoSession("s1")._items() == written == self.ITEMS

    def test_a_bad_row_is_named(self, write: Any) -> None:
        write("s1", self.ITEMS[:1])
        with connection.cursor() as cursor:
            cursor.execute("UPDATE agent_messages SET message_data = '{'")
        write("s1", self.ITEMS[:1])
        assert "default.agent_messages: id 1: not JSON" in run("openai-agents-sql", "--from", "default")
        assert row_texts("s1") == ["Weather?"]


# What the schemas that spring-ai-model-chat-memory-repository-jdbc publishes have beside ID, content and type.
_TIMES = {"sqlite": "timestamp INTEGER", "postgresql": '"timestamp" TIMESTAMP', "mysql": "`timestamp` TIMESTAMP"}
SPRING_AI = {"timestamp": _TIMES[connection.vendor], "sequence": "sequence_id BIGINT"}


class TestSpringAi:
    """Its rows as ``JdbcChatMemoryRepository.saveAll`` writes them; the project itself needs Java."""

    ROWS = (("SYSTEM", "Be kind."), ("USER", "Weather?"), ("ASSISTANT", ""), ("TOOL", ""), ("ASSISTANT", "Sunny."))

    @pytest.fixture(params=["timestamp", "sequence"])
    def write(self, request: pytest.FixtureRequest, drop: Any) -> Any:
        name = "SPRING_AI_CHAT_MEMORY" if connection.vendor != "postgresql" else "spring_ai_chat_memory"
        drop([name])
        with connection.cursor() as cursor:
            cursor.execute(
                "CREATE TABLE SPRING_AI_CHAT_MEMORY (conversation_id VARCHAR(36) NOT NULL, content TEXT NOT NULL, "
                f"type VARCHAR(10) NOT NULL, {SPRING_AI[request.param]} NOT NULL)"
            )

        def write(id: str, rows: Any) -> None:
            for number, (kind, text) in enumerate(rows):
                order: Any = number
                if request.param == "timestamp":
                    order = (
                        1_700_000_000_000 + number * 1000
                        if connection.vendor == "sqlite"
                        else f"2023-11-14 22:13:{20 + number}"
                    )
                with connection.cursor() as cursor:
                    cursor.execute("INSERT INTO SPRING_AI_CHAT_MEMORY VALUES (%s, %s, %s, %s)", [id, text, kind, order])

        write.kind = request.param  # type: ignore[attr-defined]
        return write

    def test_conversations(self, write: Any) -> None:
        write("c1", self.ROWS)
        write("c2", self.ROWS[1:2])
        assert "conversations: 2, messages: 6" in run("spring-ai-sql", "--from", "default")
        rows = list(Conversation.objects.get(memory_id="c1").messages.history())
        assert [row.message for row in rows] == [
            Instructions("Be kind."),
            UserMessage("Weather?"),
            AiMessage(""),
            CustomMessage({"framework": "spring_ai", "type": "TOOL", "text": ""}),
            AiMessage("Sunny."),
        ]
        if write.kind == "timestamp":
            assert [row.created_at.timestamp() for row in rows] == [1_700_000_000 + number for number in range(5)]
        assert "there already: 2" in run("spring-ai-sql", "--from", "default")

    def test_ids_are_told_apart_by_every_character(self, write: Any) -> None:
        for id in ("ann", "Ann", "änn"):
            write(id, [("USER", id)])
        assert "conversations: 3, messages: 3" in run("spring-ai-sql", "--from", "default")
        assert row_texts("Ann") == ["Ann"]

    def test_many(self, write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        for number in range(5):
            write(f"c{number}", self.ROWS[:2])
        monkeypatch.setattr(tables, "_ROWS", 2)
        assert "conversations: 5, messages: 10" in run("spring-ai-sql", "--from", "default")


class TestDjangoAiAssistant:
    @pytest.fixture
    def source(self, tmp_path: Path) -> Iterator[str]:
        """The database of another project, with the threads that the package wrote."""
        file = str(tmp_path / "assistant.sqlite3")
        settings = {"DJANGO_SETTINGS_MODULE": "tests.settings.ai_assistant", "CHATMEMORY_TEST_AI_ASSISTANT": file}
        subprocess.run(
            [sys.executable, "-m", "tests.tools.write_ai_assistant"], env=os.environ | settings, check=True, timeout=120
        )
        connections.databases["source"] = connections.databases["other"] | {"NAME": file}
        connections["source"].connect()  # Django's tests let no other alias connect by itself
        yield "source"
        connections["source"].close()
        del connections["source"], connections.databases["source"]

    def test_threads(self, source: str) -> None:
        from chatmemory.contrib.langchain.messages import from_row

        said = run("django-ai-assistant", "--from", source)
        assert (
            "source.django_ai_assistant_thread: thread 1: there is no user 'ann'; create one, or use --map-owner"
            in said
        )
        ann = UserFactory(username="ann")
        assert "conversations: 2, messages: 5; there already: 1" in run("django-ai-assistant", "--from", source)
        made = Conversation.objects.get(memory_id="thread-2")
        assert (made.owner, made.title) == (ann, "Weather")
        assert made.metadata["django_ai_assistant"] == {"assistant_id": "weather"}
        assert row_texts("thread-2") == ["Be kind.", "Weather here?", "", "sunny", "Sunny."]
        again = [from_row(row) for row in made.messages.order_by("position")]
        assert [message.id for message in again] == ["1", "2", "3", "4", "5"]
        assert [message.content for message in again] == [message.content for message in langchain_talk()]
        assert made.created_at < made.messages.first().created_at < made.messages.last().created_at
        assert Conversation.objects.get(memory_id="thread-3").owner is None
        assert "there already: 3" in run("django-ai-assistant", "--from", source)


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
        run(*args)
