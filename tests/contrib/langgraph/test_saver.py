"""LangGraph's checkpoints in the database, judged by LangGraph: its conformance tests, and graphs of its own."""

from __future__ import annotations

import inspect
import operator
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, TypedDict

import pytest
from django.core.management import call_command
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import ALL_CAPABILITIES
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, Interrupt, Send, StateSnapshot, interrupt

from chatmemory.contrib.langgraph.models import ChannelValue, Checkpoint, Namespace, Write
from chatmemory.contrib.langgraph.saver import DjangoSaver
from chatmemory.models import Conversation
from tests.database.test_async import run
from tests.support.factories import UserFactory

pytestmark = pytest.mark.django_db(transaction=True)

CONFIG: Any = {"configurable": {"thread_id": "t"}}
RESULTS = ["sunny in Oslo", "sunny in Rome"]


@checkpointer_test(name="DjangoSaver")
async def ours() -> AsyncGenerator[DjangoSaver, None]:
    yield DjangoSaver()


@pytest.mark.slow
@pytest.mark.parametrize("capability", sorted(ALL_CAPABILITIES))
def test_conformance(capability: Any) -> None:
    result = run(validate(ours, capabilities={capability})).results[capability]
    assert (result.detected, result.failures) == (True, [])
    assert result.tests_passed


def test_the_migration_has_all_of_the_models() -> None:
    call_command("makemigrations", "chatmemory_langgraph", check=True, dry_run=True, verbosity=0)


# Graphs, each made with a saver.


def weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


def agent_graph(saver: BaseCheckpointSaver[Any]) -> Any:
    """Calls two tools at once, then answers."""

    def model(state: MessagesState) -> Any:
        if isinstance(state["messages"][-1], ToolMessage):
            return {"messages": AIMessage("Sunny.", response_metadata={"model": "fake"})}
        calls = [{"name": "weather", "args": {"city": city}, "id": city} for city in ("Oslo", "Rome")]
        return {"messages": AIMessage("", tool_calls=calls, usage_metadata=None)}

    def route(state: MessagesState) -> str:
        return "tools" if getattr(state["messages"][-1], "tool_calls", None) else END

    builder = StateGraph(MessagesState)
    builder.add_node("model", model)
    builder.add_node("tools", ToolNode([weather]))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", route, ["tools", END])
    builder.add_edge("tools", "model")
    return builder.compile(checkpointer=saver)


class Sum(TypedDict):
    numbers: Annotated[list[int], operator.add]
    total: int | None
    approved: str


def parallel_graph(saver: BaseCheckpointSaver[Any]) -> Any:
    """Fans out to tasks that run at once, adds up, and asks."""

    def ask(state: Sum) -> Any:
        return {"approved": interrupt({"total": state["total"]})}

    builder = StateGraph(Sum)
    builder.add_node("square", lambda number: {"numbers": [number * number]})
    builder.add_node("add", lambda state: {"total": sum(state["numbers"])})
    builder.add_node("ask", ask)
    builder.add_conditional_edges(START, lambda state: [Send("square", number) for number in range(8)], ["square"])
    builder.add_edge("square", "add")
    builder.add_edge("add", "ask")
    return builder.compile(checkpointer=saver)


def nested_graph(saver: BaseCheckpointSaver[Any]) -> Any:
    """A subgraph that is interrupted, with checkpoints of its own."""
    inner = StateGraph(Sum)
    inner.add_node("one", lambda state: {"numbers": [1]})
    inner.add_node("two", lambda state: {"numbers": [interrupt("how many?")]})
    inner.add_edge(START, "one")
    inner.add_edge("one", "two")
    outer = StateGraph(Sum)
    outer.add_node("inner", inner.compile())
    outer.add_node("add", lambda state: {"total": sum(state["numbers"])})
    outer.add_edge(START, "inner")
    outer.add_edge("inner", "add")
    return outer.compile(checkpointer=saver)


Graph = Callable[[BaseCheckpointSaver[Any]], Any]
CASES: list[tuple[Graph, list[Any]]] = [
    (agent_graph, [{"messages": [HumanMessage("Weather?", id="1")]}, {"messages": [HumanMessage("Again?", id="2")]}]),
    (parallel_graph, [{"numbers": []}, Command(resume="yes"), {"numbers": [100]}, Command(resume="no")]),
    (nested_graph, [{"numbers": [5]}, Command(resume=7)]),
]


