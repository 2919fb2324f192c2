"""The stores that live as long as the process."""

from __future__ import annotations

from typing import Any

import pytest

from chatmemory import AiMessage, ChatMessage, InMemoryChatMemoryStore, SingleSlotChatMemoryStore, UserMessage

HI, HELLO = UserMessage("Hi"), AiMessage("Hello")

STORES = [
    pytest.param(lambda: InMemoryChatMemoryStore(), id="in memory"),
    pytest.param(lambda: SingleSlotChatMemoryStore("a"), id="single slot"),
]


@pytest.mark.parametrize("make", STORES)
class TestBothStores:
    def test_unknown_memory_is_empty(self, make: Any) -> None:
        assert make().get_messages("a") == []

    def test_update_replaces(self, make: Any) -> None:
        store = make()
        store.update_messages("a", [HI])
        store.update_messages("a", (HELLO, HI))
        assert store.get_messages("a") == [HELLO, HI]

    def test_delete(self, make: Any) -> None:
        store = make()
        store.update_messages("a", [HI])
        store.delete_messages("a")
        store.delete_messages("a")
        assert store.get_messages("a") == []

    def test_lists_are_copied_in_and_out(self, make: Any) -> None:
        store = make()
        given: list[ChatMessage] = [HI]
        store.update_messages("a", given)
        given.clear()
        store.get_messages("a").clear()
        assert store.get_messages("a") == [HI]

    def test_the_messages_are_the_very_objects(self, make: Any) -> None:
        store = make()
        store.update_messages("a", [HI])
        assert store.get_messages("a")[0] is HI

    def test_a_generator_is_read_once(self, make: Any) -> None:
        store = make()
        store.update_messages("a", (message for message in [HI, HELLO]))
        assert store.get_messages("a") == store.get_messages("a") == [HI, HELLO]

    def test_null_is_no_list(self, make: Any) -> None:
        store = make()
        store.update_messages("a", [HI])
        with pytest.raises(TypeError, match="messages of memory 'a' cannot be null; an empty list clears it"):
            store.update_messages("a", None)
        assert store.get_messages("a") == [HI]


class TestInMemory:
    @pytest.mark.parametrize(("one", "other"), [("a", "b"), (1, "1"), ("a", "A"), ((1,), (1, 2)), ("", " ")])
    def test_ids_keep_memories_apart(self, one: Any, other: Any) -> None:
        store = InMemoryChatMemoryStore()
        store.update_messages(one, [HI])
        assert store.get_messages(other) == []
        store.update_messages(other, [HELLO])
        store.delete_messages(one)
        assert store.get_messages(other) == [HELLO]

    def test_no_id(self) -> None:
        store = InMemoryChatMemoryStore()
        calls = [
            lambda: store.get_messages(None),
            lambda: store.update_messages(None, []),
            lambda: store.delete_messages(None),
        ]
        for call in calls:
            with pytest.raises(ValueError, match="memory_id cannot be null"):
                call()


class TestSingleSlot:
    @pytest.mark.parametrize(("asked", "shown"), [("b", "b"), (None, "null"), (1, "1")])
    def test_another_memory_is_refused(self, asked: Any, shown: str) -> None:
        store = SingleSlotChatMemoryStore("a")
        store.update_messages("a", [HI])
        error = f"This chat memory has id: a but an operation has been requested on a memory with id: {shown}"
        calls = [
            lambda: store.get_messages(asked),
            lambda: store.update_messages(asked, []),
            lambda: store.delete_messages(asked),
        ]
        for call in calls:
            with pytest.raises(ValueError, match=error):
                call()
        assert store.get_messages("a") == [HI]
