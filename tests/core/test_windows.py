"""Windows with a low-water mark, whole turns and cleared tool results, beside a second model of their rules."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import takewhile
from typing import Any

import pytest
from hypothesis import assume, given, note
from hypothesis import strategies as st

from chatmemory import (
    ChatMessage,
    InMemoryChatMemoryStore,
    messages_to_json,
)
from chatmemory.core.entries import Entry
from chatmemory.core.eviction import Retained
from tests.core.test_conformance import pooled
from tests.support.naive_window import Item, NaiveWindow, Settings, Step
from tests.support.short_messages import message_of, short
from tests.support.window_cases import (
    batches_of,
    examples,
    memory_of,
    naive_settings,
    said,
    window_of,
    windows,
)
from tests.vectors import OracleEstimator, as_messages, load

SCENARIOS = load("windows")["scenarios"]
KNOWN = {"add", "set", "clear", "set_window"}
"""The steps that a memory without a database can do."""

IN_MEMORY = [scenario for scenario in SCENARIOS if {step["op"] for step in scenario["steps"]} <= KNOWN]
BEGINS_WITH_ADDS = [scenario for scenario in SCENARIOS if {step["op"] for step in scenario["steps"][:2]} == {"add"}]


def named(scenarios: list[dict[str, Any]]) -> list[Any]:
    return [pytest.param(scenario, id=scenario["name"]) for scenario in scenarios]


class TestVectors:
    def test_names(self) -> None:
        names = [scenario["name"] for scenario in SCENARIOS]
        assert len(names) == len(set(names)) > 110

    @pytest.mark.parametrize("scenario", named(IN_MEMORY))
    def test_in_memory(self, scenario: dict[str, Any]) -> None:
        window, store = scenario["window"], InMemoryChatMemoryStore()
        memory = memory_of(window, store)
        for number, step in enumerate(scenario["steps"]):
            match step["op"]:
                case "add":
                    memory.add(*map(message_of, step["messages"]))
                case "set":
                    memory.set(map(message_of, step["messages"]))
                case "clear":
                    memory.clear()
                case "set_window":
                    window = window | step["settings"]
                    memory = memory_of(window, store)
                    memory.set(memory.messages())
            assert list(map(short, memory.messages())) == step["memory"], (number, step)

    @pytest.mark.parametrize("scenario", named(BEGINS_WITH_ADDS))
    def test_a_batch_is_as_one_by_one(self, scenario: dict[str, Any]) -> None:
        """What is added up to the first step that is something else."""
        memory = memory_of(scenario["window"], InMemoryChatMemoryStore())
        added: list[ChatMessage] = []
        expected: list[Any] = []
        for step in takewhile(lambda step: step["op"] == "add", scenario["steps"]):
            added += map(message_of, step["messages"])
            expected = step["memory"]
        memory.add(*added)
        assert list(map(short, memory.messages())) == expected


@pytest.mark.parametrize("scenario", named(SCENARIOS))
def test_the_model_itself_does_as_the_vectors(scenario: dict[str, Any]) -> None:
    model = NaiveWindow(naive_settings(scenario["window"]))
    for number, step in enumerate(scenario["steps"]):
        where = number, step
        if step.get("refused"):
            with pytest.raises(ValueError, match="more than half"):
                do(model, step)
            continue
        done = do(model, step)
        assert list(map(short, done.memory)) == step["memory"], where
        assert list(map(short, done.stored)) == step.get("stored", step["memory"]), where
        left = [[short(message), reason] for message, reason in done.left]
        assert sorted(left, key=repr) == sorted(step.get("left", []), key=repr), where
        assert (done.total, done.version) == (step["total"], step["version"]), where
    for notation, cost in scenario.get("costs", {}).items():
        if notation == "request":
            assert model.settings.request_tokens == cost
        else:
            message = message_of(json.loads(notation) if notation.startswith("{") else notation)
            assert model.settings.tokens(message) == cost, notation


def do(model: NaiveWindow, step: dict[str, Any]) -> Step:
    """Do one step of a scenario on the model."""
    given = list(map(message_of, step.get("messages", ())))
    match step["op"]:
        case "add":
            return model.add(*given)
        case "set":
            return model.set(given)
        case "clear":
            return model.clear()
        case "clear_tool_results":
            arguments = ("keep", "exclude_tools", "placeholder")
            return model.clear_tool_results(**{name: step[name] for name in arguments if name in step})
        case "set_window":
            return model.set_window(**step["settings"])
    place = [item.message for item in model.items].index(message_of(step["message"]))
    return {"pin": model.pin, "unpin": model.unpin}[step["op"]](place)


RECORDED = {"add", "add_all", "add_varargs", "set", "set_iterable", "set_varargs", "clear", "messages", "set_max"}
"""The steps of LangChain4j's recordings that the model has."""


