"""The memory of a graph's conversation is the state of the graph, whatever nodes and forks do to it."""

from __future__ import annotations

from asyncio import gather, sleep
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connection
from django.utils import timezone
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from chatmemory import UserMessage
from chatmemory.contrib.langchain import DjangoChatMessageHistory
from chatmemory.contrib.langchain.messages import from_row
from chatmemory.contrib.langgraph.saver import DjangoSaver
from chatmemory.database.change import Target
from chatmemory.database.operations.compact import apply_compaction
from chatmemory.database.operations.compaction_plan import plan_compaction
from chatmemory.models import Conversation, Message
from chatmemory.retention import purge_evicted
from chatmemory.verification import verify
from tests.contrib.langgraph.test_messages import Steps, human
from tests.contrib.langgraph.test_saver import CONFIG

pytestmark = pytest.mark.django_db

Update = list[BaseMessage]
Act = Callable[["Course", Update], Update]

LIMIT = 4


class Course:
    """What happens in one thread: runs of a graph whose node does to its messages what chance says."""

    def __init__(self, seed: int, durability: Any, acts: list[Act], **window: Any) -> None:
        self.random = Random(seed)
        self.durability = durability
        self.acts = acts
        self.saver = Judged(self, **window)
        self.config: Any = {"configurable": {"thread_id": f"t{seed}"}}
        self.said: list[str] = []
        self.steps_left = 0
        builder = StateGraph(MessagesState)
        builder.add_node("act", self._act)
        builder.add_edge(START, "act")
        builder.add_conditional_edges("act", lambda state: "act" if self.steps_left else END, ["act", END])
        self.graph = builder.compile(checkpointer=self.saver)

    def new(self, kind: Any = HumanMessage, **more: Any) -> Any:
        """A message that nobody has said before, with an ID of its own; some say the same as others."""
        text = f"{len(self.said)}"
        self.said.append(text)
        return kind(text, id=self.new_id(), **more)

    def new_id(self) -> str:
        return f"{self.random.getrandbits(64):016x}"

    async def run(self) -> None:
        """Run the graph, and again from where it is now, or from a point of its past."""
        await self._go(self.config)
        past = self.saver.stored[::-1]
        chance = self.random.random()
        if chance < 0.3:
            await self._go(self.config)
        elif chance < 0.8:
            await self._go(self.random.choice(past), again=chance < 0.5)
        else:
            said = {"messages": [self.new(AIMessage)]}
            await self.graph.aupdate_state(self.random.choice(past), said, as_node="act")
            await self._go(past[0], again=True)  # and back

    async def _go(self, config: Any, *, again: bool = False) -> None:
        self.steps_left = self.random.randint(1, 2)
        said = None if again else {"messages": [self.new()]}
        await self.graph.ainvoke(said, config, durability=self.durability)

    def _act(self, state: MessagesState) -> Any:
        self.steps_left = max(0, self.steps_left - 1)
        return {"messages": self.random.choice(self.acts)(self, list(state["messages"]))}


class Judged(DjangoSaver):
    """Compares the memory with the newest state whenever one is stored."""

    def __init__(self, course: Course, **window: Any) -> None:
        super().__init__(**window)
        self.course = course
        self.check = as_bounded if window else as_state
        self.stored: list[Any] = []

    async def aput(self, config: Any, checkpoint: Any, *more: Any) -> Any:
        stored = await super().aput(config, checkpoint, *more)
        self.stored.append(stored)
        await self._compare(checkpoint["channel_values"].get("messages", []))
        return stored

    @sync_to_async
    def _compare(self, state: Update) -> None:
        thread_id = self.course.config["configurable"]["thread_id"]
        self.check(state, Message.objects.filter(conversation__memory_id=thread_id))


def as_state(state: Update, rows: Any) -> None:
    """The memory is the state, whole, and in its order."""
    assert [from_row(row) for row in rows.retained()] == with_one_system_message(state)


def as_bounded(state: Update, rows: Any) -> None:
    """The memory has some messages of the state, in its order; the history has each once."""
    memory = [from_row(row) for row in rows.retained()]
    left = iter(state)
    assert all(message in left for message in memory)
    assert len(memory) <= LIMIT
    texts = [row.text for row in rows.history()]
    assert len(texts) == len(set(texts))


def with_one_system_message(state: Update) -> Update:
    """A memory holds one system message at a time."""
    *before, last = [None, *(message for message in state if isinstance(message, SystemMessage))]
    return [message for message in state if message not in before or message is last]


