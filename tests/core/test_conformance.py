"""All scenarios that the real LangChain4j was put through, on every store."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chatmemory import (
    InMemoryChatMemoryStore,
    MessageWindowChatMemory,
    SingleSlotChatMemoryStore,
    TokenWindowChatMemory,
    messages_from_json,
    messages_to_json,
)
from chatmemory.core.serialization import message_to_data
from chatmemory.stores import DjangoChatMemoryStore
from tests.support import budget
from tests.vectors import OracleEstimator, as_messages, load, snake_case

# Scenarios that go another way here, on purpose; docs/langchain4j.md lists the same differences.
DEVIATIONS = {
    "mw_add_null_message": "a null message is refused: TypeError, nothing written",
    "mw_add_all_is_not_atomic": "a batch is one atomic change, so a failure in its middle leaves nothing of it",
    "tw_estimator_raises_on_stored_message": "a stored message that cannot be counted does not brick the memory",
}
ORM_DEVIATIONS = DEVIATIONS | {
    "mw_int_and_string_ids_differ": "the database knows a memory by the text of its ID",
    "mw_store_update_fails": "a failing store is a test double; a failing database is tested elsewhere",
}
# set() has no form with several arguments in Python, so its errors for none of them have nothing to compare with.
NO_COUNTERPART = {"set_varargs"}

# What a set of several messages by several calls was there is one call here.
BATCHES = {"add_all", "add_varargs"}


class JsonStore:
    """Keeps the text that the codec writes."""

    def __init__(self) -> None:
        self.texts: dict[Any, str] = {}

    def get_messages(self, memory_id: Any) -> list[Any]:
        return messages_from_json(self.texts.get(memory_id))

    def update_messages(self, memory_id: Any, messages: Any) -> None:
        self.texts[memory_id] = messages_to_json(messages)

    def delete_messages(self, memory_id: Any) -> None:
        self.texts.pop(memory_id, None)


class RecordingStore:
    """Passes calls on and lists them; fails when told to. Also a foreign store with nothing but the three methods."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.calls: list[str] = []
        self.failures: list[list[Any]] = []
        self.only_looking = False

    def _call(self, name: str) -> None:
        if self.only_looking:
            return
        self.calls.append(name)
        for failure in self.failures:
            if failure[0] == name:
                if failure[1] == 0:
                    self.failures.remove(failure)
                    raise RuntimeError(f"store failure: {name}")
                failure[1] -= 1
                return

    def get_messages(self, memory_id: Any) -> Any:
        self._call("get")
        return self.store.get_messages(memory_id)

    def update_messages(self, memory_id: Any, messages: Any) -> None:
        self._call("update")
        self.store.update_messages(memory_id, messages)

    def delete_messages(self, memory_id: Any) -> None:
        self._call("delete")
        self.store.delete_messages(memory_id)


def build(spec: dict[str, Any], store: Any) -> tuple[Any, dict[str, Any]]:
    """The memory of a scenario, and the limit that its dynamic provider gives."""
    name = "max_messages" if spec["type"] == "message_window" else "max_tokens"
    current = {"limit": spec[name]}
    kwargs: dict[str, Any] = {name: (lambda _id: current["limit"]) if spec.get("dynamic") else spec[name]}
    if "id" in spec:
        kwargs["id"] = spec["id"]
    kwargs["always_keep_system_message_first"] = spec.get("always_keep_system_message_first", False)
    if spec["type"] == "message_window":
        return MessageWindowChatMemory(store=store, **kwargs), current
    estimator = OracleEstimator(**spec.get("estimator", {}))
    return TokenWindowChatMemory(store=store, token_count_estimator=estimator, **kwargs), current


def pooled(scenario: dict[str, Any], value: Any) -> list[Any]:
    """Messages that a scenario names by their place in its pool, or gives as they are."""
    pool = scenario.get("pool")
    return [pool[item] if pool and isinstance(item, int) else item for item in value]


