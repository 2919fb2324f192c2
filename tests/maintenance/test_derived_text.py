"""What is made of messages falls with them, in whatever column it is, and also if it comes while they are erased."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.apps import apps
from django.contrib.admin.models import LogEntry
from django.db import connection, models
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from pydantic_ai.conversation_store import ConversationEntry, ConversationRecord
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.tools import DeferredToolRequests

from chatmemory import (
    AiMessage,
    ChatMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.assistant import Assistant, TurnLostError
from chatmemory.contrib.feedback.giving import give_feedback
from chatmemory.contrib.langgraph.saver import DjangoSaver
from chatmemory.contrib.pydantic_ai import DjangoConversationStore
from chatmemory.models import Conversation
from chatmemory.personal_data import erase_user
from chatmemory.retention import purge_conversations, purge_evicted, purge_keys
from chatmemory.stores import DjangoChatMemoryStore
from chatmemory.verification import verify
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db(transaction=True)

WORD = "xyzzy"
LONG = " word" * 95
CREATION = {"memory_id": f"{WORD}-1", "title": f"About {WORD}", "metadata": {WORD: WORD}}

MESSAGES = {"Message.text", "Message.payload", "Message.native"}
NAMES = {"Conversation.memory_id", "Conversation.title", "Conversation.metadata"}
KEYS = {"IdempotencyKey.key", "IdempotencyKey.account"}
GRAPHS = {
    "Namespace.name",
    "Checkpoint.state",
    "Checkpoint.versions",
    "Checkpoint.metadata",
    "Checkpoint.run_id",
    "ChannelValue.channel",
    "ChannelValue.value",
    "Write.task_path",
    "Write.channel",
    "Write.value",
}
LOGS = {"Entry.message", "Record.deferred_tool_requests", "Record.scope", "Record.forked_from"}
OURS = ("chatmemory", "chatmemory_feedback", "chatmemory_langgraph", "chatmemory_pydantic_ai", "chatmemory_usage")
LOG_TITLE, LOG_SEARCH = {"LogEntry.object_repr"}, {"LogEntry.change_message"}
QUOTES = MESSAGES | NAMES | KEYS | GRAPHS | LOGS | LOG_TITLE | LOG_SEARCH | {"Compaction.error", "Feedback.comment"}
"""The columns that may hold what was said, or a name of it: ``planted`` puts the word into each."""

HOLDS_NONE = {
    "Conversation.owner_key": "the primary key of the owner",
    "Conversation.window": "a choice",
    "Conversation.model": "the name of a model",
    "Message.type": "a choice",
    "Message.origin": "a choice",
    "Message.written_by": "a choice",
    "Message.pins": "versions",
    "Message.eviction_reason": "a choice",
    "Compaction.erased": "hashes",
    "TokenCalibration.model": "the name of a model",
    "IdempotencyKey.scope": "a primary key",
    "IdempotencyKey.fingerprint": "a hash",
    "Feedback.value": "a choice",
    "Usage.model": "the name of a model",
    "Usage.provider": "the name of a provider, or the host of a server",
    "Usage.operation": "a choice",
    "Usage.status": "a choice",
    "Usage.tier": "the name of a tier",
    "Usage.details": "numbers",
    "Usage.response_id": "an identifier of the provider's, deleted when its user is",
    "Usage.currency": "a code",
    "Checkpoint.checkpoint_id": "an identifier of LangGraph's",
    "Checkpoint.parent_checkpoint_id": "an identifier of LangGraph's",
    "Checkpoint.state_type": "the name of a serialisation",
    "Checkpoint.metadata_type": "the name of a serialisation",
    "Namespace.mirrored": "an identifier of LangGraph's",
    "ChannelValue.version": "an identifier of LangGraph's",
    "ChannelValue.type": "the name of a serialisation",
    "Write.checkpoint_id": "an identifier of LangGraph's",
    "Write.task_id": "an identifier of LangGraph's",
    "Write.type": "the name of a serialisation",
    "Entry.entry_id": "an identifier of Pydantic AI's",
    "Entry.parent_id": "an identifier of Pydantic AI's",
    "Entry.kind": "a choice",
    "Record.head_id": "an identifier of Pydantic AI's",
    "Record.forked_at": "an identifier of Pydantic AI's",
    "Record.branches": "identifiers of Pydantic AI's",
    "Record.revision": "an identifier of Pydantic AI's",
    "Record.usage": "numbers",
    "LogEntry.object_id": "a primary key",
}
"""The other columns of text, each with what it holds."""


def text_columns() -> dict[str, models.Field[Any, Any]]:
    """The columns that could hold text, of each of our tables and of the admin's log."""
    ours = [model for model in apps.get_models() if model._meta.app_label in OURS]
    textual = (models.CharField, models.TextField, models.JSONField, models.BinaryField, models.GeneratedField)
    return {
        f"{model.__name__}.{field.name}": field
        for model in (*ours, LogEntry)
        for field in model._meta.concrete_fields
        if isinstance(field, textual)
    }