def add(course: Course, state: Update) -> Update:
    calls = [{"name": "look_up", "args": {"q": 1}, "id": course.new_id(), "type": "tool_call"}]
    said = [course.new(), course.new(AIMessage), course.new(AIMessage, tool_calls=calls)]
    result = course.new(ToolMessage, tool_call_id=calls[0]["id"], artifact={"n": 1})
    return course.random.choice([said[:1], said[:2], [said[2], result]])


def add_again(course: Course, state: Update) -> Update:
    return [type_(text, id=course.new_id()) for type_ in (HumanMessage, AIMessage) for text in ["ok"]]


def instruct(course: Course, state: Update) -> Update:
    return [SystemMessage(course.random.choice("xy"), id=course.new_id())]


def _some(course: Course, state: Update) -> Update:
    return course.random.sample(state, course.random.randint(0, min(3, len(state))))


def remove(course: Course, state: Update) -> Update:
    return [RemoveMessage(str(one.id)) for one in _some(course, state)]


def remove_and_add(course: Course, state: Update) -> Update:
    return [*remove(course, state), *add(course, state)]


def overwrite(course: Course, state: Update) -> Update:
    changed = [one for one in _some(course, state) if not isinstance(one, ToolMessage)]
    return [one.model_copy(update={"content": course.new().content}) for one in changed]


def annotate(course: Course, state: Update) -> Update:
    value = {"n": course.random.random()}
    names = ("additional_kwargs", "response_metadata")
    return [one.model_copy(update={course.random.choice(names): value}) for one in _some(course, state)]


ALL = RemoveMessage(REMOVE_ALL_MESSAGES)


def remove_all(course: Course, state: Update) -> Update:
    return [ALL, *course.random.choice([[], add(course, state), copy(course, state)[1:]])]


def reorder(course: Course, state: Update) -> Update:
    return [ALL, *course.random.sample(state, len(state))]


def move_last_to_front(course: Course, state: Update) -> Update:
    return [ALL, *state[-1:], *state[:-1]]


def copy(course: Course, state: Update) -> Update:
    kept = state[course.random.randint(0, 2) :]
    return [ALL, *(one.model_copy(update={"id": course.new_id()}) for one in kept)]


def put_in_front(course: Course, state: Update) -> Update:
    return [ALL, *add(course, state), *state]


ACTS: list[Act] = [
    add,
    add_again,
    instruct,
    remove,
    remove_and_add,
    overwrite,
    annotate,
    remove_all,
    reorder,
    move_last_to_front,
    copy,
    put_in_front,
]


def play(seeds: range, durability: Any, acts: list[Act], **window: Any) -> None:
    async def courses() -> None:
        for seed in seeds:
            await Course(seed, durability, acts, **window).run()

    async_to_sync(courses)()
    assert list(verify()) == []


# How many runs there are; the last durability stores one state for each.
SEEDS = {"sync": 40, "async": 40, "exit": 120}


@pytest.mark.parametrize("durability", SEEDS)
class TestRandomRuns:
    @pytest.mark.slow
    def test_are_mirrored_after_each_step(self, durability: str) -> None:
        # The statements of the mirror differ with the database, what it does with a state does not.
        seeds = SEEDS[durability] if connection.vendor == "sqlite" else 15
        play(range(seeds), durability, ACTS)

    @pytest.mark.slow
    def test_are_said_once_where_a_window_evicts(self, durability: str) -> None:
        acts = [act for act in ACTS if act not in (add_again, instruct)]
        play(range(20), durability, acts, window="messages", limit=LIMIT)


def memory() -> list[BaseMessage]:
    return [from_row(row) for row in Message.objects.retained()]


def history() -> list[str]:
    return [row.text for row in Message.objects.history()]


class Runs:
    """Runs of a graph that adds what the node ``change`` returns, each in a checkpoint of its own."""

    def __init__(self, change: Callable[[Update], Update], saver: DjangoSaver | None = None) -> None:
        builder = StateGraph(MessagesState)
        builder.add_node("change", lambda state: {"messages": change(state["messages"])})
        builder.add_edge(START, "change")
        self.graph = builder.compile(checkpointer=saver or DjangoSaver())

    def run(self, *messages: BaseMessage, config: Any = CONFIG) -> Update:
        """Run it in the transaction of the test, and return its state, which is that of the memory."""
        async_to_sync(self.graph.ainvoke)({"messages": list(messages)}, config)
        state: Update = async_to_sync(self.graph.aget_state)(CONFIG).values["messages"]
        assert memory() == state
        return state