def run(scenario: dict[str, Any], store: Any, recording: RecordingStore | None) -> None:
    specs = scenario.get("memories") or {None: scenario["memory"]}
    memories = {key: build(spec, recording or store) for key, spec in specs.items()}
    for number, step in enumerate(scenario["steps"]):
        where = f"{scenario['name']}, step {number}: {json.dumps(step['op'])[:200]}"
        op, expect = step["op"], step["expect"]
        if op["op"] in NO_COUNTERPART and not op["messages"]:
            continue
        memory, current = memories[op.get("memory")]
        if recording:
            recording.calls.clear()
            recording.only_looking = False
        raised = perform(scenario, op, memory, current, store, recording)
        check_exception(expect["exception"], raised, where)
        if recording and op["op"] not in BATCHES:
            assert recording.calls == expect["store_calls"], where
        if recording:
            recording.only_looking = True
        for key, (each, _) in memories.items():
            seen = expect["memories"][key] if scenario.get("memories") else expect
            check_state(scenario, seen, each, store, where)


def perform(
    scenario: dict[str, Any], op: dict[str, Any], memory: Any, current: dict[str, Any], store: Any, recording: Any
) -> Exception | None:
    given = pooled(scenario, op["messages"]) if op.get("messages") else []
    try:
        match op["op"]:
            case "add":
                memory.add(*as_messages(pooled(scenario, [op["message"]])))
            case "add_all" | "add_varargs":
                memory.add(*as_messages(given))
            case "set" if op["messages"] is None:
                with pytest.raises(TypeError):
                    memory.set(None)
                return NullPointerError()
            case "set" | "set_varargs":
                memory.set(as_messages(given))
            case "set_iterable":
                memory.set(message for message in as_messages(given))
            case "set_then_mutate_input":
                messages = as_messages(given)
                memory.set(messages)
                messages.clear()
            case "messages":
                memory.messages()
            case "mutate_returned":
                memory.messages().clear()
            case "clear":
                memory.clear()
            case "set_max":
                current["limit"] = op["value"]
            case "store_update":
                store.update_messages(memory.id, as_messages(given))
            case "store_delete":
                store.delete_messages(memory.id)
            case "fail_next":
                recording.failures.append([op["call"], op.get("skip", 0)])
            case other:
                raise AssertionError(f"unknown op: {other}")
    except (ValueError, RuntimeError) as error:
        return error
    return None


class NullPointerError(Exception):
    """LangChain4j threw a NullPointerException, this package a TypeError."""


def check_exception(expected: Any, raised: Exception | None, where: str) -> None:
    if expected is None:
        assert raised is None, f"{where}: {raised!r}"
    elif expected["type"] == "NullPointerException":
        assert isinstance(raised, NullPointerError), where
    else:
        assert raised is not None, where
        assert isinstance(raised, ValueError) == (expected["type"] == "IllegalArgumentException"), where
        assert str(raised) == snake_case(expected["message"]), where


def check_state(scenario: dict[str, Any], expect: dict[str, Any], memory: Any, store: Any, where: str) -> None:
    stored = [message_to_data(message) for message in store.get_messages(memory.id)]
    assert stored == pooled(scenario, expect["store"]), where
    if expect["messages"] is None:
        with pytest.raises(ValueError, match="must be greater than zero"):
            memory.messages()
        return
    messages = memory.messages()
    assert [message_to_data(message) for message in messages] == pooled(scenario, expect["messages"]), where
    if "token_counts" in expect:
        estimator = memory._estimator
        assert [estimator.estimate_token_count_in_message(message) for message in messages] == expect["token_counts"]


SCENARIOS = load("named")["scenarios"] + load("random")["scenarios"]


def named(scenarios: list[Any], deviations: dict[str, str]) -> list[Any]:
    return [pytest.param(scenario, id=scenario["name"]) for scenario in scenarios if scenario["name"] not in deviations]


@pytest.mark.parametrize("scenario", named(SCENARIOS, DEVIATIONS))
def test_in_memory(scenario: dict[str, Any]) -> None:
    kind = scenario["store"]
    spec = scenario.get("memory") or {}
    stores = {"in_memory": InMemoryChatMemoryStore, "json": JsonStore}
    store = SingleSlotChatMemoryStore(spec.get("id", "default")) if kind == "single_slot" else stores[kind]()
    run(scenario, store, RecordingStore(store))


# Which statements a scenario sends, the named ones show on each database; what they do is the same on all of them.
ON_THE_ORM = load("named")["scenarios"] + load("random")["scenarios"][: budget.examples(400)]


