"""The two window memories."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory import (
    AiMessage,
    ChatMemory,
    ChatMessage,
    CustomMessage,
    InMemoryChatMemoryStore,
    MessageWindowChatMemory,
    OpenAiTokenCountEstimator,
    SystemMessage,
    TokenWindowChatMemory,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from tests.support.strategies import messages, tool_groups
from tests.vectors import OracleEstimator

ONE, TWO, THREE = UserMessage("one"), AiMessage("two"), UserMessage("three")
SYSTEM = SystemMessage("Be brief.")


class ListStore:
    """What anyone may write: three methods. Counts its writes."""

    def __init__(self) -> None:
        self.lists: dict[Any, list[ChatMessage]] = {}
        self.writes = 0

    def get_messages(self, memory_id: Any) -> list[ChatMessage]:
        return self.lists.get(memory_id, [])

    def update_messages(self, memory_id: Any, messages: Sequence[ChatMessage]) -> None:
        self.writes += 1
        self.lists[memory_id] = list(messages)

    def delete_messages(self, memory_id: Any) -> None:
        self.lists.pop(memory_id, None)


class OneEach:
    """Every message is one token, so that a token window can do what a window of messages does."""

    def estimate_token_count_in_text(self, text: str) -> int:
        return 1

    def estimate_token_count_in_message(self, message: ChatMessage) -> int:
        return 1

    def estimate_token_count_in_messages(self, messages: Iterable[ChatMessage]) -> int:
        return len(list(messages))


def message_window(limit: Any, **kwargs: Any) -> ChatMemory:
    return MessageWindowChatMemory(max_messages=limit, **kwargs)


def token_window(limit: Any, **kwargs: Any) -> ChatMemory:
    return TokenWindowChatMemory(max_tokens=limit, token_count_estimator=OneEach(), **kwargs)


Make = Callable[..., ChatMemory]
both = pytest.mark.parametrize("make", [message_window, token_window])


@both
class TestBothWindows:
    def test_remembers(self, make: Make) -> None:
        memory = make(3)
        assert memory.messages() == []
        memory.add(ONE)
        memory.add(TWO, THREE)
        assert memory.messages() == [ONE, TWO, THREE]

    def test_forgets_the_oldest(self, make: Make) -> None:
        memory = make(2)
        memory.add(ONE, TWO, THREE)
        assert memory.messages() == [TWO, THREE]

    def test_set_replaces(self, make: Make) -> None:
        memory = make(2)
        memory.add(SYSTEM, ONE)
        memory.set(message for message in [ONE, TWO, THREE])
        assert memory.messages() == [TWO, THREE]
        memory.set([])
        assert memory.messages() == []

    def test_set_applies_no_system_message_rule(self, make: Make) -> None:
        memory = make(3, always_keep_system_message_first=True)
        memory.set([ONE, SYSTEM, SYSTEM])
        assert memory.messages() == [ONE, SYSTEM, SYSTEM]

    def test_clear(self, make: Make) -> None:
        memory = make(3)
        memory.add(ONE)
        memory.clear()
        memory.clear()
        assert memory.messages() == []
        memory.add(TWO)
        assert memory.messages() == [TWO]

    @pytest.mark.parametrize(("first", "expected"), [(True, [SYSTEM, ONE]), (False, [ONE, SYSTEM])])
    def test_where_a_system_message_goes(self, make: Make, first: bool, expected: list[ChatMessage]) -> None:
        memory = make(3, always_keep_system_message_first=first)
        memory.add(ONE)
        memory.add(SYSTEM)
        assert memory.messages() == expected

    def test_a_list_that_was_given_out_is_the_callers(self, make: Make) -> None:
        memory = make(3)
        memory.add(ONE)
        memory.messages().clear()
        assert memory.messages() == [ONE]

    def test_without_a_store_each_memory_has_its_own(self, make: Make) -> None:
        one, other = make(3), make(3)
        one.add(ONE)
        assert other.messages() == []

    def test_memories_share_a_store_by_id(self, make: Make) -> None:
        store = InMemoryChatMemoryStore()
        make(3, id="a", store=store).add(ONE)
        make(3, id="b", store=store).add(TWO)
        assert make(3, id="a", store=store).messages() == [ONE]
        assert make(3, id="b", store=store).messages() == [TWO]

    @pytest.mark.parametrize("memory_id", ["support-42", "", 0, 42, (1, "x")])
    def test_id(self, make: Make, memory_id: Any) -> None:
        memory = make(3, id=memory_id)
        memory.add(ONE)
        assert memory.id == memory_id
        assert memory.messages() == [ONE]

    def test_default_id(self, make: Make) -> None:
        assert make(3).id == "default"

    def test_no_id(self, make: Make) -> None:
        with pytest.raises(ValueError, match="id cannot be null"):
            make(3, id=None)

    def test_repr_says_which_memory_it_is(self, make: Make) -> None:
        assert "id='support-42'" in repr(make(7, id="support-42"))
        assert "=7)" in repr(make(7))

    @pytest.mark.parametrize("limit", [0, -1, None, 1.5, "3", True])
    def test_limit(self, make: Make, limit: Any) -> None:
        with pytest.raises(
            ValueError, match=r"max_(messages|tokens) must be (a whole number )?greater than zero, but is: "
        ):
            make(limit)

    def test_a_store_of_ones_own(self, make: Make) -> None:
        store = ListStore()
        memory = make(2, id="a", store=store)
        memory.add(ONE, TWO, THREE)
        assert store.lists == {"a": [TWO, THREE]}
        assert store.writes == 1, "a batch is one write"
        memory.set([THREE])
        memory.clear()
        assert store.lists == {}
        assert memory.store is store

    def test_what_changes_nothing_writes_nothing(self, make: Make) -> None:
        store = ListStore()
        memory = make(2, store=store)
        memory.add(SYSTEM)
        memory.add()
        memory.add(SYSTEM)
        memory.add(SYSTEM, SYSTEM)
        memory.messages()
        assert store.writes == 1

    @pytest.mark.slow
    @given(st.lists(tool_groups() | messages().map(lambda message: [message])), st.integers(1, 9), st.booleans())
    def test_a_batch_is_as_one_by_one(
        self, make: Make, groups: list[list[ChatMessage]], limit: int, first: bool
    ) -> None:
        batch, single = (make(limit, always_keep_system_message_first=first) for _ in range(2))
        for group in groups:
            batch.add(*group)
            for message in group:
                single.add(message)
        assert batch.messages() == single.messages()


def test_no_limit() -> None:
    with pytest.raises(ValueError, match="max_messages_provider cannot be null"):
        MessageWindowChatMemory()
    with pytest.raises(ValueError, match="max_tokens_provider cannot be null"):
        TokenWindowChatMemory(token_count_estimator=OneEach())


@both
class TestWrongArguments:
    @pytest.mark.parametrize(
        "wrong",
        [
            pytest.param(lambda memory: memory.add(None), id="null"),
            pytest.param(lambda memory: memory.add("Hi"), id="text"),
            pytest.param(lambda memory: memory.add([TWO]), id="list"),
            pytest.param(lambda memory: memory.add(TWO, None), id="null in a batch"),
            pytest.param(lambda memory: memory.add(TWO, {"type": "AI"}), id="dict"),
            pytest.param(lambda memory: memory.set(None), id="set null"),
            pytest.param(lambda memory: memory.set(TWO), id="set one message"),
            pytest.param(lambda memory: memory.set([TWO, None]), id="set list with null"),
            pytest.param(lambda memory: memory.set(5), id="set number"),
            pytest.param(lambda memory: memory.set("Hi"), id="set text"),
        ],
    )
    def test_nothing_is_written(self, make: Make, wrong: Callable[[ChatMemory], None]) -> None:
        store = ListStore()
        memory = make(3, store=store)
        memory.add(ONE)
        with pytest.raises(TypeError):
            wrong(memory)
        assert memory.messages() == [ONE]
        assert store.writes == 1

    def test_the_error_names_the_place(self, make: Make) -> None:
        with pytest.raises(TypeError, match=r"messages\[1\] must be a message, but is: str"):
            make(3).add(ONE, "two")  # type: ignore[arg-type]

    def test_an_iterator_that_fails_writes_nothing(self, make: Make) -> None:
        def failing() -> Iterator[ChatMessage]:
            yield TWO
            raise OSError("gone")

        memory = make(3)
        memory.add(ONE)
        with pytest.raises(OSError, match="gone"):
            memory.set(failing())
        assert memory.messages() == [ONE]


@both
class TestDynamicLimit:
    def test_is_asked_with_the_id_every_time(self, make: Make) -> None:
        limits = {"a": 2, "b": 1}
        store = InMemoryChatMemoryStore()
        for memory_id, expected in (("a", [ONE, TWO]), ("b", [TWO])):
            memory = make(limits.__getitem__, id=memory_id, store=store)
            memory.add(ONE, TWO)
            assert memory.messages() == expected

    def test_shrinking_is_a_view_until_the_next_add(self, make: Make) -> None:
        limit = 3
        memory = make(lambda memory_id: limit)
        memory.add(ONE, TWO, THREE)
        limit = 1
        assert memory.messages() == [THREE]
        limit = 3
        assert memory.messages() == [ONE, TWO, THREE]
        limit = 1
        memory.add(ONE)
        limit = 3
        assert memory.messages() == [ONE]

    def test_a_limit_that_turns_bad_is_an_error_and_writes_nothing(self, make: Make) -> None:
        limit = 3
        memory = make(lambda memory_id: limit)
        memory.add(ONE)
        limit = 0
        calls: list[Callable[[], Any]] = [memory.messages, lambda: memory.add(TWO), lambda: memory.set([])]
        for call in calls:
            with pytest.raises(ValueError, match="must be greater than zero, but is: 0"):
                call()
        limit = 3
        assert memory.messages() == [ONE]


@both
class TestAsync:
    def test_twins(self, make: Make) -> None:
        async def use() -> None:
            memory = make(2)
            await memory.aadd(ONE, TWO)
            await memory.aadd(THREE)
            assert await memory.amessages() == [TWO, THREE]
            await memory.aset([ONE])
            assert await memory.amessages() == [ONE]
            await memory.aclear()
            assert await memory.amessages() == []

        asyncio.run(use())

    def test_errors_come_through(self, make: Make) -> None:
        with pytest.raises(TypeError, match="must be a message"):
            asyncio.run(make(2).aadd(None))  # type: ignore[arg-type]

    @pytest.mark.slow
    def test_many_tasks_lose_nothing(self, make: Make) -> None:
        memory = make(100)

        async def use() -> None:
            await asyncio.gather(*(memory.aadd(UserMessage(str(number))) for number in range(100)))

        asyncio.run(use())
        assert {message.single_text() for message in memory.messages()} == set(map(str, range(100)))  # type: ignore[attr-defined]


class ChainStore(ListStore):
    """Notices every write that does not build on the one before."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit
        self.lost = 0

    def update_messages(self, memory_id: Any, messages: Sequence[ChatMessage]) -> None:
        before = self.lists.get(memory_id, [])
        super().update_messages(memory_id, messages)
        self.lost += messages[:-1] != [*before, messages[-1]][-self.limit : -1]