def _plain(value: Any) -> Any:
    """Without the IDs that are random."""
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, Interrupt):
        return value.value
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return {**value.model_dump(), "id": None} if isinstance(value, BaseMessage) else value


def _seen(snapshot: StateSnapshot) -> Any:
    tasks = [(task.name, task.error, _plain(task.interrupts)) for task in snapshot.tasks]
    step = (snapshot.metadata or {}).get("source"), (snapshot.metadata or {}).get("step")
    return _plain(snapshot.values), snapshot.next, step, tasks


def _use(graph: Any, inputs: list[Any]) -> Any:
    results = [_plain(graph.invoke(one, CONFIG)) for one in inputs]
    return results, [_seen(snapshot) for snapshot in graph.get_state_history(CONFIG)]


async def _ause(graph: Any, inputs: list[Any]) -> Any:
    results = [_plain(await graph.ainvoke(one, CONFIG)) for one in inputs]
    return results, [_seen(snapshot) async for snapshot in graph.aget_state_history(CONFIG)]


@pytest.mark.parametrize(("graph", "inputs"), CASES)
class TestAGraph:
    @pytest.mark.slow
    def test_runs_as_in_memory(self, graph: Graph, inputs: list[Any]) -> None:
        assert _use(graph(DjangoSaver()), inputs) == _use(graph(InMemorySaver()), inputs)

    @pytest.mark.slow
    def test_runs_as_in_memory_async(self, graph: Graph, inputs: list[Any]) -> None:
        expected = run(_ause(graph(InMemorySaver()), inputs))
        assert run(_ause(graph(DjangoSaver()), inputs)) == expected

    @pytest.mark.slow
    def test_goes_on_from_any_point_of_its_past(self, graph: Graph, inputs: list[Any]) -> None:
        def travel(saver: BaseCheckpointSaver[Any]) -> list[Any]:
            made = graph(saver)
            _use(made, inputs)
            past = list(made.get_state_history(CONFIG))
            forks = [_plain(made.invoke(None, snapshot.config)) for snapshot in past[1:-1:2]]
            return [*forks, len(list(made.get_state_history(CONFIG)))]

        assert travel(DjangoSaver()) == travel(InMemorySaver())

    def test_is_stored_at_its_end_if_it_says_so(self, graph: Graph, inputs: list[Any]) -> None:
        def states(saver: BaseCheckpointSaver[Any]) -> list[Any]:
            made = graph(saver)
            for one in inputs:
                made.invoke(one, CONFIG, durability="exit")
            return [_seen(snapshot) for snapshot in made.get_state_history(CONFIG)]

        assert states(DjangoSaver()) == states(InMemorySaver())


def _join(state: list[int], writes: Any) -> list[int]:
    return [*state, *(number for write in writes for number in write)]


class Delta(TypedDict):
    numbers: Annotated[list[int], DeltaChannel(_join, snapshot_frequency=3)]


def delta_graph(saver: BaseCheckpointSaver[Any]) -> Any:
    """Its channel is made up of what was written since a snapshot."""
    builder = StateGraph(Delta)
    builder.add_node("count", lambda state: {"numbers": [len(state["numbers"])]})
    builder.add_edge(START, "count")
    return builder.compile(checkpointer=saver)


def calling_graph(saver: BaseCheckpointSaver[Any]) -> Any:
    """Two subgraphs: one that remembers its calls, and one that calls another, which is interrupted."""
    counter, outer, middle, inner = (StateGraph(Sum) for _ in range(4))
    counter.add_node("count", lambda state: {"numbers": [1]})
    counter.add_edge(START, "count")
    inner.add_node("ask", lambda state: {"numbers": [interrupt("how many?")]})
    inner.add_edge(START, "ask")
    middle.add_node("inner", inner.compile())
    middle.add_edge(START, "inner")
    outer.add_node("counter", counter.compile(checkpointer=True))
    outer.add_node("middle", middle.compile())
    outer.add_edge(START, "counter")
    outer.add_edge("counter", "middle")
    return outer.compile(checkpointer=saver)


