"""The messages of a LangGraph graph are the memory of its conversation, and go where that goes."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any, Literal, TypedDict

import pytest
from django.core.management import call_command
from django.utils import timezone
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import add_messages

from chatmemory import AiMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory.contrib.langchain import DjangoChatMessageHistory
from chatmemory.contrib.langchain.messages import from_row
from chatmemory.contrib.langgraph.models import ChannelValue, Checkpoint, Namespace, Write
from chatmemory.contrib.langgraph.saver import DjangoSaver
from chatmemory.formats.openai import to_openai
from chatmemory.models import Conversation, Message
from chatmemory.personal_data import erase_user, export_user
from chatmemory.retention import purge_conversations, purge_evicted
from chatmemory.stores import DjangoChatMemoryStore
from chatmemory.verification import verify
from tests.contrib.langgraph.test_saver import CONFIG, agent_graph
from tests.maintenance.test_personal_data import found_anywhere
from tests.support.factories import UserFactory

pytestmark = pytest.mark.django_db

ANSWER = [
    UserMessage("Weather?"),
    AiMessage(
        None,
        [
            ToolExecutionRequest(city, "weather", json.dumps({"city": city}, separators=(",", ":")))
            for city in ("Oslo", "Rome")
        ],
    ),
    ToolExecutionResultMessage("Oslo", "weather", "sunny in Oslo"),
    ToolExecutionResultMessage("Rome", "weather", "sunny in Rome"),
    AiMessage("Sunny."),
]


class Steps:
    """A graph that only keeps what it is told, without LangGraph's threads: they would not see a test's transaction."""

    def __init__(self, saver: DjangoSaver, thread_id: str = "t") -> None:
        self.saver = saver
        self.config: Any = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
        self.version: str | None = None

    def put(self, messages: Sequence[Any], **config: Any) -> Any:
        self.version = self.saver.get_next_version(self.version, None)
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"]["messages"] = list(messages)
        checkpoint["channel_versions"]["messages"] = self.version
        at: Any = {"configurable": self.config["configurable"] | config}
        self.config = self.saver.put(at, checkpoint, {}, {"messages": self.version})
        return self.config


def _added(state: list[Any], writes: Any) -> Any:
    for write in writes:
        state = add_messages(state, write)  # type: ignore[assignment]
    return state


class Delta(TypedDict):
    messages: Annotated[list[Any], DeltaChannel(_added, snapshot_frequency=4)]


class Note(BaseMessage):
    """Of a type that LangChain does not know."""

    type: Literal["note"] = "note"


def human(*texts: str) -> list[BaseMessage]:
    """Messages whose IDs are what they say."""
    return [HumanMessage(text, id=text) for text in texts]


def retained() -> list[str]:
    return [row.text for row in Message.objects.retained()]


def history() -> list[str]:
    return [row.text for row in Message.objects.history()]


@pytest.fixture(autouse=True)
def check(db: None) -> Any:
    """Whatever a test does, the counters are right after it."""
    yield
    assert list(verify()) == []


@pytest.mark.django_db(transaction=True)
class TestARun:
    def test_is_read_by_everybody(self) -> None:
        user = UserFactory()
        graph = agent_graph(DjangoSaver(user, title="Weather", window="messages", limit=50))
        said = graph.invoke({"messages": HumanMessage("Weather?")}, CONFIG)["messages"]
        conversation = Conversation.objects.get()
        assert (conversation.owner, conversation.memory_id, conversation.title) == (user, "t", "Weather")
        assert (conversation.window, conversation.limit) == ("messages", 50)
        assert DjangoChatMemoryStore(user).get_messages("t") == conversation.memory.messages() == ANSWER
        assert [from_row(row) for row in conversation.messages.retained()] == said
        assert [one["role"] for one in to_openai(ANSWER)] == ["user", "assistant", "tool", "tool", "assistant"]

    def test_goes_on_in_another_framework_and_back(self) -> None:
        saver = DjangoSaver()
        graph = agent_graph(saver)
        graph.invoke({"messages": "Weather?"}, CONFIG)
        store = Conversation.objects.get().memory
        store.add(UserMessage("From elsewhere"), AiMessage("Answered there"))
        new = [*saver.messages("t"), HumanMessage("And now?")]
        found = graph.invoke({"messages": new}, CONFIG)["messages"]
        assert [message.text for message in found[5:8]] == ["From elsewhere", "Answered there", "And now?"]
        assert store.messages()[5:8] == [
            UserMessage("From elsewhere"),
            AiMessage("Answered there"),
            UserMessage("And now?"),
        ]
        assert len(found) == len(store.messages()) == Conversation.objects.get().message_count == 12

    @pytest.mark.slow
    def test_in_the_past_takes_back_what_came_after(self) -> None:
        graph = agent_graph(DjangoSaver())
        graph.invoke({"messages": "Weather?"}, CONFIG)
        past = next(one for one in graph.get_state_history(CONFIG) if len(one.values["messages"]) == 1)
        graph.update_state(past.config, {"messages": AIMessage("Rain.")})
        assert retained() == ["Weather?", "Rain."]
        assert history() == ["Weather?", "", "sunny in Oslo", "sunny in Rome", "Sunny.", "Rain."]
        graph.invoke(None, past.config)
        assert Conversation.objects.get().memory.messages() == ANSWER

    def test_with_a_delta_channel_is_deleted_with_its_messages(self) -> None:
        saver = DjangoSaver()
        builder = StateGraph(Delta)
        builder.add_node("answer", lambda state: {"messages": [AIMessage(f"{len(state['messages'])}")]})
        builder.add_edge(START, "answer")
        graph = builder.compile(checkpointer=saver)
        for text in "abc":
            graph.invoke({"messages": [HumanMessage(text)]}, CONFIG)
        mirrored = retained()
        newest = Checkpoint.objects.order_by("checkpoint_id").last()
        assert newest is not None
        assert newest.versions["messages"] is None
        assert mirrored
        saver.copy_thread("t", "copy")
        assert [message.text for message in saver.messages("copy")] == mirrored
        saver.delete_thread("t")
        assert saver.messages("t") == []

    def test_of_a_subgraph_is_not_mirrored(self) -> None:
        inner = StateGraph(MessagesState)
        inner.add_node("talk", lambda state: {"messages": AIMessage("inside")})
        inner.add_edge(START, "talk")

        class Outer(TypedDict):
            done: bool

        talk = inner.compile(checkpointer=True)
        outer = StateGraph(Outer)
        outer.add_node("inner", lambda state: {"done": bool(talk.invoke({"messages": "in"}))})
        outer.add_edge(START, "inner")
        outer.compile(checkpointer=DjangoSaver()).invoke({"done": False}, CONFIG)
        assert Namespace.objects.count() == 2
        assert Message.objects.count() == 0


class TestFollowing:
    def test_new_ones_are_added_and_the_window_bounds_the_memory(self) -> None:
        steps = Steps(DjangoSaver(window="messages", limit=3))
        for end in range(1, 7):
            steps.put(human(*"abcdef"[:end]))
        assert (retained(), history()) == ([*"def"], [*"abcdef"])
        found = steps.saver.get_tuple(CONFIG)
        assert found is not None
        assert found.checkpoint["channel_values"]["messages"] == human(*"abcdef")

    def test_a_changed_one_takes_the_place_of_the_old(self) -> None:
        steps = Steps(DjangoSaver())
        steps.put(human(*"abc"))
        steps.put([human("a")[0], HumanMessage("B", id="b"), *human(*"cd")])
        assert (retained(), history()) == (["a", "B", "c", "d"], [*"abcd"])
        assert [(row.text, row.eviction_reason) for row in Message.objects.evicted()] == [("b", "rewritten")]

    def test_removed_ones_are_evicted_and_what_others_said_stays(self) -> None:
        steps = Steps(DjangoSaver())
        steps.put(human(*"abc"))
        Conversation.objects.get().memory.add(UserMessage("other"))
        steps.put(human(*"cd"))
        assert (retained(), history()) == (["c", "other", "d"], ["a", "b", "c", "other", "d"])
        steps.put([SystemMessage("Before: abcd", id="s")])
        assert retained() == ["other", "Before: abcd"]

    def test_one_in_the_middle_comes_there(self) -> None:
        steps = Steps(DjangoSaver())
        steps.put(human(*"ad"))
        steps.put(human("0", *"abcd", "e"))
        assert retained() == ["0", *"abcde"]

    def test_what_the_window_evicted_is_not_brought_back(self) -> None:
        steps = Steps(DjangoSaver(window="messages", limit=2))
        steps.put(human(*"abcd"))
        steps.put([HumanMessage("A", id="a"), *human(*"bcd")])
        steps.put(human(*"bcd"))
        steps.put(human(*"bd"))
        assert (retained(), history()) == (["d"], [*"abcd"])

    def test_the_same_again_changes_nothing(self) -> None:
        steps = Steps(DjangoSaver())
        steps.put(human(*"ab"))
        version = Conversation.objects.get().version
        steps.put(human(*"ab"))
        found = steps.saver.get_tuple(CONFIG)
        assert found is not None
        for _ in range(2):
            steps.saver.put(found.parent_config or {}, found.checkpoint, found.metadata, {"messages": "1"})
        assert Conversation.objects.get().version == version
        assert Checkpoint.objects.count() == 2

    def test_an_old_checkpoint_that_comes_again_does_not_turn_back(self) -> None:
        steps = Steps(DjangoSaver())
        steps.put(human("a"))
        found = steps.saver.get_tuple(CONFIG)
        assert found is not None
        steps.put(human(*"ab"))
        steps.saver.put(
            found.parent_config or CONFIG, found.checkpoint, found.metadata, found.checkpoint["channel_versions"]
        )
        assert retained() == [*"ab"]

    def test_messages_without_ids_are_told_apart_by_what_they_say(self) -> None:
        steps = Steps(DjangoSaver())
        steps.put([HumanMessage("a"), HumanMessage("a")])
        steps.put([HumanMessage("a"), HumanMessage("a"), HumanMessage("b")])
        assert retained() == [*"aab"]
        steps.put([HumanMessage("a"), HumanMessage("c")])
        assert retained() == [*"ac"]

    def test_other_values_are_stored_and_not_mirrored(self) -> None:
        steps = Steps(DjangoSaver())
        steps.put(["a", {"role": "user"}])
        found = steps.saver.get_tuple(CONFIG)
        assert found is not None
        assert found.checkpoint["channel_values"]["messages"] == ["a", {"role": "user"}]
        assert Message.objects.count() == 0

    def test_an_artifact_of_any_kind_is_whole_in_the_checkpoint(self) -> None:
        steps = Steps(DjangoSaver())
        result = ToolMessage("3", tool_call_id="1", artifact={"at": timedelta(seconds=3), "x": float("nan")}, id="r")
        steps.put([AIMessage("", tool_calls=[{"name": "t", "args": {}, "id": "1"}], id="c"), result])
        found = steps.saver.get_tuple(CONFIG)
        assert found is not None
        assert found.checkpoint["channel_values"]["messages"][1].artifact["at"] == timedelta(seconds=3)
        row = Message.objects.get(type="TOOL_EXECUTION_RESULT")
        assert from_row(row).artifact == {"at": "datetime.timedelta(seconds=3)", "x": "NaN"}

    def test_a_type_of_the_projects_own_is_read_by_everybody(self) -> None:
        steps = Steps(DjangoSaver())
        steps.put([*human("a"), Note("remember", id="n")])
        assert [message.id for message in steps.saver.messages("t")] == ["a", "n"]
        assert "remember" in DjangoChatMessageHistory("t").messages[1].text
        found = steps.saver.get_tuple(CONFIG)
        assert found is not None
        assert type(found.checkpoint["channel_values"]["messages"][1]) is Note
        steps.put([Note("changed", id="n"), *human("b")])
        assert [message.id for message in steps.saver.messages("t")] == ["n", "b"]
        assert "changed" in steps.saver.messages("t")[0].text
        steps.put(human("b"))
        assert retained() == ["b"]

    def test_a_text_that_no_database_holds_is_only_in_the_checkpoint(self) -> None:
        steps = Steps(DjangoSaver())
        steps.put([HumanMessage("a\x00", id="a"), HumanMessage("b\x00")])
        assert retained() == ["a\ufffd", "b\ufffd"]
        found = steps.saver.get_tuple(CONFIG)
        assert found is not None
        assert [message.text for message in found.checkpoint["channel_values"]["messages"]] == ["a\x00", "b\x00"]
        steps.put([HumanMessage("a\x00", id="a"), HumanMessage("b\x00"), *human("c")])
        assert retained() == history() == ["a\ufffd", "b\ufffd", "c"]
        steps.put(human("c"))
        assert (retained(), history()) == (["c"], ["a\ufffd", "b\ufffd", "c"])


class TestMessages:
    def test_of_others_have_ids_by_which_they_are_known(self) -> None:
        conversation = Conversation.objects.create(memory_id="t", window="messages", limit=3)
        conversation.memory.add(*map(UserMessage, "abcd"))
        saver = DjangoSaver()
        found = saver.messages("t")
        assert [(message.type, message.text) for message in found] == [("human", "b"), ("human", "c"), ("human", "d")]
        steps = Steps(saver)
        steps.put([*found, *human("e")])
        assert (retained(), history()) == ([*"cde"], [*"abcde"])
        steps.put([found[0], found[2].model_copy(update={"content": "D"}), *human("e")])
        assert (retained(), history()) == (["D", "e"], [*"abcde"])
        assert [message.id for message in saver.messages("t")] == [found[2].id, "e"]

    def test_of_a_missing_thread_are_none(self) -> None:
        assert DjangoSaver().messages("t") == []
        assert not Conversation.objects.exists()


class TestDeleting:
    def test_a_thread_takes_its_messages_out_of_the_memory(self) -> None:
        steps = Steps(DjangoSaver(window="messages", limit=3))
        steps.put(human(*"abc"))
        Conversation.objects.get().memory.add(UserMessage("other"))
        steps.saver.delete_thread("t")
        assert (retained(), history()) == (["other"], ["a", "b", "c", "other"])
        assert not Namespace.objects.exists()

    def test_a_run_takes_back_its_messages(self) -> None:
        steps = Steps(DjangoSaver())
        for run_id, texts in (("1", "ab"), ("2", "abc")):
            steps.put(human(*texts), run_id=run_id)
        steps.saver.delete_for_runs(["2"])
        assert (retained(), history()) == ([*"ab"], [*"abc"])

    def test_pruning_leaves_them(self) -> None:
        steps = Steps(DjangoSaver())
        for texts in ("ab", "abc"):
            steps.put(human(*texts))
        steps.saver.prune(["t"])
        steps.put(human(*"abcd"))
        assert (retained(), history()) == ([*"abcd"], [*"abcd"])

    def test_a_copy_has_them_too(self) -> None:
        steps = Steps(DjangoSaver())
        steps.put(human(*"ab"))
        steps.saver.copy_thread("t", "u")
        assert [message.text for message in steps.saver.messages("u")] == [*"ab"]
        Steps(steps.saver, "u").put(human(*"abc"))
        assert Conversation.objects.get(memory_id="u").message_count == 3


SECRET = "xyzzy"


class Turned:
    """A cipher that nobody should use."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return "turned", plaintext[::-1]

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        return ciphertext[::-1]


