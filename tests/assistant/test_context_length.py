"""A conversation that is longer than what the model takes is no dead end: the turn evicts, and asks once more."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from chatmemory import (
    AiMessage,
    ChatMessage,
    MessageWindowChatMemory,
    OpenAiTokenCountEstimator,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.assistant import Added, Assistant, ChatModel, ContextTooLongError
from chatmemory.assistant.calls import tokens_that_fit, too_long
from chatmemory.formats.anthropic import to_anthropic
from chatmemory.formats.gemini import to_gemini
from chatmemory.formats.openai import to_openai
from chatmemory.models import Conversation
from chatmemory.verification import verify
from tests.database.test_async import run
from tests.support.anthropic_server import AnthropicServer, anthropic_server, events, text
from tests.support.assistant_models import ScriptedModel, calling
from tests.support.factories import ConversationFactory
from tests.support.gemini_server import GeminiServer, gemini_server
from tests.support.openai_server import ModelServer, completion, model_server

__all__ = ["anthropic_server", "gemini_server", "model_server"]

OPENAI = (
    "This model's maximum context length is {most} tokens. However, your messages resulted in {used} tokens. Please "
    "reduce the length of the messages."
)
ANTHROPIC = "prompt is too long: {used} tokens > {most} maximum"
GEMINI = "The input token count ({used}) exceeds the maximum number of tokens allowed ({most})."
ESTIMATOR = OpenAiTokenCountEstimator("gpt-4o")
NO_FIGURES = "Your input exceeds the context window of this model. Please adjust your input and try again."


class RefusedError(Exception):
    """Stands for the exceptions of all packages: only the text counts."""


class SmallModel(ChatModel):
    """Answers requests of at most ``most`` tokens, which it counts in its own way, and refuses others."""

    def __init__(self, most: int, says: str = OPENAI, count: Callable[[Any], int] | None = None) -> None:
        self.most = most
        self.says = says
        self.count = count or (lambda messages: len(json.dumps(to_openai(messages))) // 4)
        self.asked: list[Sequence[ChatMessage]] = []

    def chat(self, messages: Sequence[ChatMessage], tools: Any) -> AiMessage:
        self.asked.append(messages)
        used = self.count(messages)
        if used > self.most:
            raise RefusedError(self.says.format(used=used, most=self.most))
        return AiMessage(f"Answer {len(self.asked)}")


def turn(number: int, words: int = 40) -> list[ChatMessage]:
    return [UserMessage(f"Question {number}: {'word ' * words}"), AiMessage(f"Reply {number}: {'word ' * words}")]


@pytest.mark.parametrize(
    ("said", "used", "most"),
    [
        (OPENAI.format(used=8213, most=8192), 8213, 8192),
        ("Your input exceeds the context window of this model. Please adjust your input and try again.", None, None),
        ("Error code: 400 - {'error': {'code': 'context_length_exceeded'}}", None, None),
        (
            "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4000 in the "
            "messages, 1000 in the completion). Please reduce the length of the messages or completion.",
            *(5000, 4096),
        ),
        (
            "'max_tokens' or 'max_completion_tokens' is too large: 500. This model's maximum context length is 4096 "
            "tokens and your request has 3900 input tokens (500 > 4096 - 3900).",
            *(3900, 4096),
        ),
        ("The decoder prompt (length 5000) is longer than the maximum model length of 4096.", 5000, 4096),
        (
            "You passed 5001 input tokens and requested 100 output tokens. However, the model's context length is only "
            "4096 tokens, resulting in a maximum input length of 3996 tokens.",
            *(5001, 4096),
        ),
        (
            "This endpoint's maximum context length is 32768 tokens. However, you requested about 40,100 tokens (39000 "
            "of text input, 1100 in the output).",
            *(40_100, 32_768),
        ),
        ("This model's maximum prompt length is 131072 but the request contains 160000 tokens.", 160_000, 131_072),
        ("prompt is too long: 208310 tokens > 200000 maximum", 208_310, 200_000),
        ("prompt is too long", None, None),
        (
            "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length or "
            "`max_tokens` and try again",
            *(209_573, 200_000),
        ),
        (GEMINI.format(used=1_048_577, most=1_048_576), 1_048_577, 1_048_576),
        ("The input token count exceeds the maximum number of tokens allowed 1048576.", None, 1_048_576),
        (
            "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
            *(40_000, 32_768),
        ),
        ("request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it", 5000, 4096),
        ("the input length exceeds the context length", None, None),
        ("prompt too long; exceeded max context length by 4 tokens", None, None),
        ("The input (85050 tokens) is longer than the model's context length (32768 tokens).", 85_050, 32_768),
        (
            "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens and 200 `max_new_tokens`",
            *(4200, 4096),
        ),
        ("Input is too long for requested model.", None, None),
    ],
)
def test_what_servers_say(said: str, used: int | None, most: int | None) -> None:
    found = too_long(RefusedError(said))
    assert found is not None
    assert (found.used, found.most) == (used, most)
    assert said[:40] in str(found)


@pytest.mark.parametrize(
    "said", ["Rate limit reached: Limit 6000, Requested 7000 tokens", "max_tokens must be at most 8192", "", "Timeout"]
)
def test_other_errors_stay_as_they_are(said: str) -> None:
    assert too_long(RefusedError(said)) is None


def test_a_limit_of_tokens_per_minute_is_none_of_length() -> None:
    error = RefusedError("Request too large. This model's maximum context length is 10 tokens")
    error.status_code = 429  # type: ignore[attr-defined]
    assert too_long(error) is None


def test_what_caused_the_error_counts() -> None:
    try:
        raise ValueError("the model failed") from RefusedError(ANTHROPIC.format(used=300, most=200))
    except ValueError as error:
        found = too_long(error)
    assert found is not None
    assert found.used == 300


@pytest.mark.parametrize(
    ("used", "most", "low_water", "expected"),
    [
        pytest.param(1000, 800, 100, 720, id="a tenth less than fits, because counts differ"),
        pytest.param(1000, 800, 70, 560, id="down to the low-water mark"),
        pytest.param(1500, 1300, 100, 720, id="tools and the answer count there, too"),
        pytest.param(800, 600, 100, 675, id="as many more as are counted here"),
        pytest.param(1000, 500, 100, 375, id="a quarter more, because the server may count the rest as more"),
        pytest.param(None, None, 100, 500, id="without figures half"),
        pytest.param(None, 800, 40, 400, id="or down to a mark that is lower"),
        pytest.param(700, 800, 100, 500, id="figures that say it fits"),
        pytest.param(9000, 10, 100, 0, id="nothing fits"),
    ],
)
def test_how_much_may_stay(used: int | None, most: int | None, low_water: int, expected: int) -> None:
    assert tokens_that_fit(1000, ContextTooLongError("", used=used, most=most), low_water) == expected


@pytest.mark.django_db(transaction=True)
class TestConversations:
    @pytest.fixture
    def conversation(self) -> Conversation:
        conversation: Conversation = ConversationFactory(owner=None, limit=100_000)
        conversation.memory.add(SystemMessage("Be brief."), *(message for n in range(10) for message in turn(n)))
        return conversation

    @pytest.fixture(autouse=True)
    def _books_are_right(self) -> Iterator[None]:
        yield
        assert list(verify()) == []

    @pytest.mark.parametrize("says", [OPENAI, ANTHROPIC, GEMINI, NO_FIGURES])
    def test_it_evicts_and_asks_again(self, conversation: Conversation, says: str) -> None:
        model = SmallModel(700, says)
        conversation.memory.pin(3)
        answer = Assistant(model).chat(conversation, "And now?")
        assert answer.text == "Answer 2"
        assert len(model.asked) == 2
        sent = model.asked[1]
        assert sent[0] == SystemMessage("Be brief.")
        assert sent[-1] == UserMessage("And now?")
        assert turn(1)[0] in sent, "what is pinned stays"
        gone = conversation.messages.evicted()
        assert {row.eviction_reason for row in gone} == {"too_long"}
        assert [row.position for row in gone][:2] == [1, 2]
        assert conversation.messages.history().count() == 23, "nothing is lost"

    def test_no_more_leaves_than_to_the_low_water_mark(self, conversation: Conversation) -> None:
        conversation.memory.set_window(low_water=60, whole_turns=True)
        model = SmallModel(1000)
        Assistant(model).chat(conversation, "And now?")
        used = model.count(model.asked[1])
        assert 1000 * 0.4 < used <= 1000 * 0.66
        assert isinstance(model.asked[1][1], UserMessage), "whole turns leave"

    def test_async_and_streams(self, conversation: Conversation) -> None:
        async def stream() -> list[Any]:
            return [item async for item in Assistant(SmallModel(700)).astream(conversation, "And now?")]

        said = run(stream())
        evictions = [item for item in said if isinstance(item, Added) and item.change and item.change.evicted]
        [evicted] = evictions
        assert evicted.messages == ()
        assert evicted.change is not None
        assert {row.eviction_reason for row in evicted.change.evicted} == {"too_long"}
        assert "Answer 2" in [item for item in said if isinstance(item, str)]

    def test_a_question_that_is_too_long_alone_is_an_error_and_the_next_is_answered(
        self, conversation: Conversation
    ) -> None:
        model = SmallModel(700)
        with pytest.raises(ContextTooLongError) as caught:
            Assistant(model).chat(conversation, "word " * 2000)
        assert caught.value.most == 700
        assert isinstance(caught.value.__cause__, RefusedError)
        assert len(model.asked) == 2
        assert Assistant(model).chat(conversation, "And now?").text is not None

    def test_if_nothing_can_leave_nothing_changes(self) -> None:
        conversation = ConversationFactory(owner=None, limit=100_000)
        with pytest.raises(ContextTooLongError):
            Assistant(SmallModel(5)).chat(conversation, "A question of some words")
        assert conversation.messages.evicted().count() == 0

    def test_a_turn_under_way_keeps_the_last_call(self, conversation: Conversation) -> None:
        def look(number: int) -> str:
            """Look something up."""
            return f"Page {number}: " + "word " * 150

        class Calling(SmallModel):
            def chat(self, messages: Sequence[ChatMessage], tools: Any) -> AiMessage:
                answer = super().chat(messages, tools)
                number = sum(isinstance(message, ToolExecutionResultMessage) for message in messages)
                looked = len([a for a in self.asked if isinstance(a[-1], ToolExecutionResultMessage)])
                return answer if looked > 8 else calling(("look", json.dumps({"number": number})))

        model = Calling(1200)
        Assistant(model, tools=[look]).chat(conversation, "And now?")
        for asked in model.asked:
            assert UserMessage("And now?") in asked
            if isinstance(asked[-1], ToolExecutionResultMessage):
                assert isinstance(asked[-2], AiMessage)
                assert asked[-2].tool_execution_requests[0].name == "look"

    def test_a_window_of_messages(self) -> None:
        conversation = ConversationFactory(owner=None, window="messages", limit=1000)
        conversation.memory.add(*(message for n in range(20) for message in turn(n)))
        assert Assistant(SmallModel(700)).chat(conversation, "And now?").text == "Answer 2"
        assert conversation.messages.retained().count() < 20

    def test_an_interrupted_turn_evicts_nothing(self, conversation: Conversation) -> None:
        assistant = Assistant(SmallModel(700))

        class Interrupted(SmallModel):
            def chat(self, messages: Sequence[ChatMessage], tools: Any) -> AiMessage:
                assistant.interrupt(conversation)
                return super().chat(messages, tools)

        with pytest.raises(Exception, match="interrupted"):
            Assistant(Interrupted(700)).chat(conversation, "And now?")
        assert conversation.messages.evicted().count() == 0

    def test_a_past_memory_and_a_replay_know_of_it(self, conversation: Conversation) -> None:
        model = SmallModel(700)
        Assistant(model).chat(conversation, "And now?")
        answer = conversation.messages.history().last()
        assert answer is not None
        assert conversation.memory.at(answer.added_in - 1) == list(model.asked[1])
        assert conversation.memory.replay().evictions == conversation.messages.evicted().count()
        assert conversation.memory.replay(limit=100_000).evictions == 0, "another window would not have evicted them"


def test_memories_without_a_database() -> None:
    memory = MessageWindowChatMemory(max_messages=100)
    memory.add(*(message for n in range(10) for message in turn(n)))
    model = SmallModel(700)
    assert Assistant(model, memory=memory).chat("default", "And now?").text == "Answer 2"
    assert memory.messages()[-2:] == [UserMessage("And now?"), AiMessage("Answer 2")]
    assert len(memory.messages()) < 20


def test_a_stream_that_has_begun_is_not_asked_again() -> None:
    class Late(ScriptedModel):
        def stream(self, messages: Any, tools: Any) -> Iterator[Any]:
            self.asked.append(list(messages))
            yield "Well, "
            raise RefusedError(OPENAI.format(used=8213, most=8192))

    model = Late()
    memory = MessageWindowChatMemory(max_messages=100)
    memory.add(*turn(1))
    with pytest.raises(ContextTooLongError):
        list(Assistant(model, memory=memory).stream("default", "And now?"))
    assert len(model.asked) == 1
    assert len(memory.messages()) == 3


def random_messages(rng: random.Random, number: int) -> list[ChatMessage]:
    words = "word " * rng.randint(1, 80)
    if rng.random() < 0.6:
        return [UserMessage(f"{number} {words}"), AiMessage(f"Reply {words}")]
    calls = [ToolExecutionRequest(f"{number}-{n}", "look", '{"at": 1}') for n in range(rng.randint(1, 3))]
    results = [ToolExecutionResultMessage(call.id, "look", f"Found {words}") for call in calls]
    return [UserMessage(f"{number} {words}"), AiMessage(None, calls), *results, AiMessage("Done.")]


CONVERSATIONS = int(os.environ.get("CHATMEMORY_TEST_CONVERSATIONS", "12"))


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("says", "write"),
    [
        pytest.param(OPENAI, to_openai, id="openai"),
        pytest.param(ANTHROPIC, to_anthropic, id="anthropic"),
        pytest.param(GEMINI, to_gemini, id="gemini"),
    ],
)
def test_any_conversation_answers_within_one_repeat(says: str, write: Callable[[Any], Any]) -> None:
    """Servers count with other vocabularies, and what there is beside the messages."""
    rng = random.Random(7)
    for number in range(CONVERSATIONS):
        factor, beside = rng.uniform(0.8, 1.6), rng.choice([0, 0, 900])

        def count(messages: Any, factor: float = factor, beside: int = beside) -> int:
            write(messages)
            return beside + int(factor * ESTIMATOR.estimate_token_count_in_messages(messages))

        rules = {
            "low_water": rng.choice([100, 70, 40]),
            "whole_turns": rng.random() < 0.5,
            "keep_tool_results": rng.choice([None, 0, 2]),
        }
        kind = rng.choice([{"window": "messages", "limit": 500}, {"window": "tokens", "limit": 50_000}])
        conversation = ConversationFactory(owner=None, **kind, **rules)
        said = [message for n in range(rng.randint(5, 40)) for message in random_messages(rng, n)]
        conversation.memory.add(*[SystemMessage("Be brief.")] * rng.randint(0, 1), *said)
        pinned = rng.choice(list(conversation.messages.retained()))
        if rng.random() < 0.5:
            conversation.memory.pin(pinned.position)
        model = SmallModel(int(count(conversation.memory.messages()) * rng.uniform(0.45, 0.95)) + 200, says, count)
        assistant = Assistant(model)
        for question in ("And now?", "And then?", "word " * 60):
            before = len(model.asked)
            assistant.chat(conversation, question)
            assert len(model.asked) - before <= 2, number
            assert UserMessage(question) in model.asked[-1]
            stays = conversation.messages.pinned()
            assert all(row.message in model.asked[-1] for row in stays)
    assert list(verify()) == []


class TestProviders:
    """The packages' own exceptions, from servers of the three protocols."""

    def memory(self) -> MessageWindowChatMemory:
        memory = MessageWindowChatMemory(max_messages=100)
        memory.add(*(message for n in range(10) for message in turn(n)))
        return memory

    @pytest.mark.usefixtures("sdks")
    @pytest.mark.parametrize("streaming", [False, True])
    def test_openai(self, model_server: ModelServer, streaming: bool) -> None:
        from chatmemory.assistant.openai import OpenAiChatModel

        error = {"message": OPENAI.format(used=1300, most=1000), "code": "context_length_exceeded"}
        model_server.say(400, "application/json", json.dumps({"error": error}))
        memory = self.memory()
        assistant = Assistant(OpenAiChatModel("tiny"), memory=memory)
        if streaming:
            from tests.support.openai_server import says

            model_server.stream(says("Yes."))
            list(assistant.stream("default", "And now?"))
        else:
            model_server.say(200, "application/json", completion(content="Yes."))
            assistant.chat("default", "And now?")
        assert memory.messages()[-1] == AiMessage("Yes.")
        assert len(model_server.requests[1]["messages"]) < len(model_server.requests[0]["messages"])

    @pytest.mark.usefixtures("sdks")
    def test_anthropic(self, anthropic_server: AnthropicServer) -> None:
        from chatmemory.assistant.anthropic import AnthropicChatModel

        error = {"type": "invalid_request_error", "message": ANTHROPIC.format(used=1300, most=1000)}
        anthropic_server.say(400, "application/json", json.dumps({"type": "error", "error": error}))
        anthropic_server.stream(events(text("Yes.")))
        memory = self.memory()
        list(Assistant(AnthropicChatModel("claude-tiny"), memory=memory).stream("default", "And now?"))
        assert memory.messages()[-1].text == "Yes."

    @pytest.mark.usefixtures("sdks")
    def test_gemini(self, gemini_server: GeminiServer) -> None:
        from chatmemory.assistant.gemini import GeminiChatModel
        from tests.support.gemini_server import response

        error = {"code": 400, "message": GEMINI.format(used=1300, most=1000), "status": "INVALID_ARGUMENT"}
        gemini_server.say(400, "application/json", json.dumps({"error": error}))
        gemini_server.say(200, "application/json", json.dumps(response({"text": "Yes."})))
        memory = self.memory()
        Assistant(GeminiChatModel("gemini-tiny"), memory=memory).chat("default", "And now?")
        assert memory.messages()[-1].text == "Yes."
