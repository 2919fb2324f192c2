"""What Anthropic's prompt cache can read of the requests of a conversation, by the rules that it publishes."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from typing import Any

import pytest
from anthropic import AsyncAnthropic

from chatmemory import (
    AiMessage,
    OpenAiTokenCountEstimator,
    SystemMessage,
    TextContent,
    TokenWindowChatMemory,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.assistant import Assistant
from chatmemory.assistant.anthropic import AnthropicChatModel
from chatmemory.core.summaries import summary_message
from chatmemory.core.window import without_preset
from chatmemory.formats.anthropic import from_anthropic, to_anthropic
from chatmemory.models import Conversation
from chatmemory.stores import DjangoChatMemoryStore
from tests.support.anthropic_server import AnthropicServer, anthropic_server, call, events, message, text, thinking
from tests.support.factories import ConversationFactory

__all__ = ["anthropic_server"]

LOOKS_AT = 20


def blocks_of(request: dict[str, Any]) -> list[tuple[str, int, Any]]:
    """Return the blocks of a request in the order of their prefixes: what they say, their tokens, and their mark."""
    blocks = [("tool", tool) for tool in request.get("tools", [])]
    system = request.get("system", [])
    blocks += [("system", block) for block in as_blocks(system)]
    for turn in request["messages"]:
        blocks += [(turn["role"], block) for block in as_blocks(turn["content"])]
    found = []
    for role, block in blocks:
        said = json.dumps([role, {key: value for key, value in block.items() if key != "cache_control"}])
        found.append((said, len(said) // 4, block.get("cache_control")))
    return found


def as_blocks(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


class PromptCache:
    """Anthropic's: it keeps prefixes that end at a mark, and looks for them at the 20 blocks that end with a mark."""

    def __init__(self) -> None:
        self.kept: set[str] = set()
        self.before: list[str] = []
        self.read = self.possible = self.tokens = 0

    def take(self, request: dict[str, Any]) -> None:
        blocks = blocks_of(request)
        said = [each[0] for each in blocks]
        marks = [index for index, (_, _, mark) in enumerate(blocks) if mark is not None]
        assert len(marks) <= 4
        times = [mark.get("ttl", "5m") for _, _, mark in blocks if mark is not None]
        assert times == sorted(times)  # "1h" before "5m"
        looked_at = sorted(
            {end for mark in marks for end in range(max(0, mark - LOOKS_AT + 1), mark + 1)}, reverse=True
        )
        hit = next((end for end in looked_at if "".join(said[: end + 1]) in self.kept), -1)
        self.read += sum(tokens for _, tokens, _ in blocks[: hit + 1])
        self.kept |= {"".join(said[: mark + 1]) for mark in marks}
        same = 0
        while same < min(len(said), len(self.before)) and said[same] == self.before[same]:
            same += 1
        self.possible += sum(tokens for _, tokens, _ in blocks[:same])
        self.tokens += sum(tokens for _, tokens, _ in blocks)
        self.before = said


def summarize(messages: Any, summary: Any) -> str:
    return f"They talked about {len(messages)} things. " * 10


def remember(conversation: Conversation, document: str) -> None:
    """Add a pinned document."""
    [row, _] = conversation.memory.add(UserMessage(document), AiMessage("Noted.")).added
    conversation.memory.pin(row.position)