@pytest.mark.slow
def test_the_model_itself_is_langchain4j_by_default() -> None:
    tried = 0
    for scenario in [*load("named")["scenarios"], *load("random")["scenarios"]]:
        steps = scenario["steps"]
        if "memory" not in scenario or any(step["expect"]["exception"] for step in steps) or "null" in scenario["name"]:
            continue
        if {step["op"]["op"] for step in steps} <= RECORDED:
            tried += 1
            replay(scenario)
    assert tried > 370


def replay(scenario: dict[str, Any]) -> None:
    """Do what was recorded of the real LangChain4j on the model."""
    spec = scenario["memory"]
    estimator = OracleEstimator(**spec.get("estimator", {}))
    kind = "messages" if spec["type"] == "message_window" else "tokens"
    settings = Settings(
        window=kind,
        limit=spec[f"max_{kind}"],
        tokens=estimator.estimate_token_count_in_message,
        request_tokens=estimator.estimate_token_count_in_messages([]),
        always_keep_system_message_first=spec.get("always_keep_system_message_first", False),
    )
    model = NaiveWindow(settings)
    for step in scenario["steps"]:
        op = step["op"]
        given = as_messages(pooled(scenario, op.get("messages") or [op[name] for name in op if name == "message"]))
        match op["op"]:
            case "add" | "add_all" | "add_varargs":
                model.add(*given)
            case "set" | "set_iterable" | "set_varargs":
                model.set(given)
            case "clear":
                model.clear()
            case "set_max":
                model.settings = replace(model.settings, limit=op["value"])
        if step["expect"]["messages"] is not None:
            assert model.messages() == as_messages(pooled(scenario, step["expect"]["messages"])), scenario["name"]


class TestAnyConversation:
    @pytest.mark.slow
    @examples(200)
    @given(window=windows(), messages=said(), data=st.data())
    def test_memories_do_as_the_model(self, window: dict[str, Any], messages: list[ChatMessage], data: Any) -> None:
        store = InMemoryChatMemoryStore()
        memory, model = memory_of(window, store), NaiveWindow(naive_settings(window))
        for batch in data.draw(batches_of(messages)):
            step = model.add(*batch)
            memory.add(*batch)
            assert messages_to_json(memory.messages()) == messages_to_json(step.memory)
            if step.came:
                assert store.get_messages(memory.id) == step.stored

    @pytest.mark.slow
    @examples(200)
    @given(window=windows(), messages=said())
    def test_one_batch_is_as_one_by_one(self, window: dict[str, Any], messages: list[ChatMessage]) -> None:
        together, apart = (memory_of(window, InMemoryChatMemoryStore()) for _ in range(2))
        together.add(*messages)
        for message in messages:
            apart.add(message)
        assert together.messages() == apart.messages()

    @pytest.mark.slow
    @examples(200)
    @given(window=windows(), stored=said(), added=said(10), pins=st.sets(st.integers(0, 30), max_size=4))
    def test_what_leaves_and_why(
        self, window: dict[str, Any], stored: list[ChatMessage], added: list[ChatMessage], pins: set[int]
    ) -> None:
        bound, model = window_of(window), NaiveWindow(naive_settings(window))
        note(f"{window} {[short(m) for m in stored]} + {[short(m) for m in added]} {pins}")
        model.items = [Item(message, pinned=place in pins) for place, message in enumerate(stored)]
        entries = [Entry(message, bound.cost(message), pinned=place in pins) for place, message in enumerate(stored)]
        retained = Retained.fit(entries, bound)
        step = model.add(*added) if added else model.evict()
        for message in added:
            retained.add(Entry(message, bound.cost(message)))
        assume(retained.added or not added)  # if nothing is added, stores write nothing of it
        assert [entry.message for entry in retained.entries()] == step.stored
        assert retained.total == step.total
        came = [entry.message for entry in (*retained.added, *retained.placeholders)]
        assert sorted(map(repr, came)) == sorted(map(repr, step.came))
        assert gone(retained) == Counter((messages_to_json([message]), reason) for message, reason in step.left)

    @pytest.mark.slow
    @examples(200)
    @given(window=windows(), stored=said(), pins=st.sets(st.integers(0, 30), max_size=4))
    def test_a_second_look_changes_nothing(
        self, window: dict[str, Any], stored: list[ChatMessage], pins: set[int]
    ) -> None:
        bound = window_of(window)
        once = Retained.fit(
            [Entry(message, bound.cost(message), pinned=n in pins) for n, message in enumerate(stored)], bound
        )
        twice = Retained.fit(once.entries(), bound)
        assert twice.entries() == once.entries()
        assert twice.evicted == []


def gone(retained: Retained) -> Counter[tuple[str, str]]:
    """What left, and why; messages as JSON, for they have attributes."""
    return Counter((messages_to_json([entry.message]), str(reason)) for entry, reason in retained.evicted)


@pytest.mark.parametrize(
    "notation",
    [
        "S be kind",
        "U 1",
        "U one *20",
        "A",
        "A > weather1",
        "A x *3 > weather1 clock2",
        "R w1 sun *2",
        "E w1 storm",
        "P w1",
    ],
)
def test_short_messages(notation: str) -> None:
    assert short(message_of(notation)) == notation