class TestPruning:
    @pytest.mark.slow
    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    def test_deletes_the_calls_of_subgraphs_once_the_graph_has_gone_on(self, durability: Any) -> None:
        saver, in_memory = DjangoSaver(), calling_graph(InMemorySaver())
        graph = calling_graph(saver)
        for number in range(2):
            graph.invoke({"numbers": [number]}, CONFIG, durability=durability)
            saver.prune(["t"])
            names = sorted(Namespace.objects.values_list("name", flat=True))
            assert [name.split(":")[0] for name in names] == ["", "counter", "middle", "middle"]
            assert (names[2].count(":"), names[3].count(":")) == (1, 2)
            result = graph.invoke(Command(resume=7), CONFIG, durability=durability)
            saver.prune(["t"])
            assert sorted(Namespace.objects.values_list("name", flat=True)) == ["", "counter"]
            assert Checkpoint.objects.count() == 2
            in_memory.invoke({"numbers": [number]}, CONFIG, durability=durability)
            assert in_memory.invoke(Command(resume=7), CONFIG, durability=durability) == result

    def test_keeps_a_call_that_began_before_its_graph_was_stored(self) -> None:
        saver = DjangoSaver()
        for name, id in (("", "2"), ("called:1", "3"), ("called:0", "1"), ("stays", "1")):
            checkpoint = {**empty_checkpoint(), "id": id}
            saver.put({"configurable": {"thread_id": "t", "checkpoint_ns": name}}, checkpoint, {}, {})  # type: ignore[arg-type]
        saver.prune(["t"])
        assert sorted(Namespace.objects.values_list("name", flat=True)) == ["", "called:1", "stays"]

    def test_keeps_what_the_next_run_needs(self) -> None:
        saver = DjangoSaver()
        graph = nested_graph(saver)
        graph.invoke({"numbers": [5]}, CONFIG)
        before = _seen(graph.get_state(CONFIG))
        saver.prune(["t"])
        assert _seen(graph.get_state(CONFIG)) == before
        assert Checkpoint.objects.count() == Namespace.objects.count() == 2
        assert graph.invoke(Command(resume=7), CONFIG)["total"] == 18

    @pytest.mark.slow
    def test_keeps_what_delta_channels_are_made_from(self) -> None:
        saver = DjangoSaver()
        graph = delta_graph(saver)
        for number in range(1, 8):
            counted = [index if index % 2 else -1 for index in range(2 * number)]
            assert graph.invoke({"numbers": [-1]}, CONFIG)["numbers"] == counted
            state = graph.get_state(CONFIG).values
            saver.prune(["t"])
            assert graph.get_state(CONFIG).values == state
        assert Checkpoint.objects.count() < 7

    def test_deletes_values_that_nothing_has(self) -> None:
        saver = DjangoSaver()
        agent_graph(saver).invoke({"messages": "Weather?"}, CONFIG)
        rows = ChannelValue.objects.count()
        saver.prune(["t"])
        (row,) = Checkpoint.objects.all()
        assert dict(ChannelValue.objects.values_list("channel", "version")) == row.versions
        assert ChannelValue.objects.count() < rows
        assert not Write.objects.exclude(checkpoint_id=row.checkpoint_id).exists()

    def test_of_all_is_all(self) -> None:
        saver = DjangoSaver()
        nested_graph(saver).invoke({"numbers": [5]}, CONFIG)
        saver.prune(["t"], strategy="delete")
        assert not Namespace.objects.exists()

    def test_by_another_way_is_refused(self) -> None:
        with pytest.raises(ValueError, match="strategy must be"):
            DjangoSaver().prune(["t"], strategy="latest")

    @pytest.mark.slow
    def test_of_runs_deletes_what_only_they_had(self) -> None:
        saver = DjangoSaver()
        graph = agent_graph(saver)
        for name in ("a", "b"):
            graph.invoke({"messages": name}, {**CONFIG, "metadata": {"run_id": name}})
        rows = ChannelValue.objects.count()
        saver.delete_for_runs(["b"])
        left = graph.get_state(CONFIG).values["messages"]
        assert [message.content for message in left] == ["a", "", *RESULTS, "Sunny."]
        assert 0 < ChannelValue.objects.count() < rows
        saver.delete_for_runs(["a"])
        assert not Namespace.objects.exists()