class TestMessages:
    def test_with_new_ids_replace_those_that_say_the_same(self) -> None:
        graph = Runs(lambda state: [ALL, HumanMessage("ok", id="h2")])
        assert graph.run(HumanMessage("ok", id="h1")) == [HumanMessage("ok", id="h2")]
        assert history() == ["ok"]

    @pytest.mark.slow
    def test_that_a_node_trims_by_copying_do_not_grow(self) -> None:
        def trim(state: Update) -> Update:
            kept = [*state, AIMessage(f"I got {len(state)}.")][-6:]
            return [ALL, *(type(one)(one.content) for one in kept)]

        graph = Runs(trim)
        for turn in range(20):
            state = graph.run(HumanMessage(f"{turn}"))
            assert len(state) == min(2 * turn + 2, 6)
        assert [text for text in history() if not text.startswith("I got")] == [f"{turn}" for turn in range(20)]
        assert len(history()) == Conversation.objects.get().message_count == 40

    def test_in_front_of_copies_are_a_summary_that_nobody_said(self) -> None:
        copies = [HumanMessage("a", id="2"), HumanMessage("b", id="3")]
        graph = Runs(lambda state: [ALL, AIMessage("Before: …", id="1"), *copies, AIMessage("c", id="4")])
        graph.run(HumanMessage("a"), HumanMessage("b"))
        assert history() == ["a", "b", "c"]

    def test_change_their_metadata_alone(self) -> None:
        graph = Runs(lambda state: [state[0].model_copy(update={"additional_kwargs": {"seen": len(state)}})])
        for number in range(3):
            state = graph.run(HumanMessage(f"{number}", id=f"{number}"))
            assert state[0].additional_kwargs == {"seen": number + 1}
        assert history() == ["0", "1", "2"]

    def test_that_only_changed_their_metadata_stay_in_the_history_until_they_leave(self) -> None:
        steps = Steps(DjangoSaver())
        steps.put(human(*"ab"))
        for number in range(2):
            steps.put([one.model_copy(update={"response_metadata": {"n": number}}) for one in human(*"ab")])
        list(purge_evicted(timezone.now() + timedelta(days=1)))
        assert history() == [*"ab"]
        assert Message.objects.count() == 4
        assert list(verify()) == []
        steps.put(human("b"))
        list(purge_evicted(timezone.now() + timedelta(days=1)))
        assert history() == ["b"]

    def test_that_only_changed_their_metadata_keep_their_pins(self) -> None:
        saver = DjangoSaver(window="messages", limit=3)
        graph = Runs(lambda state: [state[0].model_copy(update={"response_metadata": {"n": len(state)}})], saver)
        graph.run(HumanMessage("0"))
        Conversation.objects.get().memory.pin(Message.objects.retained().get().position)
        for number in range(1, 5):
            async_to_sync(graph.graph.ainvoke)({"messages": HumanMessage(f"{number}")}, CONFIG)
        assert [message.text for message in memory()] == ["0", "3", "4"]
        assert memory()[0].response_metadata == {"n": 5}
        assert [row.text for row in Message.objects.pinned()] == ["0"]

    def test_come_in_another_order(self) -> None:
        graph = Runs(lambda state: [ALL, *reversed(state)])
        for text in "abc":
            graph.run(HumanMessage(text, id=text))
        assert [message.text for message in memory()] == [*"cab"]
        assert history() == [*"abc"]

    @pytest.mark.slow
    def test_of_the_past_return_with_a_fork(self) -> None:
        graph = Runs(lambda state: [AIMessage(f"{len(state)}")])
        first = graph.run(HumanMessage("a"))
        past = async_to_sync(graph.graph.aget_state)(CONFIG).config
        second = graph.run(HumanMessage("b"))
        latest = async_to_sync(graph.graph.aget_state)(CONFIG).config
        forked = graph.run(HumanMessage("c"), config=past)
        assert forked[:-2] == first
        back = graph.run(HumanMessage("d"), config=latest)
        assert back[:-2] == second
        assert history() == ["a", "1", "b", "3", "c", "3", "d", "5"]

    def test_that_return_to_the_front_do_so_in_a_replay(self) -> None:
        steps = Steps(DjangoSaver())
        one, other = AIMessage("x", id="x"), AIMessage("y", id="y")
        for state in ([*human("a"), one], [one], [*human("a"), one], [*human("a"), one, *human("b"), other]):
            steps.put(state)
        conversation = Conversation.objects.get()
        assert conversation.memory.replay(limit=conversation.limit) == conversation.memory.replay()

    def test_are_told_apart_from_each_other_by_nothing_but_their_order(self) -> None:
        """LangGraph stores a list of a node as it is, also with the same message twice."""
        twice = [HumanMessage("a", id="a"), HumanMessage("b", id="b"), HumanMessage("a", id="a")]
        graph = Runs(lambda state: [ALL, *twice])
        assert graph.run(HumanMessage("c")) == graph.run(HumanMessage("d")) == twice

    def test_leave_though_the_state_had_other_values_meanwhile(self) -> None:
        steps = Steps(DjangoSaver())
        for state in (human(*"ab"), ["no", "messages"], human(*"bc")):
            steps.put(state)
        assert memory() == human(*"bc")