def holding(word: str) -> set[str]:
    """The columns that hold ``word``."""
    found = set()
    for name, field in text_columns().items():
        quote = connection.ops.quote_name
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {quote(field.column)} FROM {quote(field.model._meta.db_table)}")
            if any(word in _text(value) for (value,) in cursor.fetchall()):
                found.add(name)
    return found


def _text(value: Any) -> str:
    return bytes(value).decode("utf-8", "replace") if isinstance(value, (bytes, memoryview)) else str(value)


def turns(numbers: Sequence[int], word: str = "") -> list[ChatMessage]:
    return [
        message
        for number in numbers
        for message in (UserMessage(f"q{number} {word}{LONG}"), AiMessage(f"a{number} {word}{LONG}"))
    ]


def quoting(messages: Any, previous: str | None) -> str:
    """A summarizer."""
    return f"They spoke of {WORD}."


def failing(messages: Any, previous: str | None) -> str:
    raise RuntimeError(f"no idea: {WORD}")


def planted(user: Any, admin_client: Client) -> Conversation:
    """A conversation with the word in each column that may hold it, some of it evicted, summarised, or pinned."""
    client = Client()
    client.force_login(user)
    made = client.post("/api/conversations/", CREATION, "application/json", headers={"Idempotency-Key": f"{WORD}-key"})
    conversation = Conversation.objects.get(pk=made.json()["id"])
    memory = conversation.memory
    call = ToolExecutionRequest("1", "find", f'{{"who": "{WORD}"}}')
    memory.add(
        SystemMessage(f"You talk to {WORD}."),
        UserMessage(WORD),
        AiMessage(None, [call], thinking=WORD),
        ToolExecutionResultMessage("1", "find", f"{WORD}{LONG}"),
        idempotency_key=f"{WORD}-add",
    )
    memory.add(*turns(range(6), WORD))
    memory.clear_tool_results(0, placeholder=f"[{WORD}]")
    memory.pin(5)
    give_feedback(conversation, 2, user, "down", f"No, {WORD}")
    graph(user)
    store(user)
    assert memory.compact(quoting, keep=0)
    memory.set(memory.messages()[1:])
    memory.set([AiMessage(f"edited {WORD}"), *memory.messages()])
    memory.add(*turns(range(6, 9), WORD))
    with pytest.raises(RuntimeError):
        memory.compact(failing, keep=0)
    memory.set_window(limit=800)
    admin_client.get(reverse("admin:chatmemory_conversation_export_jsonl", args=[conversation.pk])).getvalue()
    admin_client.get(reverse("admin:chatmemory_message_changelist"), {"q": WORD})
    conversation.refresh_from_db()
    assert conversation.evicted_count
    assert conversation.retained_count
    return conversation


