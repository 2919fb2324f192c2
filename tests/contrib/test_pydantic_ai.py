"""Pydantic AI's message histories as conversations."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic_ai import Agent
from pydantic_ai import messages as theirs
from pydantic_ai.messages import (
    BinaryContent,
    DocumentUrl,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

from chatmemory import (
    AiMessage,
    AudioContent,
    CustomMessage,
    ImageContent,
    PdfFileContent,
    SystemMessage,
    TextContent,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
    VideoContent,
)
from chatmemory.contrib.pydantic_ai import DjangoMessageHistory
from chatmemory.formats.openai import to_openai
from chatmemory.models import Conversation
from tests.database.test_async import run
from tests.support import budget
from tests.support.factories import UserFactory
from tests.support.pydantic_ai_messages import EVERY_MESSAGE, NOON, PNG, asked, returned

pytestmark = pytest.mark.django_db


def history(memory_id: str = "h", **more: Any) -> DjangoMessageHistory:
    return DjangoMessageHistory(memory_id, **({"window": "messages", "limit": 1000} | more))


def stored(memory_id: str = "h") -> list[Any]:
    return Conversation.objects.get(memory_id=memory_id).memory.messages()


def calls(*ids: str) -> ModelResponse:
    return ModelResponse([ToolCallPart("weather", "{}", id) for id in ids], timestamp=NOON)


def returns(*ids: str) -> ModelRequest:
    return ModelRequest([returned(id) for id in ids], timestamp=NOON)


def said(text: str) -> ModelResponse:
    return ModelResponse([TextPart(text)], timestamp=NOON)


def prompt(text: str, **more: Any) -> SystemPromptPart:
    return SystemPromptPart(text, timestamp=NOON, **more)


class TestRoundTrip:
    def test_every_message_comes_back_equal(self) -> None:
        history().add(EVERY_MESSAGE)
        assert history().messages() == EVERY_MESSAGE
        assert list(map(repr, history().messages())) == list(map(repr, theirs_again(EVERY_MESSAGE)))

    @pytest.mark.parametrize("index", range(len(EVERY_MESSAGE)))
    def test_each_message_comes_back_equal(self, index: int) -> None:
        history().add([EVERY_MESSAGE[index]])
        assert history().messages() == [EVERY_MESSAGE[index]]

    def test_every_kind_of_part_is_among_them(self) -> None:
        kinds = {type(part) for message in EVERY_MESSAGE for part in message.parts}
        known = {get_args(member)[0] for member in _members(theirs.ModelRequestPart)}
        known |= {get_args(member)[0] for member in _members(theirs.ModelResponsePart)}
        assert known - kinds == {theirs.RetryPromptPart}  # which is read as one of the others

    @pytest.mark.filterwarnings("ignore::pydantic_ai.PydanticAIDeprecationWarning")
    def test_what_is_deprecated_comes_back_as_what_took_its_place(self) -> None:
        part = theirs.RetryPromptPart("Again.", tool_name="weather", tool_call_id="1", timestamp=NOON)
        given = [calls("1"), ModelRequest([part])]
        history().add(given)
        assert history().messages() == theirs_again(given)
        assert stored()[1] == ToolExecutionResultMessage("1", "weather", "Again.", is_error=True)

    def test_requests_that_are_added_one_after_the_other_stay_apart(self) -> None:
        two = ModelRequest([*asked("2").parts, *asked("3").parts], timestamp=NOON)
        for request in (asked("1"), two, two, asked("1")):
            history().add([request])
        assert history().messages() == [asked("1"), two, two, asked("1")]

    @pytest.mark.slow
    @settings(max_examples=budget.examples(40), suppress_health_check=list(HealthCheck))
    @given(batches=st.lists(st.lists(st.integers(0, 99), max_size=4), max_size=5))
    def test_whatever_the_batches(self, batches: list[list[int]]) -> None:
        memory_id = f"{next(_NUMBERS)}"
        # One system prompt at a time is a rule of memories.
        pool = [message for message in EVERY_MESSAGE[1:] if message.parts]
        given = [[pool[number % len(pool)] for number in batch] for batch in batches]
        for batch in given:
            history(memory_id).add(batch)
        assert history(memory_id).messages() == [message for batch in given for message in batch]


_NUMBERS = iter(range(10**9))


def theirs_again(messages: list[ModelMessage]) -> list[ModelMessage]:
    """As the package itself writes and reads them."""
    return theirs.ModelMessagesTypeAdapter.validate_json(theirs.ModelMessagesTypeAdapter.dump_json(messages))


def _members(union: Any) -> Iterator[Any]:
    yield from get_args(get_args(union)[0])


class TestRows:
    def test_the_parts_of_a_request_are_messages(self) -> None:
        history().add(EVERY_MESSAGE[:3])
        system, hi, _look, answer, *results, windy = stored()
        assert system == SystemMessage("Be brief.\n\nBe kind.")
        assert hi == UserMessage("Hi")
        assert answer.text == "Let me see."
        assert answer.thinking == "Hm."
        assert answer.tool_execution_requests[:3] == (
            ToolExecutionRequest("call_1", "weather", '{"city":"Paris","days":[1,2]}'),
            ToolExecutionRequest("call_2", "weather", '{"city":'),
            ToolExecutionRequest("call_3", "weather", None),
        )
        assert [result.id for result in results] == [f"call_{number}" for number in range(1, 6)]
        assert [result.is_error for result in results] == [None, True, True, None, None]
        assert results[0].text == '{"degrees":20,"of":["C"]}'
        assert results[2].contents[1:] == (
            ImageContent(base64_data="iVBORw==", mime_type="image/png"),
            ImageContent("https://x.test/a.png"),
        )
        assert windy.contents == (TextContent("Also: is it windy?"),)

    def test_contents(self) -> None:
        history().add(EVERY_MESSAGE[:1])
        contents = stored()[2].contents
        assert contents == (
            TextContent("Look"),
            TextContent("here"),
            ImageContent("https://x.test/a.png"),
            AudioContent("https://x.test/a.mp3"),
            VideoContent("https://x.test/a.mp4"),
            PdfFileContent("https://x.test/a.pdf"),
            TextContent("[document-url https://x.test/a.csv]"),
            ImageContent(base64_data="iVBORw==", mime_type="image/png"),
            PdfFileContent(base64_data="JVBERg==", mime_type="application/pdf"),
            AudioContent(base64_data="UklGRg==", mime_type="audio/wav"),
            VideoContent(base64_data="ZmlsbQ==", mime_type="video/mp4"),
            TextContent("[binary text/csv]"),
            TextContent("[uploaded-file file-1]"),
        )

    def test_parts_that_say_nothing_are_named_where_they_are_kept(self) -> None:
        history().add(EVERY_MESSAGE)
        named = [message.attributes.get("pydantic_ai") for message in stored() if hasattr(message, "attributes")]
        assert [kinds for kinds in named if kinds] == [
            ["system-prompt"],  # of one request only
            ["tool-availability-delta", "capability-load-delta"],
            [
                "builtin-tool-call",
                "builtin-tool-return",
                "builtin-tool-call",
                "builtin-tool-return",
                "file",
                "compaction",
                "speech",
            ],
            ["instruction-delta"],
        ]
        assert [message for message in stored() if isinstance(message, CustomMessage)] == [
            CustomMessage({"pydantic_ai": ["instruction-delta"]}),
            CustomMessage({"pydantic_ai": []}),
        ]

    def test_what_was_said_to_the_model_is_the_users(self) -> None:
        history().add(EVERY_MESSAGE[4:8])
        retry, nothing, hello, silence, summary = stored()
        assert "Again, please." in retry.single_text()
        assert nothing == AiMessage()
        assert hello == UserMessage("Hello?")
        assert silence == UserMessage("")
        assert summary == UserMessage("What was said: nothing.")

    def test_a_new_system_prompt_takes_the_place_of_the_old_one(self) -> None:
        history().add([ModelRequest([prompt("old"), *asked("1").parts], timestamp=NOON), said("a")])
        history().add([ModelRequest([prompt("old"), *asked("2").parts], timestamp=NOON), said("b")])
        assert len(history().messages()) == 4
        history().add([ModelRequest([prompt("new"), *asked("3").parts], timestamp=NOON)])
        # Each of the first two has lost its own, or never got it.
        expected = [asked("1"), said("a"), asked("2"), said("b"), ModelRequest([prompt("new"), *asked("3").parts])]
        expected[-1].timestamp = NOON
        assert history().messages() == expected

    def test_a_prompt_for_one_request_or_for_a_part_leaves_the_system_prompt_alone(self) -> None:
        first = ModelRequest([prompt("standing"), *asked("1").parts], timestamp=NOON)
        second = ModelRequest([*asked("2").parts, prompt("5 left", scope="request")], timestamp=NOON)
        third = ModelRequest([prompt("now so", context_id="system_prompt:x"), prompt("  ")], timestamp=NOON)
        history().add([first, second, third])
        assert history().messages() == [first, second, third]
        assert stored()[0] == SystemMessage("standing")

    def test_is_of_an_owner(self) -> None:
        user = UserFactory()
        history(owner=user, title="Mine", limit=7).add([asked("Hi")])
        assert history(owner=user).messages() == [asked("Hi")]
        assert history().messages() == []
        made = Conversation.objects.get()
        assert (made.owner, made.title, made.window, made.limit) == (user, "Mine", "messages", 7)

    def test_clear(self) -> None:
        history().clear()
        history().add(EVERY_MESSAGE)
        history().clear()
        assert history().messages() == []
        assert Conversation.objects.get().messages.history().count() == 20


class TestWindow:
    def test_leaves_the_rest_of_a_request(self) -> None:
        request = ModelRequest([prompt("s"), *asked("1").parts, *asked("2").parts], instructions="i", run_id="r")
        history(limit=3).add([request, said("a")])
        rest = ModelRequest([prompt("s"), *asked("2").parts], instructions="i", run_id="r")
        assert history().messages() == [rest, said("a")]

    def test_takes_returns_with_their_calls(self) -> None:
        both = ModelRequest([*returns("1", "2").parts, *asked("And?").parts], timestamp=NOON)
        history(limit=4).add([asked("Hi"), calls("1", "2"), both, said("a")])
        assert history().messages() == [asked("And?"), said("a")]

    def test_a_late_return_is_left_out_once_its_call_is_gone(self) -> None:
        history(limit=5).add([calls("1", "2"), returns("1"), asked("Wait"), returns("2"), said("a")])
        assert len(history().messages()) == 5
        history().add([asked("Next")])
        assert history().messages() == [asked("Wait"), said("a"), asked("Next")]

    def test_a_return_without_a_call_stays_while_nothing_was_evicted(self) -> None:
        history().add([returns("1"), asked("Hi")])
        assert history().messages() == [returns("1"), asked("Hi")]


class TestOthers:
    def test_what_others_added_becomes_requests_and_responses(self) -> None:
        memory = Conversation.objects.create(memory_id="h", limit=10_000).memory
        memory.add(
            SystemMessage("Be brief."),
            UserMessage(
                [
                    TextContent("Look"),
                    ImageContent("https://x.test/a", None, "image/webp"),
                    ImageContent("data:image/png;base64,iVBORw=="),
                    AudioContent(base64_data="UklGRg==", mime_type="audio/wav"),
                    PdfFileContent("https://x.test/a.pdf"),
                    VideoContent(),
                    ImageContent(base64_data="?", mime_type="image/png"),
                ]
            ),
            AiMessage("Two", [ToolExecutionRequest(None, "a"), ToolExecutionRequest("x", "b", "{}")], thinking="Hm."),
            ToolExecutionResultMessage(None, None, "1"),
            ToolExecutionResultMessage("x", "b", contents=[ImageContent("https://x.test/a.png")], is_error=True),
            CustomMessage({"k": "é"}),
        )
        at = Conversation.objects.get().messages.history()[0].created_at
        expected: list[ModelMessage] = [
            ModelRequest([SystemPromptPart("Be brief.", timestamp=at)], timestamp=at),
            ModelRequest(
                [
                    UserPromptPart(
                        [
                            "Look",
                            ImageUrl("https://x.test/a", media_type="image/webp"),
                            PNG,
                            BinaryContent(b"RIFF", media_type="audio/wav"),
                            DocumentUrl("https://x.test/a.pdf"),
                            "[video]",
                            "[image]",
                        ],
                        timestamp=at,
                    )
                ],
                timestamp=at,
            ),
            ModelResponse(
                [
                    ThinkingPart("Hm."),
                    TextPart("Two"),
                    ToolCallPart("a", None, "call_2_0"),
                    ToolCallPart("b", "{}", "x"),
                ],
                timestamp=at,
            ),
            ModelRequest([ToolReturnPart("a", "1", "call_2_0", timestamp=at)], timestamp=at),
            ModelRequest(
                [ToolReturnPart("b", [ImageUrl("https://x.test/a.png")], "x", timestamp=at, outcome="failed")],
                timestamp=at,
            ),
            ModelRequest([UserPromptPart('[custom message: {"k": "é"}]', timestamp=at)], timestamp=at),
        ]
        assert history().messages() == expected
        history().add([asked("Hi")])
        assert history().messages() == [*expected, asked("Hi")]

    def test_others_read_what_was_added(self) -> None:
        history().add([asked("Hi"), calls("1"), returns("1"), said("Sunny.")])
        assert [message["role"] for message in to_openai(stored())] == ["user", "assistant", "tool", "assistant"]


def check_given(messages: list[ModelMessage]) -> None:
    """A provider takes it: every return follows its call, and no call but the last ones waits."""
    waiting: set[str] = set()
    for message in messages:
        if isinstance(message, ModelResponse):
            assert not waiting
            waiting = {call.tool_call_id for call in message.tool_calls}
            continue
        for part in message.parts:
            if isinstance(part, ToolReturnPart):
                waiting.remove(part.tool_call_id)
    assert not waiting


def talkative(seen: list[list[ModelMessage]]) -> FunctionModel:
    """Thinks and calls two tools at once, then one more, then answers."""
    numbers = itertools.count()

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        check_given(messages)
        seen.append(list(messages))
        number = next(numbers)
        thought = ThinkingPart("Hm.", signature=f"s{number}", provider_name="function")
        if number % 3 == 0:
            return ModelResponse(
                [thought, ToolCallPart("now", {}, f"a{number}"), ToolCallPart("now", "{}", f"b{number}")]
            )
        if number % 3 == 1:
            return ModelResponse([ToolCallPart("now", None, f"c{number}"), TextPart("One more.")])
        return ModelResponse([thought, TextPart("It is noon.")])

    return FunctionModel(answer)


def agent(model: Any) -> Agent[None, str]:
    made = Agent(model, system_prompt="Be brief.", instructions="Answer in French.")

    @made.tool_plain
    def now() -> dict[str, int]:
        """The time."""
        return {"hour": 12}

    return made


class TestRuns:
    def test_a_model_gets_all_that_was_said(self) -> None:
        seen: list[list[ModelMessage]] = []
        clerk = agent(talkative(seen))
        kept: list[ModelMessage] = []
        for turn in range(4):
            result = asyncio.run(clerk.run(f"Time? {turn}", message_history=history().messages()))
            assert result.output == "It is noon."
            history().add(result.new_messages())
            kept = result.all_messages()
        assert history().messages() == theirs_again(kept)
        assert len(seen[-1]) == len(kept) - 1

    def test_async(self, transactional_db: None) -> None:
        async def chat() -> list[ModelMessage]:
            for turn in range(2):
                given = await history().amessages()
                result = await agent(TestModel()).run(f"Time? {turn}", message_history=given)
                await history().aadd(result.new_messages())
            whole = await history().amessages()
            assert whole == theirs_again(result.all_messages())
            await history().aclear()
            return await history().amessages()

        assert run(chat()) == []
        assert Conversation.objects.get().messages.history().count() == 7

    @pytest.mark.slow
    def test_a_window_leaves_what_is_valid(self) -> None:
        bounds = [{"limit": limit} for limit in (1, 2, 3, 4, 5, 7, 10)]
        bounds += [{"limit": limit, "window": "tokens"} for limit in (20, 60, 100)]
        for number, bound in enumerate(bounds):
            clerk = agent(talkative([]))
            for turn in range(4):
                given = history(f"{number}", **bound).messages()
                check_given(given)
                result = asyncio.run(clerk.run(f"Time? {turn}", message_history=given))
                history(f"{number}", **bound).add(result.new_messages())
            kept = history(f"{number}").messages()
            check_given(kept)