class TestSystemMessages:
    def test_that_say_the_same_follow_each_other(self) -> None:
        steps = Steps(DjangoSaver())
        one, other = SystemMessage("s", id="1"), SystemMessage("s", id="2")
        for state in ([one, *human("a")], [one, *human("a"), other], [*human("a"), other], [one, *human("a")]):
            steps.put(state)
            assert memory() == with_one_system_message(state)
        assert history() == ["s", "a"]

    def test_stay_first_if_the_window_says_so(self) -> None:
        steps = Steps(DjangoSaver(always_keep_system_message_first=True))
        system = SystemMessage("s", id="s")
        steps.put([*human("a"), system, *human("b")])
        steps.put([*human("a"), system, *human("c")])
        assert memory() == [system, *human("a", "c")]
        assert history() == ["a", "s", "b", "c"]


class TestOthers:
    """What other programs put into the conversation is not the graph's."""

    def test_have_their_messages_where_they_were(self) -> None:
        steps = Steps(DjangoSaver())
        steps.put(human(*"ab"))
        Conversation.objects.get().memory.add(UserMessage("other"))
        steps.put(human(*"abcd"))
        for state in (human(*"dcba"), human(*"badc"), [HumanMessage(text, id=f"{text}2") for text in "badc"]):
            steps.put(state)
            rows = list(Message.objects.retained())
            assert [from_row(row) for row in rows if row.text != "other"] == state
            (other,) = (row for row in rows if row.text == "other")
            assert other.position == 2
        assert history() == ["a", "b", "other", "c", "d"]

    def test_have_messages_with_ids_that_a_run_reads_without_saying_them_again(self) -> None:
        saver = DjangoSaver()
        graph = Runs(lambda state: [AIMessage(f"{len(state)}")], saver)
        graph.run(HumanMessage("a"))
        for _ in range(2):  # the second time the state has the first
            DjangoChatMessageHistory("t").add_messages([HumanMessage("b", id=str(len(memory())))])
            state = graph.run(*saver.messages("t"), HumanMessage("c"))
        assert [message.text for message in state] == history() == ["a", "1", "b", "c", "4", "b", "c", "7"]

    def test_have_summaries_that_stay(self) -> None:
        steps = Steps(DjangoSaver())
        state = [kind(f"{kind.__name__} {number}", id=f"{number}") for number in range(6) for kind in [HumanMessage]]
        steps.put(state)
        conversation = Conversation.objects.get()
        plan = plan_compaction(conversation, keep=0, summary_tokens=0)
        assert plan is not None
        apply_compaction(Target.of(conversation), plan, "Counted.")
        summary, *kept = memory()
        changed = [one.model_copy(update={"additional_kwargs": {"n": 1}}) for one in state]
        steps.put(changed)
        assert memory() == [summary, *changed[-len(kept) :]]
        steps.put([*reversed(changed), *human("x")])
        assert memory()[0] == summary
        assert memory()[-1:] == human("x")
        assert len(memory()) == len(kept) + 2

    def test_have_a_summary_whose_copy_does_not_return_after_it_was_erased(self) -> None:
        saver = DjangoSaver()
        steps = Steps(saver)
        names = [(kind, f"{kind.__name__} {number}") for number in range(6) for kind in (HumanMessage, AIMessage)]
        steps.put([kind(name, id=name) for kind, name in names])
        conversation = Conversation.objects.get()
        plan = plan_compaction(conversation, keep=0, summary_tokens=0)
        assert plan is not None
        apply_compaction(Target.of(conversation), plan, "Counted.")
        summary, *kept = saver.messages("t")
        steps.put([summary, *kept])
        list(purge_evicted(timezone.now() + timedelta(days=1)))
        assert memory() == kept
        for number in range(3):  # a node copies what it read before, and changes what follows
            copied = summary.model_copy(update={"id": f"copy {number}"})
            kept = [one.model_copy(update={"response_metadata": {"n": number}}) for one in kept]
            steps.put([copied, *kept, *human(*"xyz"[: number + 1])])
            assert memory() == [*kept, *human(*"xyz"[: number + 1])]
        assert history() == ["HumanMessage 5", "AIMessage 5", *"xyz"]
        assert list(verify()) == []

    def test_have_cleared_a_tool_result_that_leaves_with_its_call(self) -> None:
        steps = Steps(DjangoSaver())
        calls = [{"name": "look_up", "args": {}, "id": "1"}]
        asked, result = AIMessage("", tool_calls=calls, id="c"), ToolMessage("rain " * 50, tool_call_id="1", id="r")
        steps.put([*human("a"), asked, result, *human("b")])
        Conversation.objects.get().memory.clear_tool_results(keep=0)
        steps.put([*human("a"), asked, result.model_copy(update={"artifact": 1}), *human("b", "c")])
        assert [row.text for row in Message.objects.retained()][2] == "[Old tool result cleared]"
        steps.put([*human("b", "a"), asked, result])
        assert [message.text for message in memory()] == ["b", "a", "", "[Old tool result cleared]"]
        steps.put(human("b", "a"))
        assert memory() == human("b", "a")
        assert history() == ["a", "", result.content, "b", "c"]

    def test_have_cleared_a_tool_result_that_a_summary_has_behind_its_call_wherever_that_moved(self) -> None:
        steps = Steps(DjangoSaver())
        asked = AIMessage("", tool_calls=[{"name": "look_up", "args": {}, "id": "1"}], id="c")
        result = ToolMessage("rain " * 50, tool_call_id="1", id="r")
        steps.put([*human("a"), asked, result, *human("b", "c")])
        conversation = Conversation.objects.get()
        conversation.memory.clear_tool_results(keep=0)
        steps.put([*human("a", "b", "c"), asked, result, *human("d")])
        plan = plan_compaction(conversation, keep=0, summary_tokens=0)
        assert plan is not None
        assert [message.text for message in plan.messages] == ["a", "b", "c", None, result.content]