def graph(user: Any) -> None:
    """Store a checkpoint of a graph, and one of a subgraph."""
    saver = DjangoSaver(owner=user)
    for namespace in ("", WORD):
        config: Any = {"configurable": {"thread_id": f"{WORD}-1", "checkpoint_ns": namespace}}
        checkpoint = empty_checkpoint()
        values = {"messages": [HumanMessage(WORD, id="1")], WORD: WORD}
        versions: Any = dict.fromkeys(values, "1")
        checkpoint |= {"channel_values": values, "channel_versions": versions}
        metadata: Any = {"source": "input", "step": 1, "writes": WORD, "run_id": WORD}
        saved = saver.put(config, checkpoint, metadata, versions)
        saver.put_writes(saved, [(WORD, WORD)], "task", WORD)


def store(user: Any) -> None:
    """Store an agent's conversation, a fork of another one, which waits for an approval."""
    agents = DjangoConversationStore(user)
    call = ToolCallPart("find", {"who": WORD}, "1")
    record = ConversationRecord(conversation_id=f"{WORD}-1", head_id="1", scope=WORD, forked_from=WORD)
    record.deferred_tool_requests = DeferredToolRequests(approvals=[call])
    entry = ConversationEntry(id="1", parent_id=None, message=ModelResponse([call]))
    async_to_sync(agents.write_record)(record, new_entries=[entry], expected_revision=None)


def test_each_column_of_text_is_known() -> None:
    """A new one belongs to those that may quote, and is planted, or else says what it holds."""
    assert text_columns().keys() == QUOTES | HOLDS_NONE.keys()
    assert not QUOTES & HOLDS_NONE.keys()


def tomorrow() -> Any:
    return timezone.now() + timedelta(days=1)


def erase_all(conversation: Conversation) -> None:
    erase_user(conversation.owner, how="erase")


def anonymise(conversation: Conversation) -> None:
    erase_user(conversation.owner, how="anonymise")


def delete(conversation: Conversation) -> None:
    conversation.delete()


def purge_whole(conversation: Conversation) -> None:
    list(purge_conversations(tomorrow()))


def purge(conversation: Conversation) -> None:
    list(purge_evicted(tomorrow(), Conversation.objects.filter(pk=conversation.pk)))


def purge_all_messages(conversation: Conversation) -> None:
    conversation.memory.clear()
    purge(conversation)
    list(purge_keys(tomorrow()))


KEPT: dict[Callable[[Conversation], None], set[str]] = {
    # What staff searched for is their own text.
    erase_all: LOG_SEARCH,
    anonymise: LOG_SEARCH,
    # The log names what it is about, also what is deleted later.
    delete: LOG_SEARCH | LOG_TITLE,
    purge_whole: LOG_SEARCH | LOG_TITLE,
    # The conversation goes on, under its name; a graph trims its state itself, and Pydantic AI keeps its history.
    purge_all_messages: LOG_SEARCH | LOG_TITLE | NAMES | GRAPHS | LOGS,
}


@pytest.mark.slow
@pytest.mark.parametrize("erase", KEPT)
def test_what_is_erased_is_in_no_column(erase: Callable[[Conversation], None], user: Any, admin_client: Client) -> None:
    conversation = planted(user, admin_client)
    assert holding(WORD) == QUOTES
    erase(conversation)
    assert holding(WORD) == KEPT[erase]
    assert list(verify()) == []


# Work that ends late: each begins before something is erased, and ends after it.


class Model:
    """A model that gives ``answers``, and then says the word, after ``late`` has happened."""

    def __init__(self, late: Callable[[], None], *answers: AiMessage) -> None:
        self.late, self.answers = late, list(answers)

    def __call__(self, messages: Sequence[ChatMessage], tools: Sequence[Any]) -> AiMessage:
        if self.answers:
            return self.answers.pop(0)
        self.late()
        return AiMessage(f"Of {WORD}")


LOST = (TurnLostError, Conversation.DoesNotExist)


def title(conversation: Conversation, erase: Callable[[], None]) -> None:
    assistant = Assistant(Model(erase, AiMessage("Yes.")), title=True)
    assistant.chat(conversation, "Hello")
    assert assistant.wait_for_summaries(60)


def answer(conversation: Conversation, erase: Callable[[], None]) -> None:
    with pytest.raises(LOST):
        Assistant(Model(erase)).chat(conversation, "Hello")


