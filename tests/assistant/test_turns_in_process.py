"""Turns of an assistant, on memories in this process: what is added when, and what a failure leaves behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory import (
    AiMessage,
    ChatMemory,
    ChatMessage,
    InMemoryChatMemoryStore,
    MessageWindowChatMemory,
    SystemMessage,
    TextContent,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.assistant import (
    Added,
    Assistant,
    ChatModel,
    ConversationBusyError,
    ModelError,
    ToolError,
    ToolSpecification,
    TooManyToolInvocationsError,
    TurnLostError,
    WindowTooSmallError,
)
from tests.support.assistant_models import ScriptedModel, calling

Chat = Callable[..., AiMessage]


def chat(assistant: Assistant, *arguments: Any, **options: Any) -> AiMessage:
    return assistant.chat(*arguments, **options)


def achat(assistant: Assistant, *arguments: Any, **options: Any) -> AiMessage:
    return asyncio.run(assistant.achat(*arguments, **options))


def _answer(events: Sequence[str | Added], memory: ChatMemory) -> AiMessage:
    last = memory.messages()[-1]
    assert isinstance(last, AiMessage)
    return last


def stream(assistant: Assistant, *arguments: Any, **options: Any) -> AiMessage:
    return _answer(list(assistant.stream(*arguments, **options)), assistant.memory(arguments[0]))


def astream(assistant: Assistant, *arguments: Any, **options: Any) -> AiMessage:
    async def collect() -> list[str | Added]:
        return [event async for event in assistant.astream(*arguments, **options)]

    return _answer(asyncio.run(collect()), assistant.memory(arguments[0]))


every_way = pytest.mark.parametrize("turn", [chat, achat, stream, astream])


def memory(limit: int = 20) -> MessageWindowChatMemory:
    return MessageWindowChatMemory(max_messages=limit)


def plus(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def oops() -> None:
    raise ZeroDivisionError("by zero")


@every_way
class TestTurn:
    def test_the_user_speaks_and_the_model_answers(self, turn: Chat) -> None:
        model = ScriptedModel("Hello Ann", "Ann")
        assistant = Assistant(model, memory=memory())
        assert turn(assistant, "default", "I am Ann") == AiMessage("Hello Ann")
        assert turn(assistant, "default", "Who am I?") == AiMessage("Ann")
        said = [UserMessage("I am Ann"), AiMessage("Hello Ann"), UserMessage("Who am I?")]
        assert model.asked == [said[:1], said]
        assert assistant.memory("default").messages() == [*said, AiMessage("Ann")]

    def test_a_user_message_may_hold_more_than_text(self, turn: Chat) -> None:
        message = UserMessage([TextContent("a"), TextContent("b")], name="ann")
        assistant = Assistant(ScriptedModel("c"), memory=memory())
        turn(assistant, "default", message)
        assert assistant.memory("default").messages()[0] == message

    def test_a_system_message_is_there_once_and_follows_what_it_is(self, turn: Chat) -> None:
        words = ["Be brief.", "Be brief.", "Be kind.", None]
        model = ScriptedModel("1", "2", "3", "4")
        assistant = Assistant(model, memory=memory(), system_message=lambda memory_id: words.pop(0))
        for text in "abcd":
            turn(assistant, "default", text)
        systems = [[one for one in asked if isinstance(one, SystemMessage)] for asked in model.asked]
        assert systems == [
            [SystemMessage("Be brief.")],
            [SystemMessage("Be brief.")],
            [SystemMessage("Be kind.")],
            [SystemMessage("Be kind.")],
        ]

    def test_all_calls_of_an_answer_get_their_results_in_order(self, turn: Chat) -> None:
        call = calling(("plus", '{"a": 1, "b": 2}'), ("oops", "{}"), ("plus", '{"a": "x", "b": 2}'), ("gone", "{}"))
        model = ScriptedModel(call, "3")
        assistant = Assistant(model, memory=memory(), tools=[plus, oops])
        assert turn(assistant, "default", "1+2?") == AiMessage("3")
        assert [tool.name for tool in model.tools] == ["plus", "oops"]
        results = [
            ToolExecutionResultMessage("call_0", "plus", "3"),
            ToolExecutionResultMessage("call_1", "oops", "The tool failed: ZeroDivisionError", is_error=True),
            ToolExecutionResultMessage("call_2", "plus", "a: Input should be a valid integer", is_error=True),
            ToolExecutionResultMessage(
                "call_3", "gone", "There is no tool 'gone'. There is: plus, oops.", is_error=True
            ),
        ]
        assert model.asked[1] == [UserMessage("1+2?"), call, *results]

    def test_a_result_that_is_too_long_is_cut(self, turn: Chat) -> None:
        def repeat(text: str, times: int) -> str:
            return text * times

        def fail() -> None:
            raise ToolError("no" * 100)

        call = calling(
            ("repeat", '{"text": "ab", "times": 5}'), ("repeat", '{"text": "ab", "times": 50000}'), ("fail", "{}")
        )
        model = ScriptedModel(call, "Done")
        assistant = Assistant(model, memory=memory(), tools=[repeat, fail], max_tool_result_chars=10)
        turn(assistant, "default", "Again")
        kept, cut, failed = (message for message in model.asked[1] if isinstance(message, ToolExecutionResultMessage))
        assert kept.text == "ababababab"
        assert cut.text == "ababababab\n[The result was cut here: it had 100000 characters.]"
        assert (failed.text.splitlines()[0], failed.is_error) == ("nonononono", True)

    def test_an_empty_answer_is_none(self, turn: Chat) -> None:
        assistant = Assistant(ScriptedModel(AiMessage(thinking="Hm."), "Hello"), memory=memory())
        with pytest.raises(ModelError, match="empty answer"):
            turn(assistant, "default", "Hi")
        assert turn(assistant, "default") == AiMessage("Hello")
        assert assistant.memory("default").messages() == [UserMessage("Hi"), AiMessage("Hello")]

    def test_a_failing_model_leaves_what_was_said_and_the_turn_can_go_on(self, turn: Chat) -> None:
        call = calling(("plus", '{"a": 1, "b": 2}'))
        model = ScriptedModel(OSError("away"), call, OSError("away again"), "3")
        assistant = Assistant(model, memory=memory(), tools=[plus])
        with pytest.raises(OSError, match=r"^away$"):
            turn(assistant, "default", "1+2?")
        assert assistant.memory("default").messages() == [UserMessage("1+2?")]
        with pytest.raises(OSError, match="again"):
            turn(assistant, "default")
        assert turn(assistant, "default") == AiMessage("3")
        result = ToolExecutionResultMessage("call_0", "plus", "3")
        assert assistant.memory("default").messages() == [UserMessage("1+2?"), call, result, AiMessage("3")]

    def test_where_nobody_waits_nothing_happens(self, turn: Chat) -> None:
        model = ScriptedModel("Hello")
        assistant = Assistant(model, memory=memory())
        with pytest.raises(ValueError, match="the conversation is empty"):
            turn(assistant, "default")
        turn(assistant, "default", "Hi")
        assert turn(assistant, "default") == AiMessage("Hello")
        assert len(model.asked) == 1

    def test_calls_that_were_interrupted_get_results_and_are_not_run_again(self, turn: Chat) -> None:
        ran = []

        def pay(amount: int) -> str:
            ran.append(amount)
            return "paid"

        given = calling(("pay", '{"amount": 1}'), ("pay", '{"amount": 2}'))
        model = ScriptedModel("Please check.")
        assistant = Assistant(model, memory=memory(), tools=[pay])
        assistant.memory("default").add(UserMessage("Pay"), given, ToolExecutionResultMessage("call_0", "pay", "paid"))
        turn(assistant, "default", "Well?")
        assert ran == []
        *_, interrupted, asked = model.asked[0]
        assert interrupted == ToolExecutionResultMessage(
            "call_1", "pay", "The call was interrupted. Whether it had an effect is not known.", is_error=True
        )
        assert asked == UserMessage("Well?")

    def test_a_model_that_never_stops_calling_tools(self, turn: Chat) -> None:
        call = calling(("plus", '{"a": 1, "b": 2}'))
        model = ScriptedModel(call, call, call, "3")
        assistant = Assistant(model, memory=memory(), tools=[plus], max_sequential_tools_invocations=2)
        with pytest.raises(TooManyToolInvocationsError, match="2 times in a row"):
            turn(assistant, "default", "1+2?")
        assert [one.type for one in assistant.memory("default").messages()] == [
            "USER",
            *["AI", "TOOL_EXECUTION_RESULT"] * 2,
        ]
        assert turn(assistant, "default") == AiMessage("3")

    def test_a_window_too_small_for_a_call_and_its_results(self, turn: Chat) -> None:
        call = calling(("plus", '{"a": 1, "b": 2}'), ("plus", '{"a": 1, "b": 2}'))
        assistant = Assistant(ScriptedModel(call), memory=memory(2), tools=[plus])
        with pytest.raises(WindowTooSmallError, match="a tool call and its results"):
            turn(assistant, "default", "1+2?")

    def test_what_it_answers_does_not_leave_the_memory_while_tools_run(self, turn: Chat) -> None:
        model = ScriptedModel(*(calling(("plus", '{"a": 1, "b": 2}')) for _ in range(9)), "3")
        assistant = Assistant(model, memory=memory(10), tools=[plus], system_message="Be brief.")
        with pytest.raises(WindowTooSmallError, match="the message that it answers left the memory while tools ran"):
            turn(assistant, "default", "1+2?")
        assert len(model.asked) == 5
        assert all(UserMessage("1+2?") in asked for asked in model.asked)

    def test_what_is_no_answer(self, turn: Chat) -> None:
        assistant = Assistant(lambda messages, tools: "Hello", memory=memory())  # type: ignore[arg-type,return-value]
        with pytest.raises((TypeError, AttributeError)):
            turn(assistant, "default", "Hi")
        assert assistant.memory("default").messages() == [UserMessage("Hi")]

    def test_two_users_have_two_memories(self, turn: Chat) -> None:
        model = ScriptedModel("a", "b", "c")
        assistant = Assistant(model, memory=lambda memory_id: MessageWindowChatMemory(id=memory_id, max_messages=9))
        turn(assistant, "ann", "1")
        turn(assistant, "bob", "2")
        turn(assistant, "ann", "3")
        assert [len(asked) for asked in model.asked] == [1, 1, 3]
        assistant.forget("ann")
        assert assistant.memory("ann").messages() == []
        assert len(assistant.memory("bob").messages()) == 2


class TestArguments:
    def test_one_memory_has_one_id(self) -> None:
        with pytest.raises(ValueError, match="whose ID is 'default', but the ID given is 'ann'"):
            Assistant(ScriptedModel(), memory=memory()).chat("ann", "Hi")

    def test_what_cannot_be(self) -> None:
        with pytest.raises(TypeError, match="model must be a ChatModel or a function, but is: int"):
            Assistant(1, memory=memory())  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="memory must be a ChatMemory or a callable, but is: list"):
            Assistant(ScriptedModel(), memory=[])  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="turn_timeout must be greater than zero, but is: 0"):
            Assistant(ScriptedModel(), memory=memory(), turn_timeout=0)
        with pytest.raises(ValueError, match="turn_timeout must be finite"):
            Assistant(ScriptedModel(), memory=memory(), turn_timeout=float("inf"))
        with pytest.raises(TypeError, match=r"max_sequential_tools_invocations must be an int, but is: 2\.5"):
            Assistant(ScriptedModel(), memory=memory(), max_sequential_tools_invocations=2.5)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="max_tool_result_chars must be greater than zero, but is: 0"):
            Assistant(ScriptedModel(), memory=memory(), max_tool_result_chars=0)
        with pytest.raises(ValueError, match="two tools are called 'plus'"):
            Assistant(ScriptedModel(), memory=memory(), tools=[plus, plus])
        with pytest.raises(TypeError, match="the memory of 1 must be a ChatMemory, but is: list"):
            Assistant(ScriptedModel(), memory=lambda _: []).chat(1, "Hi")  # type: ignore[arg-type,return-value]
        with pytest.raises(TypeError, match="message must be a text or a UserMessage, but is: AiMessage"):
            Assistant(ScriptedModel(), memory=memory()).chat("default", AiMessage("Hi"))  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="idempotency_key needs a memory in Django's database"):
            Assistant(ScriptedModel(), memory=memory()).chat("default", "Hi", idempotency_key="1")


class TestModels:
    def test_a_function_may_be_async(self) -> None:
        async def model(messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> AiMessage:
            return AiMessage(f"{len(messages)}")

        assistant = Assistant(model, memory=memory())
        assert [turn(assistant, "default", "Hi").text for turn in (chat, achat, stream, astream)] == [
            "1",
            "3",
            "5",
            "7",
        ]

    def test_pieces_come_as_they_are_made_and_what_was_added_in_between(self) -> None:
        assistant = Assistant(
            ScriptedModel(calling(("plus", '{"a": 1, "b": 2}'), text="Let me see"), "It is 3"),
            memory=memory(),
            tools=[plus],
        )
        events = list(assistant.stream("default", "1+2?"))
        assert [event if isinstance(event, str) else [one.type for one in event.messages] for event in events] == [
            ["USER"],
            "Let",
            "me",
            "see",
            ["AI"],
            ["TOOL_EXECUTION_RESULT"],
            "It",
            "is",
            "3",
            ["AI"],
        ]

    @pytest.mark.parametrize("is_async", [False, True])
    def test_a_stream_that_breaks_off_leaves_nothing_of_the_answer(self, is_async: bool) -> None:
        class Broken(ChatModel):
            def chat(self, messages: Any, tools: Any) -> AiMessage:
                raise AssertionError

            def stream(self, messages: Any, tools: Any) -> Iterator[str | AiMessage]:
                yield "Once"

            async def astream(self, messages: Any, tools: Any) -> AsyncIterator[str | AiMessage]:
                yield "Once"

        assistant = Assistant(Broken(), memory=memory())
        with pytest.raises(ModelError, match="before the answer was whole"):
            (astream if is_async else stream)(assistant, "default", "Hi")
        assert assistant.memory("default").messages() == [UserMessage("Hi")]

    @pytest.mark.parametrize("is_async", [False, True])
    def test_empty_pieces_are_signs_of_life_alone(self, is_async: bool) -> None:
        class Thoughtful(ChatModel):
            def chat(self, messages: Any, tools: Any) -> AiMessage:
                return AiMessage("Yes")

            def stream(self, messages: Any, tools: Any) -> Iterator[str | AiMessage]:
                yield from ["", "", "Yes", "", self.chat(messages, tools)]

            async def astream(self, messages: Any, tools: Any) -> AsyncIterator[str | AiMessage]:
                for piece in self.stream(messages, tools):
                    yield piece

        assistant = Assistant(Thoughtful(), memory=memory())

        async def pieces() -> list[Any]:
            return [event async for event in assistant.astream("default", "Hi")]

        said = asyncio.run(pieces()) if is_async else list(assistant.stream("default", "Hi"))
        assert [piece for piece in said if isinstance(piece, str)] == ["Yes"]

    def test_who_leaves_a_stream_leaves_nothing_of_the_answer_and_the_model_is_told(self) -> None:
        closed = []
        tasks = []

        class Slow(ChatModel):
            def chat(self, messages: Any, tools: Any) -> AiMessage:
                return AiMessage("Hello")

            def stream(self, messages: Any, tools: Any) -> Iterator[str | AiMessage]:
                try:
                    yield "Once"
                    yield "upon"
                finally:
                    closed.append("sync")

            async def astream(self, messages: Any, tools: Any) -> AsyncIterator[str | AiMessage]:
                try:
                    yield "Once"
                    yield "upon"
                finally:
                    closed.append("async")
                    tasks.append(asyncio.current_task())

        assistant = Assistant(Slow(), memory=memory(), wait_timeout=0.01)
        events = assistant.stream("default", "Hi")
        assert isinstance(next(events), Added)
        assert next(events) == "Once"
        events.close()

        async def leave() -> None:
            events = assistant.astream("default", "Hi again")
            assert isinstance(await anext(events), Added)
            assert await anext(events) == "Once"
            await events.aclose()
            assert tasks == [asyncio.current_task()]  # who leaves, before they go on

        asyncio.run(leave())
        assert closed == ["sync", "async"]
        assert assistant.memory("default").messages() == [UserMessage("Hi"), UserMessage("Hi again")]
        assert assistant.chat("default") == AiMessage("Hello")


class TestOneTurnAtATime:
    @pytest.mark.parametrize("shares_store", [False, True])
    def test_threads_take_turns(self, shares_store: bool) -> None:
        at_once: list[int] = []
        thinking = 0
        lock = threading.Lock()

        def model(messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> AiMessage:
            nonlocal thinking
            with lock:
                thinking += 1
                at_once.append(thinking)
            last = messages[-1]
            assert isinstance(last, UserMessage)
            with lock:
                thinking -= 1
            return AiMessage(f"Re: {last.single_text()}")

        store = InMemoryChatMemoryStore()
        one = memory(1000)
        # A provider that makes the memory anew each time, for two assistants, and one memory that both have.
        provided = (lambda _: MessageWindowChatMemory(max_messages=1000, store=store)) if shares_store else one
        assistants = [Assistant(model, memory=provided) for _ in range(2)]

        def work(number: int) -> None:
            for turn in range(10):
                assistants[number % 2].chat("default", f"{number} {turn}")

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        said = assistants[0].memory("default").messages()
        assert len(said) == 120
        assert set(at_once) == {1}
        for question, answer in zip(said[::2], said[1::2], strict=True):
            assert answer == AiMessage(f"Re: {question.single_text()}")  # type: ignore[attr-defined]

    def test_who_waits_too_long_is_told(self) -> None:
        assistant = Assistant(ScriptedModel("Hello", "Hi"), memory=memory(), wait_timeout=0.02)
        events = assistant.stream("default", "Hi")
        next(events)
        with pytest.raises(ConversationBusyError, match=r"conversation 'default' did not end within 0.02 seconds"):
            assistant.chat("default", "Hi")
        list(events)
        assert assistant.chat("default", "Well?") == AiMessage("Hi")

    @pytest.mark.parametrize("is_async", [False, True])
    def test_a_turn_that_is_interrupted(self, is_async: bool) -> None:
        assistant = Assistant(ScriptedModel("Once upon", "Hello"), memory=memory(), wait_timeout=0.02)
        assistant.interrupt("default")
        events = assistant.stream("default", "Hi")
        next(events)
        assert next(events) == "Once"
        if is_async:
            asyncio.run(assistant.ainterrupt("default"))
        else:
            assistant.interrupt("default")
        stopped = AiMessage("Once", attributes={"stopped": True})
        assert assistant.chat("default", "Well?") == AiMessage("Hello")
        with pytest.raises(TurnLostError, match="interrupted"):
            list(events)
        assert assistant.memory("default").messages() == [
            *[UserMessage("Hi"), stopped, UserMessage("Well?"), AiMessage("Hello")]
        ]

    def test_tasks_take_turns(self) -> None:
        assistant = Assistant(ScriptedModel(*"abcdef"), memory=memory())

        async def together() -> None:
            await asyncio.gather(*(assistant.achat("default", str(number)) for number in range(6)))

        asyncio.run(together())
        types = [message.type for message in assistant.memory("default").messages()]
        assert types == ["USER", "AI"] * 6


@pytest.mark.slow
@given(
    outcomes=st.lists(
        st.one_of(
            st.just("text"),
            st.just(OSError("away")),
            st.lists(st.sampled_from(["plus", "oops", "gone", "leave"]), min_size=1, max_size=3),
        ),
        max_size=12,
    ),
    limit=st.integers(1, 9),
    way=st.sampled_from([chat, stream]),
)
def test_whatever_fails_the_history_is_what_was_said(outcomes: list[Any], limit: int, way: Chat) -> None:
    """A store that keeps all that is added: questions once, answers after them, and every call before its results."""

    def leave() -> None:
        raise KeyboardInterrupt

    said: list[ChatMessage] = []

    class Recording(MessageWindowChatMemory):
        def add(self, *messages: ChatMessage) -> None:
            said.extend(messages)
            super().add(*messages)

    arguments = {"plus": '{"a": 1, "b": 2}'}
    script = [
        calling(*((name, arguments.get(name, "{}")) for name in outcome)) if isinstance(outcome, list) else outcome
        for outcome in outcomes
    ]
    model = ScriptedModel(*script)
    remembered = Recording(max_messages=limit)
    assistant = Assistant(model, memory=remembered, tools=[plus, oops, leave], max_sequential_tools_invocations=2)
    questions = []
    for number in range(20):
        text = f"{number}"
        questions.append(UserMessage(text))
        try:
            way(assistant, "default", text)
        except (OSError, KeyboardInterrupt, TooManyToolInvocationsError, WindowTooSmallError, AssertionError):
            pass
        except IndexError:  # of the script: it is over
            break
    assert [message for message in said if isinstance(message, UserMessage)] == questions
    waiting: list[str | None] = []
    for message in said:
        if isinstance(message, ToolExecutionResultMessage):
            assert waiting.pop(0) == message.id
        elif isinstance(message, AiMessage):
            waiting = [request.id for request in message.tool_execution_requests]
        else:
            assert waiting == []