class TestCopy:
    def test_goes_on_by_itself(self) -> None:
        saver = DjangoSaver()
        graph = nested_graph(saver)
        graph.invoke({"numbers": [5]}, CONFIG)
        saver.copy_thread("t", "u")
        copy: Any = {"configurable": {"thread_id": "u"}}
        assert graph.invoke(Command(resume=7), copy)["total"] == 18
        assert graph.get_state(CONFIG).next == ("inner",)

    def test_over_another_thread_is_refused(self) -> None:
        saver = DjangoSaver()
        for thread in ("t", "u"):
            agent_graph(saver).invoke({"messages": thread}, {"configurable": {"thread_id": thread}})
        with pytest.raises(ValueError, match="thread 'u' has checkpoints already"):
            saver.copy_thread("t", "u")


class TestOwners:
    @pytest.mark.slow
    def test_have_threads_of_their_own(self) -> None:
        one, other = DjangoSaver(UserFactory()), DjangoSaver(UserFactory())
        agent_graph(one).invoke({"messages": "a"}, CONFIG)
        for saver in (other, DjangoSaver()):
            assert saver.get_tuple(CONFIG) is None
            assert list(saver.list(None)) == list(saver.list(CONFIG)) == saver.messages("t") == []
            saver.delete_thread("t")
            saver.prune(["t"], strategy="delete")
            saver.copy_thread("t", "u")
        assert len(list(one.list(None))) == len(list(one.list(CONFIG))) == 5
        agent_graph(other).invoke({"messages": "b"}, CONFIG)
        assert agent_graph(one).get_state(CONFIG).values["messages"][0].content == "a"

    def test_are_saved_users(self) -> None:
        with pytest.raises(ValueError, match="owner must be a saved user"):
            DjangoSaver(UserFactory.build())

    def test_run_ids_are_theirs(self) -> None:
        one, other = DjangoSaver(UserFactory()), DjangoSaver(UserFactory())
        agent_graph(one).invoke({"messages": "a"}, {**CONFIG, "metadata": {"run_id": "r"}})
        other.delete_for_runs(["r"])
        assert len(list(one.list(CONFIG))) == 5


class TestSize:
    @pytest.mark.slow
    def test_a_value_is_stored_once_however_many_checkpoints_have_it(self) -> None:
        saver = DjangoSaver()
        graph = parallel_graph(saver)
        for number in range(3):
            graph.invoke({"numbers": [number]}, CONFIG)
            graph.invoke(Command(resume="x" * 10_000), CONFIG)
        long = b"x" * 10_000
        assert sum(long in bytes(row.value) for row in ChannelValue.objects.all()) == 3
        assert not any(long in bytes(row.state + row.metadata) for row in Checkpoint.objects.all())

    @pytest.mark.parametrize(
        ("config", "match"),
        [
            ({"thread_id": "t" * 256}, "memory_id has 256 characters"),
            ({"thread_id": "t", "checkpoint_ns": "n" * 701}, "namespace name has 701 characters; at most 700"),
            ({"thread_id": "t", "checkpoint_ns": "n\x00"}, "namespace name"),
            ({"thread_id": "t", "checkpoint_id": "c" * 65}, "checkpoint parent_checkpoint_id has 65 characters"),
        ],
    )
    def test_too_long_names_are_refused(self, config: Any, match: str) -> None:
        with pytest.raises(ValueError, match=match):
            DjangoSaver().put({"configurable": config}, empty_checkpoint(), {}, {})
        assert not Namespace.objects.exists()

    def test_long_names_are_not(self) -> None:
        saver = DjangoSaver()
        channel, space = "join:" + "🎉" * 595, "ß" * 700
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"], checkpoint["channel_versions"] = {channel: "a"}, {channel: "1"}
        config: Any = {"configurable": {"thread_id": "t" * 255, "checkpoint_ns": space}}
        stored = saver.put(config, checkpoint, {}, {channel: "1"})
        saver.put_writes(stored, [(channel, "b")], "task", "path" * 300)
        found = saver.get_tuple(config)
        assert found is not None
        assert found.config == stored
        assert found.checkpoint == checkpoint
        assert found.pending_writes == [("task", channel, "b")]