@both
class TestThreads:
    @pytest.fixture(autouse=True)
    def _hurry(self) -> Iterator[None]:
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        yield
        sys.setswitchinterval(interval)

    @staticmethod
    def add_from_threads(memories: list[ChatMemory], adds: int) -> None:
        barrier = threading.Barrier(8)

        def add(number: int) -> None:
            barrier.wait()
            for count in range(adds):
                memories[number % len(memories)].add(UserMessage(f"{number} {count}"))

        threads = [threading.Thread(target=add, args=[number]) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    @pytest.mark.slow
    @pytest.mark.parametrize("objects", [1, 2], ids=["one object", "two objects over one store"])
    def test_500_adds_of_8_threads_build_on_each_other(self, make: Make, objects: int) -> None:
        store = ChainStore(limit=10)
        self.add_from_threads([make(10, store=store) for _ in range(objects)], adds=500)
        assert (store.writes, store.lost) == (4000, 0)

    @pytest.mark.parametrize("objects", [1, 2], ids=["one object", "two objects over one store"])
    def test_all_that_fits_is_there_in_order(self, make: Make, objects: int) -> None:
        store = InMemoryChatMemoryStore()
        memories = [make(400, store=store) for _ in range(objects)]
        self.add_from_threads(memories, adds=50)
        said: dict[str, list[int]] = {}
        for message in memories[0].messages():
            thread, count = message.single_text().split()  # type: ignore[attr-defined]
            said.setdefault(thread, []).append(int(count))
        assert said == {str(number): list(range(50)) for number in range(8)}


class TestTokenWindow:
    def test_keeps_what_fits_with_the_overhead_of_a_request(self) -> None:
        # "one" is 4 + 1 tokens, and a request 3.
        memory = TokenWindowChatMemory(max_tokens=13, token_count_estimator=OpenAiTokenCountEstimator("gpt-4o"))
        memory.add(UserMessage("one"), UserMessage("two"))
        assert memory.messages() == [UserMessage("one"), UserMessage("two")]
        smaller = TokenWindowChatMemory(max_tokens=12, token_count_estimator=OpenAiTokenCountEstimator("gpt-4o"))
        smaller.add(UserMessage("one"), UserMessage("two"))
        assert smaller.messages() == [UserMessage("two")]

    def test_a_message_that_does_not_fit_leaves_whole(self) -> None:
        memory = TokenWindowChatMemory(max_tokens=50, token_count_estimator=OpenAiTokenCountEstimator("gpt-4o"))
        memory.add(UserMessage("one"), UserMessage("word " * 100))
        assert memory.messages() == []

    def test_results_leave_with_their_call(self) -> None:
        memory = TokenWindowChatMemory(max_tokens=40, token_count_estimator=OpenAiTokenCountEstimator("gpt-4o"))
        memory.add(AiMessage(None, [ToolExecutionRequest("1", "weather", "{}")]))
        memory.add(ToolExecutionResultMessage("1", "weather", "sunny"))
        memory.add(UserMessage("word " * 15))
        assert memory.messages() == [UserMessage("word " * 15)]

    def test_needs_an_estimator(self) -> None:
        with pytest.raises(ValueError, match="token_count_estimator cannot be null"):
            TokenWindowChatMemory(max_tokens=5, token_count_estimator=None)  # type: ignore[arg-type]

    def test_a_message_that_cannot_be_counted_is_not_added(self) -> None:
        memory = TokenWindowChatMemory(max_tokens=50, token_count_estimator=OracleEstimator(raise_on_custom=True))
        memory.add(ONE)
        with pytest.raises(ValueError, match="Unknown message type: CUSTOM"):
            memory.add(TWO, CustomMessage({}))
        with pytest.raises(ValueError, match="Unknown message type: CUSTOM"):
            memory.set([TWO, CustomMessage({})])
        assert memory.messages() == [ONE]

    def test_a_stored_message_that_cannot_be_counted_takes_its_room_all_the_same(self) -> None:
        store = InMemoryChatMemoryStore()
        large = CustomMessage({"k": "word " * 100})
        store.update_messages("default", [CustomMessage({}), ONE])
        store.update_messages("large", [large, ONE])
        estimator = OracleEstimator(raise_on_custom=True)

        def memory(memory_id: str) -> ChatMemory:
            return TokenWindowChatMemory(id=memory_id, max_tokens=50, token_count_estimator=estimator, store=store)

        assert memory("default").messages() == [CustomMessage({}), ONE]
        assert memory("large").messages() == [ONE]
        memory("large").add(TWO)
        assert memory("large").messages() == [ONE, TWO]


def test_an_id_that_cannot_be_a_key_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        MessageWindowChatMemory(id=["a"], max_messages=1)