def look(number: int) -> str:
    """Look something up."""
    return f"Page {number}: " + "a long text " * 30


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("has_system", [True, False])
@pytest.mark.parametrize(
    "window", [{"limit": 2500, "low_water": 70, "whole_turns": True}, {"limit": 100_000}, {"limit": 1500}]
)
def test_nearly_all_that_a_cache_can_have_is_read(
    anthropic_server: AnthropicServer, window: dict[str, Any], has_system: bool
) -> None:
    rng = random.Random(3)
    conversation = ConversationFactory(owner=None, **window)
    if has_system:
        conversation.memory.add(SystemMessage("Be brief. " * 30))
    assistant = Assistant(AnthropicChatModel("claude-tiny", cache=True), tools=[look])
    for number in range(14):
        is_long = number == 7 and window["limit"] > 10_000
        rounds = 1 if is_long else rng.choice([0, 0, 1, 2])
        for step in range(rounds):
            many = 24 if is_long else rng.randint(1, 3)  # more than Anthropic looks back
            calls = [call(f"c{number}-{step}-{n}", "look", {"number": n}) for n in range(many)]
            anthropic_server.say(200, "application/json", message(*calls, stop="tool_use"))
        anthropic_server.say(200, "application/json", message(text(f"Answer {number}. " + "word " * 40)))
        assistant.chat(conversation, f"Question {number}: " + "word " * rng.randint(5, 60))
    cache = PromptCache()
    for request in anthropic_server.requests:
        cache.take(request)
    assert cache.read >= 0.97 * cache.possible > 0
    assert cache.read / cache.tokens >= 0.97 * conversation.memory.replay().hit_share


def test_the_summary_is_read_when_what_follows_has_left() -> None:
    cache = PromptCache()
    head = [SystemMessage("Be brief. " * 20), summary_message("They talked about the moon. " * 20)]
    said = [each for number in range(30) for each in (UserMessage(f"Q{number}"), AiMessage(f"A{number}"))]
    cache.take(to_anthropic([*head, *said, UserMessage("Now?")], cache=True))
    cache.read = cache.possible = 0
    cache.take(
        to_anthropic([*head, *said[40:], UserMessage("Now?"), AiMessage("Yes."), UserMessage("Then?")], cache=True)
    )
    assert cache.read == cache.possible > 200


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("compact_at", [None, 80])
@pytest.mark.parametrize("way", ["chat", "stream", "achat", "astream"])
def test_an_assistant_reads_pinned_documents_from_the_cache(
    anthropic_server: AnthropicServer, way: str, compact_at: int | None
) -> None:
    settings: dict[str, Any] = without_preset({"preset": "chat", "limit": 6000, "compact_at": compact_at})
    conversation = ConversationFactory(owner=None, **settings)
    conversation.memory.add(SystemMessage("Be brief. " * 30))
    for number in range(2):
        remember(conversation, f"Document {number}: " + "word " * 1200)
    questions = [f"Question {number}: " + "word " * 80 for number in range(40)]
    for number in range(len(questions)):
        said = text(f"Answer {number}. " + "word " * 120)
        if way.endswith("stream"):
            anthropic_server.stream(events(said))
        else:
            anthropic_server.say(200, "application/json", message(said))

    def talk() -> None:
        assistant = Assistant(AnthropicChatModel("claude-tiny", cache=True))
        for question in questions:
            _ = (
                list(assistant.stream(conversation, question))
                if way == "stream"
                else assistant.chat(conversation, question)
            )
            conversation.memory.compact(summarize, if_due=True)

    async def atalk() -> None:
        async with AsyncAnthropic() as client:
            assistant = Assistant(AnthropicChatModel("claude-tiny", async_client=client, cache=True))
            for question in questions:
                if way == "achat":
                    await assistant.achat(conversation, question)
                else:
                    _ = [delta async for delta in assistant.astream(conversation, question)]
                await conversation.memory.acompact(summarize, if_due=True)

    if way.startswith("a"):
        asyncio.run(atalk())
    else:
        talk()
    cache = PromptCache()
    for request in anthropic_server.requests:
        cache.take(request)
    replay = conversation.memory.replay()
    assert replay.prefix_breaks > 2
    assert cache.read >= 0.97 * cache.possible
    assert cache.read / cache.tokens >= 0.97 * replay.hit_share