class TestErasing:
    @pytest.fixture
    def user(self) -> Any:
        user = UserFactory()
        steps = Steps(DjangoSaver(user))
        steps.put(human(f"I am {SECRET}"))
        steps.saver.put_writes(steps.config, [("messages", human(f"More of {SECRET}"))], "task")
        Steps(DjangoSaver(), "other").put(human("Another's"))
        return user

    def test_a_conversation_erases_its_checkpoints(self, user: Any) -> None:
        Conversation.objects.get(owner=user).delete()
        assert found_anywhere(SECRET) == []
        assert [one.objects.count() for one in (Namespace, Checkpoint, ChannelValue, Write)] == [1, 1, 1, 0]

    @pytest.mark.parametrize("how", ["erase", "anonymise"])
    def test_a_users_words_are_gone_from_every_table(self, user: Any, how: str) -> None:
        assert len(found_anywhere(SECRET)) == 3
        erase_user(user, how=how)
        assert found_anywhere(SECRET) == []
        assert Checkpoint.objects.count() == 1

    def test_a_user_erases_them(self, user: Any) -> None:
        user.delete()
        assert found_anywhere(SECRET) == []

    def test_an_export_says_all_of_it(self, user: Any) -> None:
        out = io.StringIO()
        call_command("chatmemory_user", "export", user.get_username(), stdout=out)
        lines = [json.loads(line) for line in out.getvalue().splitlines()]
        (value,) = [line for line in lines if "version" in line and "graph" in line]
        assert value["value"][0]["data"]["content"] == f"I am {SECRET}"
        (write,) = [line for line in lines if "task" in line]
        assert write["value"][0]["data"]["content"] == f"More of {SECRET}"
        (checkpoint,) = [line for line in lines if "checkpoint" in line]
        assert checkpoint["versions"].keys() == {"messages"}
        assert checkpoint["state"]["channel_versions"].keys() == {"messages"}
        assert len({line["conversation"] for line in lines}) == 1

    def test_a_purge_of_evicted_messages_takes_old_checkpoints_along(self) -> None:
        steps = Steps(DjangoSaver())
        steps.put(human(SECRET, "b"))
        steps.put(human("b"))
        before = timezone.now()
        list(purge_evicted(before - timedelta(days=1)))
        assert len(found_anywhere(SECRET)) == 2
        assert list(purge_evicted(before, dry_run=True))
        assert len(found_anywhere(SECRET)) == 2
        assert list(purge_evicted(before))
        assert found_anywhere(SECRET) == []
        found = steps.saver.get_tuple(CONFIG)
        assert found is not None
        assert found.checkpoint["channel_values"]["messages"] == human("b")

    def test_a_purge_takes_old_checkpoints_along_where_nothing_was_evicted(self) -> None:
        steps = Steps(DjangoSaver())
        steps.put(human("a"))
        steps.put(human("a", "b"))
        list(purge_evicted(timezone.now(), dry_run=True))
        assert Checkpoint.objects.count() == 2
        assert list(purge_evicted(timezone.now())) == []
        assert Checkpoint.objects.count() == ChannelValue.objects.count() == 1
        assert retained() == ["a", "b"]

    def test_needs_no_key_of_what_is_encrypted(self) -> None:
        user = UserFactory()
        steps = Steps(DjangoSaver(user, serde=EncryptedSerializer(Turned())))
        steps.put([SECRET])
        steps.put(["b"])
        assert found_anywhere(SECRET) == []
        assert [one.checkpoint["channel_values"]["messages"] for one in steps.saver.list(CONFIG)] == [["b"], [SECRET]]
        lines = [json.loads(line) for line in export_user(user)]
        assert [line["value"]["type"] for line in lines if "version" in line and "graph" in line] == [
            "msgpack+turned"
        ] * 2
        list(purge_evicted(timezone.now()))
        assert ChannelValue.objects.count() == Checkpoint.objects.count() == 1

    def test_a_purge_by_age_sees_that_a_graph_without_messages_is_in_use(self) -> None:
        saver = DjangoSaver()
        config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        config = saver.put(config, empty_checkpoint(), {}, {})
        made = Conversation.objects.get().updated_at
        saver.prune(["t"])
        assert Conversation.objects.get().updated_at == made
        saver.put_writes(config, [("x", 1)], "task")
        list(purge_conversations(made + timedelta(microseconds=1)))
        assert saver.get_tuple(CONFIG) is not None
