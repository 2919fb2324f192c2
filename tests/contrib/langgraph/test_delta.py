"""Delta channels of LangGraph's: rebuilt by few statements, from what LangGraph's own way finds one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from django.test.utils import CaptureQueriesContext
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

from chatmemory.contrib.langgraph.saver import DjangoSaver
from tests.database.test_async import run

pytestmark = pytest.mark.django_db(transaction=True)

CONFIG: Any = {"configurable": {"thread_id": "t"}}


def _joined(state: list[Any], writes: Any) -> list[Any]:
    return [*state, *(item for write in writes for item in write)]


def _summed(state: int, writes: Any) -> int:
    return state + sum(writes)


def graph_of(saver: BaseCheckpointSaver[Any], *, delta: bool = True, frequency: int = 1000) -> Any:
    """A graph that appends to a list and adds to a number; both are delta channels, or plain ones."""
    items: Any = DeltaChannel(_joined, snapshot_frequency=frequency) if delta else lambda old, new: [*old, *new]
    total: Any = DeltaChannel(_summed, snapshot_frequency=frequency + 1) if delta else lambda old, new: old + new

    annotations = {"items": Annotated[list[Any], items], "total": Annotated[int, total]}
    untouched = Annotated[list[Any], DeltaChannel(_joined)]
    builder = StateGraph(TypedDict("State", {**annotations, "untouched": untouched}))  # type: ignore[misc, operator]
    for name in ("a", "b"):
        builder.add_node(name, lambda state, name=name: {"items": [name], "total": 1})
        builder.add_edge(START, name)
    return builder.compile(checkpointer=saver)


def _turn(number: int) -> dict[str, Any]:
    return {"items": [number], "total": number}


@pytest.fixture(params=[1000, 3])
def frequency(request: pytest.FixtureRequest) -> int:
    """How many updates a snapshot is good for."""
    found: int = request.param
    return found


class TestHistory:
    """What LangGraph's own way finds, which reads one checkpoint after the other."""

    def _check(self, saver: DjangoSaver) -> None:
        channels = ["items", "total", "untouched", "no such"]
        checkpoints = list(saver.list(CONFIG))
        assert checkpoints
        for checkpoint in checkpoints:
            expected = BaseCheckpointSaver.get_delta_channel_history(saver, config=checkpoint.config, channels=channels)
            assert saver.get_delta_channel_history(config=checkpoint.config, channels=channels) == expected
            found = run(saver.aget_delta_channel_history(config=checkpoint.config, channels=channels))
            assert found == expected

    @pytest.mark.slow
    def test_is_found_at_once(self, frequency: int) -> None:
        saver = DjangoSaver()
        graph = graph_of(saver, frequency=frequency)
        for number in range(6):
            graph.invoke(_turn(number), CONFIG)
        self._check(saver)

    @pytest.mark.slow
    def test_leads_along_forks(self, frequency: int) -> None:
        saver = DjangoSaver()
        graph = graph_of(saver, frequency=frequency)
        for number in range(3):
            graph.invoke(_turn(number), CONFIG)
        for snapshot in list(graph.get_state_history(CONFIG))[1::3]:
            graph.invoke(_turn(10), snapshot.config)
        self._check(saver)

    @pytest.mark.slow
    def test_begins_with_what_a_plain_channel_stored(self, frequency: int) -> None:
        saver = DjangoSaver()
        for number in range(2):
            graph_of(saver, delta=False).invoke(_turn(number), CONFIG)
        graph = graph_of(saver, frequency=frequency)
        for number in range(3):
            graph.invoke(_turn(number), CONFIG)
        self._check(saver)
        assert graph.get_state(CONFIG).values["total"] == 1 + 3 + 10

    @pytest.mark.slow
    def test_may_be_longer_than_a_page(self) -> None:
        saver = DjangoSaver()
        config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        for number in range(230):
            checkpoint = empty_checkpoint()
            checkpoint["channel_versions"] = {"items": f"{number:032}.0"}
            checkpoint["channel_values"] = {"items": ["seed"]} if number == 5 else {}
            metadata: Any = {"counters_since_delta_snapshot": {"items": [number, number]}}
            config = saver.put(config, checkpoint, metadata, checkpoint["channel_versions"])
            if number % 50 in (4, 5):
                saver.put_writes(config, [("items", [number])], "task")
        found = saver.get_delta_channel_history(config=config, channels=["items"])["items"]
        assert [value for _task, _channel, value in found["writes"]] == [
            [5],
            [54],
            [55],
            [104],
            [105],
            [154],
            [155],
            [204],
            [205],
        ]
        assert found.get("seed") == ["seed"]

    def test_of_what_is_not_there_is_empty(self) -> None:
        saver = DjangoSaver()
        assert saver.get_delta_channel_history(config=CONFIG, channels=["items"]) == {"items": {"writes": []}}
        assert saver.get_delta_channel_history(config=CONFIG, channels=[]) == {}
        graph_of(saver).invoke(_turn(1), CONFIG)
        missing: Any = {"configurable": {"thread_id": "t", "checkpoint_id": "1"}}
        assert saver.get_delta_channel_history(config=missing, channels=["items"]) == {"items": {"writes": []}}

    def test_of_the_latest_needs_no_id(self) -> None:
        saver = DjangoSaver()
        graph_of(saver).invoke(_turn(1), CONFIG)
        named = saver.get_tuple(CONFIG)
        assert named is not None
        found = [saver.get_delta_channel_history(config=one, channels=["items"]) for one in (CONFIG, named.config)]
        assert found[0] == found[1]
        assert found[0]["items"]["writes"]


@pytest.mark.parametrize("make", [DjangoSaver, InMemorySaver])
def test_a_graph_goes_on_with_all_that_was_written(make: Callable[[], BaseCheckpointSaver[Any]]) -> None:
    graph = graph_of(make())
    for number in range(4):
        state = graph.invoke(_turn(number), CONFIG)
    assert state["items"] == [0, "a", "b", 1, "a", "b", 2, "a", "b", 3, "a", "b"]
    assert state["total"] == 6 + 8


@pytest.mark.slow
def test_a_turn_costs_as_many_statements_however_many_there_were() -> None:
    async def counted() -> dict[int, int]:
        saver = DjangoSaver()
        graph = graph_of(saver)
        found = {}
        for number in range(1, 41):
            captured = await sync_to_async(lambda: CaptureQueriesContext(connections["default"]).__enter__())()
            await graph.ainvoke(_turn(number), CONFIG)
            await sync_to_async(captured.__exit__)(None, None, None)
            found[number] = len(captured)
        return found

    found = run(counted())
    assert found[40] == found[5]


@pytest.mark.slow
def test_pruning_looks_at_all_that_is_needed_at_once() -> None:
    saver = DjangoSaver()
    graph = graph_of(saver)
    counts = []
    for number in range(8):
        graph.invoke(_turn(number), CONFIG)
        with CaptureQueriesContext(connections["default"]) as captured:
            saver.prune(["t"])
        counts.append(len(captured))
        assert len(graph.get_state(CONFIG).values["items"]) == 3 * (number + 1)
    assert counts[7] == counts[2]