@pytest.mark.slow
@pytest.mark.django_db
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("preset", ["chat", "agent", "long"])
def test_a_memory_reads_what_it_can_whatever_is_done_to_it(preset: str, seed: int) -> None:
    rng = random.Random(seed)
    settings: dict[str, Any] = without_preset({"preset": preset, "limit": 6000})
    conversation = ConversationFactory(**settings)
    memory = conversation.memory
    numbers = itertools.count()
    cache = PromptCache()

    def words(most: int) -> str:
        return f"{next(numbers)} " + "word " * rng.randint(1, most)

    def ask() -> None:
        cache.take(memory.to_format("anthropic", cache="1h"))

    if rng.random() < 0.7:
        memory.add(SystemMessage("Be brief. " * 50))
    for _ in range(60):
        pins = [row.position for row in conversation.messages.pinned()]
        if len(pins) < 2 and rng.random() < 0.1:
            remember(conversation, f"{next(numbers)} " + "word " * 900)
        elif len(pins) < 3 and rng.random() < 0.1:
            said = conversation.messages.retained().filter(origin="said", token_count__lt=250).exclude(type="SYSTEM")
            if said:
                memory.pin(rng.choice(said).position)
        elif pins and rng.random() < 0.02:
            memory.unpin(rng.choice(pins))
        if rng.random() < 0.03:
            memory.clear_tool_results(keep=rng.randint(0, 3))
        memory.add(UserMessage(words(150)))
        for _ in range(rng.choice([0, 0, 1, 2])):
            ask()
            many = rng.choice([1, 1, 2, 3, 24])
            calls = [ToolExecutionRequest(f"c{next(numbers)}", "look", "{}") for _ in range(many)]
            results = [ToolExecutionResultMessage(each.id, "look", words(200 // many)) for each in calls]
            memory.add(AiMessage(rng.choice([None, words(20)]), calls), *results)
        ask()
        memory.add(AiMessage(words(150)))
        memory.compact(summarize, if_due=True)
    replay = memory.replay()
    assert replay.prefix_breaks > 2
    assert cache.read >= 0.97 * cache.possible
    assert cache.read / cache.tokens >= 0.97 * replay.hit_share


def marked_texts(request: dict[str, Any]) -> list[str]:
    """Return the beginnings of the texts of a request that have a mark."""
    blocks = as_blocks(request.get("system", []))
    blocks += [block for turn in request["messages"] for block in as_blocks(turn["content"])]
    return [block["text"][:5] for block in blocks if "cache_control" in block]


@pytest.mark.django_db
class TestPins:
    @pytest.fixture
    def conversation(self) -> Conversation:
        """A conversation with a pinned document before the summary, and one behind it."""
        conversation: Conversation = ConversationFactory(compact_keep=0, low_water=70, whole_turns=True)
        memory = conversation.memory
        memory.add(SystemMessage("Rules. " * 5))
        remember(conversation, "Doc 1. " * 50)
        memory.add(UserMessage("Hi. " * 300), AiMessage("Hello. " * 300))
        remember(conversation, "Doc 2. " * 50)
        memory.compact(lambda messages, summary: "Moon. " * 5)
        return conversation

    def test_marks_are_before_and_behind_the_summary(self, conversation: Conversation) -> None:
        conversation.memory.add(UserMessage("Who?"), AiMessage("Me"), UserMessage("Why?"))
        assert marked_texts(conversation.memory.to_format("anthropic", cache=True)) == [
            "Rules",
            "Doc 1",
            "Doc 2",
            "Why?",
        ]

    def test_a_request_that_ended_far_before_the_end_has_a_mark_instead_of_the_first_document(
        self, conversation: Conversation
    ) -> None:
        parts = [TextContent(f"Part {number}") for number in range(20)]
        conversation.memory.add(UserMessage("Why?"), AiMessage("Well"), UserMessage(parts))
        assert marked_texts(conversation.memory.to_format("anthropic", cache=True)) == [
            "Rules",
            "Doc 2",
            "Why?",
            "Part ",
        ]

    def test_to_anthropic_has_the_same_marks_for_the_messages_of_a_memory(self, conversation: Conversation) -> None:
        conversation.memory.add(UserMessage("Why?"))
        assert to_anthropic(conversation.memory.messages(), cache=True) == conversation.memory.to_format(
            "anthropic", cache=True
        )
        of_store = TokenWindowChatMemory(
            id=conversation.memory_id,
            max_tokens=100_000,
            token_count_estimator=OpenAiTokenCountEstimator("gpt-4o"),
            store=DjangoChatMemoryStore(owner=conversation.owner),
        )
        assert marked_texts(to_anthropic(of_store.messages(), cache=True)) == ["Rules", "Doc 1", "Doc 2", "Why?"]

    def test_what_is_kept_longer_comes_first_if_everything_is_pinned(self) -> None:
        memory = ConversationFactory().memory
        for row in memory.add(UserMessage("Doc 1"), AiMessage("Noted."), UserMessage("Doc 2")).added:
            memory.pin(row.position)
        marks = [mark for _, _, mark in blocks_of(memory.to_format("anthropic", cache="1h")) if mark]
        assert marks == [{"type": "ephemeral", "ttl": "1h"}, {"type": "ephemeral", "ttl": "1h"}]

    def test_messages_behind_one_that_may_leave_have_no_mark_of_their_own(self) -> None:
        conversation = ConversationFactory()
        conversation.memory.add(UserMessage("Hi"), AiMessage("Hello"))
        remember(conversation, "Doc 1")
        conversation.memory.add(UserMessage("Why?"), AiMessage("Well"), UserMessage("How?"))
        assert marked_texts(conversation.memory.to_format("anthropic", cache=True)) == ["Why?", "How?"]


class TestMarks:
    CHAT = (SystemMessage("Be brief."), UserMessage("Hi"), AiMessage("Hello."), UserMessage("Who are you?"))

    def test_without_cache_nothing_is_marked(self) -> None:
        assert "cache_control" not in json.dumps(to_anthropic(self.CHAT))

    def test_what_is_kept_longer_comes_first(self) -> None:
        marks = [mark for _, _, mark in blocks_of(to_anthropic(self.CHAT, cache="1h")) if mark]
        assert marks == [{"type": "ephemeral", "ttl": "1h"}, {"type": "ephemeral"}, {"type": "ephemeral"}]

    def test_it_is_read_as_without(self) -> None:
        assert from_anthropic(to_anthropic(self.CHAT, cache=True)) == from_anthropic(to_anthropic(self.CHAT))

    def test_no_mark_is_on_thinking(self) -> None:
        thought = AiMessage("Well.", thinking="Hm.", attributes={"thinking_signature": "c2ln"})
        written = to_anthropic([UserMessage("Hi"), thought], cache=True)
        assert "cache_control" not in written["messages"][-1]["content"][0]
        assert written["messages"][-1]["content"][-1]["cache_control"] == {"type": "ephemeral"}

    @pytest.mark.parametrize("cache", ["10m", 1, None, {}])
    def test_something_else_is_an_error(self, cache: Any) -> None:
        with pytest.raises(ValueError, match='cache must be a boolean, "5m" or "1h"'):
            to_anthropic(self.CHAT, cache=cache)
        with pytest.raises(ValueError, match="cache must be"):
            AnthropicChatModel("claude-tiny", cache=cache)

    @pytest.mark.django_db
    def test_to_format(self) -> None:
        memory = ConversationFactory().memory
        memory.add(*self.CHAT)
        written = memory.to_format("anthropic", cache="1h")
        assert written["system"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
        with pytest.raises(ValueError, match="OpenAI has no marks for a cache; leave cache out"):
            memory.to_format("openai", cache=True)


def test_marks_do_not_make_thinking_stale(anthropic_server: AnthropicServer) -> None:
    from chatmemory import MessageWindowChatMemory

    memory = MessageWindowChatMemory(max_messages=20)
    assistant = Assistant(AnthropicChatModel("claude-tiny", cache=True), memory=memory, tools=[look])
    for answer in ("Yes.", "Still."):
        anthropic_server.stream(events(thinking("Let me see."), text(answer)))
        list(assistant.stream("default", "Well?"))
    [block, *_] = anthropic_server.requests[1]["messages"][1]["content"]
    assert block["type"] == "thinking"
    assert anthropic_server.requests[1]["tools"][-1]["cache_control"] == {"type": "ephemeral"}