@pytest.mark.django_db
@pytest.mark.parametrize("scenario", named(ON_THE_ORM, ORM_DEVIATIONS))
def test_on_the_orm(scenario: dict[str, Any]) -> None:
    run(scenario, DjangoChatMemoryStore(), None)


@pytest.mark.django_db
@pytest.mark.parametrize("scenario", named(load("named")["scenarios"], ORM_DEVIATIONS))
def test_a_foreign_memory_on_the_orm(scenario: dict[str, Any]) -> None:
    """The store also serves a memory that knows nothing but its three methods."""
    store = DjangoChatMemoryStore()
    run(scenario, store, RecordingStore(store))


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in load("named")["build_cases"]])
def test_construction(case: dict[str, Any]) -> None:
    build_case(case)


def build_case(case: dict[str, Any]) -> None:
    window = MessageWindowChatMemory if case["type"] == "message_window" else TokenWindowChatMemory
    limit = "max_messages" if case["type"] == "message_window" else "max_tokens"
    kwargs: dict[str, Any] = {}
    for name, *values in [[limit, *case["factory"]]] if "factory" in case else case["calls"]:
        match name:
            case "max_messages" | "max_tokens":
                kwargs[limit] = values[0]
            case "dynamic_max_messages" | "dynamic_max_tokens":
                if values[0] is None:
                    # The absent provider: here simply no limit at all.
                    kwargs.pop(limit, None)
                else:
                    kwargs[limit] = provider(values[0])
            case "chat_memory_store":
                kwargs["store"] = InMemoryChatMemoryStore() if values[0] else None
            case _:
                kwargs[name] = values[0]
        if case["type"] == "token_window" and len(values) == 2:
            kwargs["token_count_estimator"] = OracleEstimator() if values[1] else None
    expected = case["exception"]
    if expected is None:
        memory = window(**kwargs)
        assert memory.id == case["id"]
        assert memory.messages() == []
        return
    error = ValueError if expected["type"] == "IllegalArgumentException" else ProviderFailed
    with pytest.raises(error) as raised:
        window(**kwargs)
    assert str(raised.value) == snake_case(expected["message"])


class ProviderFailed(Exception):
    pass


def provider(spec: dict[str, Any]) -> Any:
    def limit(memory_id: Any) -> Any:
        if "throws" in spec:
            raise ProviderFailed(spec["throws"])
        return spec["by_id"].get(memory_id) if "by_id" in spec else spec["returns"]

    return limit


class TestDeviations:
    """What the scenarios left out above do here."""

    def test_mw_add_null_message(self) -> None:
        memory = MessageWindowChatMemory(max_messages=3)
        with pytest.raises(TypeError, match=r"messages\[0\] must be a message, but is: NoneType"):
            memory.add(None)  # type: ignore[arg-type]
        assert memory.messages() == []

    def test_mw_add_all_is_not_atomic(self) -> None:
        store = RecordingStore(InMemoryChatMemoryStore())
        memory = MessageWindowChatMemory(max_messages=9, store=store)
        messages = as_messages([{"type": "AI", "text": str(number)} for number in range(4)])
        memory.add(messages[0])
        store.failures.append(["update", 0])
        with pytest.raises(RuntimeError):
            memory.add(*messages[1:])
        assert memory.messages() == messages[:1]

    def test_tw_estimator_raises_on_stored_message(self) -> None:
        store = InMemoryChatMemoryStore()
        stored = as_messages([{"type": "CUSTOM", "attributes": {"k": "v"}}])
        store.update_messages("default", stored)
        estimator = OracleEstimator(raise_on_custom=True)
        memory = TokenWindowChatMemory(max_tokens=50, token_count_estimator=estimator, store=store)
        assert memory.messages() == stored
        new = as_messages([{"type": "AI", "text": "still works"}])
        memory.add(*new)
        assert memory.messages() == stored + new

    @pytest.mark.django_db
    def test_mw_int_and_string_ids_differ(self) -> None:
        messages = as_messages([{"type": "AI", "text": "one"}])
        DjangoChatMemoryStore().update_messages(1, messages)
        assert DjangoChatMemoryStore().get_messages("1") == messages