class TestWritesAgain:
    def test_of_a_task_stay_and_those_of_errors_and_interrupts_are_replaced(self) -> None:
        saver = DjangoSaver()
        config = saver.put({"configurable": {"thread_id": "t", "checkpoint_ns": ""}}, empty_checkpoint(), {}, {})
        saver.put_writes(config, [("a", 1), (ERROR, "e"), (INTERRUPT, 1)], "task")
        saver.put_writes(config, [("a", 2), (ERROR, "f"), (INTERRUPT, 2), (INTERRUPT, 3)], "task")
        found = saver.get_tuple(config)
        assert found is not None
        assert found.pending_writes == [("task", INTERRUPT, 3), ("task", ERROR, "f"), ("task", "a", 1)]

    def test_come_in_the_order_of_their_paths(self) -> None:
        saver = DjangoSaver()
        config = saver.put({"configurable": {"thread_id": "t", "checkpoint_ns": ""}}, empty_checkpoint(), {}, {})
        for task, path in (("1", "b"), ("2", "B"), ("3", "a"), ("4", "ä")):
            saver.put_writes(config, [("x", path)], task, path)
        found = saver.get_tuple(config)
        assert found is not None
        assert [value for _task, _channel, value in found.pending_writes or []] == ["B", "a", "b", "ä"]

    def test_come_from_many_tasks_at_once(self) -> None:
        saver = DjangoSaver()
        checkpoint = empty_checkpoint()
        config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": checkpoint["id"]}}

        def work(number: int) -> None:
            # Some write before the checkpoint is there, some twice.
            saver.put_writes(config, [("x", number // 2), ("y", "z" * 1000)], str(number // 2))
            if number % 4 == 0:
                saver.put({"configurable": {"thread_id": "t", "checkpoint_ns": ""}}, checkpoint, {}, {})
            assert connections["default"].connection is None, "a thread must not leave a connection open"

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(24)))
        (found,) = saver.list(CONFIG)
        written = [value for _task, channel, value in found.pending_writes or [] if channel == "x"]
        assert sorted(written) == list(range(12))
        assert (Conversation.objects.count(), Namespace.objects.count(), Write.objects.count()) == (1, 1, 24)


@pytest.mark.slow
def test_a_list_is_read_in_parts_that_join() -> None:
    saver = DjangoSaver()
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    ids = []
    for number in range(50):
        checkpoint = empty_checkpoint()
        ids.insert(0, checkpoint["id"])
        saver.put(config, checkpoint, {"step": number % 7}, {})

    def found(**options: Any) -> list[str]:
        return [one.checkpoint["id"] for one in saver.list(CONFIG, **options)]

    assert found() == ids
    assert found(limit=45) == ids[:45]
    assert found(limit=0) == []
    assert found(filter={"step": 3}) == [one for at, one in enumerate(ids) if (49 - at) % 7 == 3]
    assert found(filter={"step": 3}, limit=2) == [ids[4], ids[11]]
    before: Any = {"configurable": {"checkpoint_id": ids[40]}}
    assert found(before=before) == ids[41:]

    async def afound() -> list[str]:
        return [one.checkpoint["id"] async for one in saver.alist(CONFIG, before=before)]

    assert run(afound()) == ids[41:]


def test_every_statement_about_a_row_names_the_conversation() -> None:
    """The tables may be distributed by it."""
    saver = DjangoSaver()
    start: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    agent_graph(saver).invoke({"messages": "Weather?"}, CONFIG)
    delta_graph(saver).invoke({"numbers": [1]}, {"configurable": {"thread_id": "d"}})
    with CaptureQueriesContext(connection) as captured:
        checkpoint = empty_checkpoint() | {"channel_values": {"x": "y"}, "channel_versions": {"x": "1"}}
        stored = saver.put(start, checkpoint, {}, {"x": "1"})
        saver.put_writes(stored, [("x", "z"), (ERROR, "broken")], "task")
        assert saver.get_tuple(stored) is not None
        assert saver.get_tuple(start) is not None
        assert list(saver.list(start))
        saver.get_delta_channel_history(config=stored, channels=["x"])
        saver.prune(["t"])
    keys = [form for key in Conversation.objects.values_list("pk", flat=True) for form in (key.hex, str(key))]
    rows = tuple(model._meta.db_table for model in (Checkpoint, ChannelValue, Write))
    about = [query["sql"] for query in captured.captured_queries if any(name in query["sql"] for name in rows)]
    assert len(about) > 10
    assert [sql for sql in about if not any(key in sql for key in keys)] == []


@pytest.mark.parametrize("name", [name[1:] for name in vars(DjangoSaver) if name.startswith("a")])
def test_every_method_has_a_twin_with_the_same_arguments(name: str) -> None:
    ours, twin = (inspect.signature(getattr(DjangoSaver, prefix + name)) for prefix in ("", "a"))
    assert ours.parameters == twin.parameters
