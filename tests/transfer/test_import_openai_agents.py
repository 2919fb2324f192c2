"""The tables of OpenAI's Agents SDK, written by the SDK itself, made conversations of."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from chatmemory import AiMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory.models import Conversation
from chatmemory.transfer import tables
from tests.support.imports import row_texts, run_import, sqlalchemy_url

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sdks")]


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
                    session,
                    url=sqlalchemy_url(sqlite="sqlite+aiosqlite", postgresql="postgresql+psycopg"),
                    create_tables=True,
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
        assert "conversations: 2, messages: 5" in run_import("openai-agents-sql", "--from", "default")
        made = Conversation.objects.get(memory_id="s1")
        assert [row.message for row in made.messages.history()] == [
            UserMessage("Weather?"),
            AiMessage(None, [ToolExecutionRequest("c1", "weather", "{}")], thinking="Look."),
            ToolExecutionResultMessage("c1", "weather", "sunny"),
            AiMessage("Sunny."),
        ]
        assert "there already: 2" in run_import("openai-agents-sql", "--from", "default")

    def test_a_session_over_the_conversation_reads_what_the_sdk_wrote(self, write: Any) -> None:
        from chatmemory.contrib.openai_agents import DjangoSession

        written = write("s1", self.ITEMS)
        run_import("openai-agents-sql", "--from", "default")
        assert DjangoSession("s1")._items() == written == self.ITEMS

    def test_a_bad_row_is_named(self, write: Any) -> None:
        write("s1", self.ITEMS[:1])
        with connection.cursor() as cursor:
            cursor.execute("UPDATE agent_messages SET message_data = '{'")
        write("s1", self.ITEMS[:1])
        assert "default.agent_messages: id 1: not JSON" in run_import("openai-agents-sql", "--from", "default")
        assert row_texts("s1") == ["Weather?"]


class TestBranches:
    """Of ``AdvancedSQLiteSession``."""

    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        return tmp_path / "sessions.sqlite3"

    @pytest.fixture
    def source(self, file: Path, connect: Callable[[Path], str]) -> str:
        """The database with a session of three branches, beside one without any."""
        from agents import SQLiteSession
        from agents.extensions.memory import AdvancedSQLiteSession

        async def write() -> None:
            session = AdvancedSQLiteSession(session_id="s1", db_path=file, create_tables=True)
            for asked, answered in (("Tea?", "Green."), ("More?", "Black.")):
                await session.add_items(said(asked, answered))
            await session.create_branch_from_turn(2, "milk")
            await session.add_items(said("With milk?", "Yes."))
            await session.switch_to_branch("main")
            await session.add_items(said("Bye", "Bye."))
            await session.create_branch_from_turn(1, "new")
            await session.add_items(said("Coffee?", "No."))
            for branch, texts in self.BRANCHES.items():
                assert [item["content"] for item in await session.get_items(branch_id=branch)] == texts
            session.close()
            plain = SQLiteSession("s0", file)
            await plain.add_items(said("Hi", "Hello"))
            plain.close()

        asyncio.run(write())
        return connect(file)

    BRANCHES = {
        "main": ["Tea?", "Green.", "More?", "Black.", "Bye", "Bye."],
        "milk": ["Tea?", "Green.", "With milk?", "Yes."],
        "new": ["Coffee?", "No."],
    }

    def test_each_is_a_conversation(self, source: str) -> None:
        assert "conversations: 4, messages: 14; there already: 0" in run_import("openai-agents-sql", "--from", source)
        ids = {"main": "s1", "milk": "s1 (milk)", "new": "s1 (new)"}
        assert {branch: row_texts(memory_id) for branch, memory_id in ids.items()} == self.BRANCHES
        assert row_texts("s0") == ["Hi", "Hello"]
        made = Conversation.objects.get(memory_id="s1 (milk)")
        assert made.metadata["openai_agents"] == {"session_id": "s1", "branch_id": "milk"}
        assert "there already: 4" in run_import("openai-agents-sql", "--from", source)

    def test_pages(self, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """However they fall on the branches."""
        for size in (1, 2, 3):
            monkeypatch.setattr(tables, "_ROWS", size)
            monkeypatch.setattr(tables, "ROWS_AT_ONCE", size)
            run_import("openai-agents-sql", "--from", source)
            assert [row_texts("s1"), row_texts("s1 (milk)")] == [self.BRANCHES["main"], self.BRANCHES["milk"]]
            Conversation.objects.all().delete()

    def test_an_item_in_no_branch_is_named(self, file: Path, source: str) -> None:
        """As the SDK's first versions leave them behind."""
        with closing(sqlite3.connect(file)) as database, database:
            database.execute("DELETE FROM message_structure WHERE message_id = 4")
        text = run_import("openai-agents-sql", "--from", source)
        assert "source.agent_messages: id 4: message_structure puts it into no branch of session 's1'" in text
        assert row_texts("s1") == ["Tea?", "Green.", "More?", "Bye", "Bye."]

    def test_a_table_that_they_are_not_of_has_none(self, file: Path, source: str) -> None:
        with closing(sqlite3.connect(file)) as database, database:
            database.execute("CREATE TABLE others AS SELECT * FROM agent_messages WHERE session_id = 's1'")
        run_import("openai-agents-sql", "--from", source, "--table", "others")
        assert len(row_texts("s1")) == 10

    def test_a_table_of_the_same_name_that_is_something_else(self, file: Path, source: str) -> None:
        with closing(sqlite3.connect(file)) as database, database:
            database.execute("DROP TABLE message_structure")
            database.execute("CREATE TABLE message_structure (id INTEGER, session_id TEXT)")
            database.execute("INSERT INTO message_structure VALUES (1, 's1')")
        assert "conversations: 2, messages: 12" in run_import("openai-agents-sql", "--from", source)


class TestWhatIsNoItem:
    @pytest.fixture
    def source(self, tmp_path: Path, connect: Callable[[Path], str]) -> str:
        from agents import SQLiteSession
        from agents.extensions.memory.encrypt_session import EncryptedSession

        async def write() -> None:
            plain = SQLiteSession("s1", tmp_path / "sessions.sqlite3")
            await plain.add_items(said("Hi", "Hello"))
            await EncryptedSession("s1", plain, "key").add_items(said("Secret", "Told."))
            await plain.add_items([{"foo": 1}, *said("Bye")])
            other = SQLiteSession("s2", tmp_path / "sessions.sqlite3")
            await EncryptedSession("s2", other, "key").add_items(said("Secret"))
            plain.close()
            other.close()

        asyncio.run(write())
        return connect(tmp_path / "sessions.sqlite3")

    def test_is_named_and_left_out(self, source: str) -> None:
        text = run_import("openai-agents-sql", "--from", source)
        assert [line.partition(";")[0] for line in text.splitlines()[:-1]] == [
            "source.agent_messages: id 3: is encrypted",
            "source.agent_messages: id 4: is encrypted",
            "source.agent_messages: id 5: is no item of the Agents SDK: it has no type, role or id",
            "source.agent_messages: id 7: is encrypted",
        ]
        assert row_texts("s1") == ["Hi", "Hello", "Bye"]
        assert not Conversation.objects.filter(memory_id="s2").exists()


def said(*texts: str) -> list[Any]:
    """A user and a model in turn."""
    return [{"role": ("user", "assistant")[index % 2], "content": text} for index, text in enumerate(texts)]