class TestTwoRunsAtOnce:
    """Each begins with the same state; the thread goes on from the checkpoint that is the newest."""

    @pytest.mark.slow
    def test_leave_the_memory_of_one_state(self) -> None:
        for seed in range(12):
            saver = DjangoSaver()
            config: Any = {"configurable": {"thread_id": f"{seed}"}}
            random = Random(seed)

            async def answer(state: MessagesState, random: Random = random) -> Any:
                for _ in range(random.randint(0, 5)):
                    await sleep(0)
                return {"messages": [AIMessage("ok"), AIMessage(str(state["messages"][-1].id))]}

            builder = StateGraph(MessagesState)
            for name, after in (("one", START), ("two", "one")):
                builder.add_node(name, answer)
                builder.add_edge(after, name)
            graph = builder.compile(checkpointer=saver)

            async def both(graph: Any = graph, config: Any = config) -> Any:
                await graph.ainvoke({"messages": [HumanMessage("ok")]}, config)
                await gather(*(graph.ainvoke({"messages": [HumanMessage("ok")]}, config) for _ in range(2)))
                return await graph.aget_state(config)

            state = async_to_sync(both)().values["messages"]
            rows = Message.objects.filter(conversation__memory_id=f"{seed}")
            assert [from_row(row) for row in rows.retained()] == state
        assert list(verify()) == []

    @pytest.mark.slow
    @pytest.mark.django_db(transaction=True)
    def test_in_threads(self) -> None:
        course = Course(0, "async", [add, add_again, remove, annotate, reorder, copy])
        builder = StateGraph(MessagesState)
        builder.add_node(
            "act", lambda state: {"messages": course.random.choice(course.acts)(course, state["messages"])}
        )
        builder.add_edge(START, "act")
        graph = builder.compile(checkpointer=DjangoSaver())

        def run(number: int) -> None:
            graph.invoke({"messages": [HumanMessage("ok")]}, CONFIG)

        with ThreadPoolExecutor(3) as pool:
            for _ in range(4):
                list(pool.map(run, range(3)))
                assert memory() == graph.get_state(CONFIG).values["messages"]
        assert list(verify()) == []