def waiting_turn(conversation: Conversation, erase: Callable[[], None]) -> None:
    """It has read the row, and takes its turn when another is over."""
    erase()
    with pytest.raises(LOST):
        Assistant(Model(lambda: None)).chat(conversation, f"I am {WORD}")


def stream(conversation: Conversation, erase: Callable[[], None]) -> None:
    with pytest.raises(LOST):
        list(Assistant(Model(erase)).stream(conversation, "Hello"))


def tool_result(conversation: Conversation, erase: Callable[[], None]) -> None:
    def find() -> str:
        """Find it."""
        erase()
        return WORD

    model = Model(lambda: None, AiMessage(None, [ToolExecutionRequest("1", "find", "{}")]))
    with pytest.raises(LOST):
        Assistant(model, tools=[find]).chat(conversation, "Hello")


def summary(conversation: Conversation, erase: Callable[[], None]) -> None:
    def late(messages: Any, previous: str | None) -> str:
        erase()
        return quoting(messages, previous)

    with suppress(Conversation.DoesNotExist):
        assert conversation.memory.compact(late, keep=0) is None


def summary_of_a_summary(conversation: Conversation, erase: Callable[[], None]) -> None:
    assert conversation.memory.compact(quoting, keep=0)
    conversation.memory.add(*turns(range(20, 24)))
    summary(conversation, erase)


def error(conversation: Conversation, erase: Callable[[], None]) -> None:
    def late(messages: Any, previous: str | None) -> str:
        erase()
        return failing(messages, previous)

    with pytest.raises((RuntimeError, Conversation.DoesNotExist)):
        conversation.memory.compact(late, keep=0)


def summary_that_is_written_back(conversation: Conversation, erase: Callable[[], None]) -> None:
    assert conversation.memory.compact(quoting, keep=0)
    read = conversation.memory.messages()
    erase()
    conversation.memory.set([*read, UserMessage("new")])


def summary_that_a_store_writes_back(conversation: Conversation, erase: Callable[[], None]) -> None:
    assert conversation.memory.compact(quoting, keep=0)
    read = conversation.memory.messages()
    erase()
    DjangoChatMemoryStore(owner=conversation.owner).update_messages(conversation.memory_id, [*read, UserMessage("new")])


def repeated_request(conversation: Conversation, erase: Callable[[], None]) -> None:
    """The result of the first call has only what is there."""
    conversation.memory.add(*turns([30], WORD), *turns(range(31, 36)), idempotency_key="k")
    erase()
    with suppress(Conversation.DoesNotExist):
        change = conversation.memory.add(*turns([30], WORD), *turns(range(31, 36)), idempotency_key="k")
        assert WORD not in str(change.to_data("langchain4j"))


OF_A_CONVERSATION = [title, summary, summary_of_a_summary, error]
OF_TURNS = [answer, waiting_turn, stream, tool_result]
OF_WHAT_GOES_ON = [summary_that_is_written_back, summary_that_a_store_writes_back, repeated_request]
LATE = [
    *((work, erase) for work in OF_A_CONVERSATION for erase in (erase_all, anonymise, delete, purge)),
    *((work, erase) for work in OF_TURNS for erase in (erase_all, anonymise, delete)),
    *((work, purge) for work in OF_WHAT_GOES_ON),
]


@pytest.mark.parametrize(("work", "erase"), LATE)
def test_what_comes_late_brings_nothing_back(
    work: Callable[[Conversation, Callable[[], None]], None], erase: Callable[[Conversation], None], user: Any
) -> None:
    conversation = ConversationFactory(owner=user, title="", limit=1000)
    conversation.memory.add(*turns(range(3), WORD), *turns(range(3, 8)))
    erased: list[str] = []

    def erase_now() -> None:
        erase(Conversation.objects.get(pk=conversation.pk))
        erased.append(WORD)

    assert holding(WORD) == {"Message.text"}
    work(conversation, erase_now)
    assert erased == [WORD]
    assert holding(WORD) == set()
    assert list(verify()) == []
