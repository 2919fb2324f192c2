"""What Anthropic's prompt cache can read of the requests of a conversation, by the rules that it publishes."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from chatmemory import AiMessage, SystemMessage, UserMessage
from chatmemory.assistant import Assistant
from chatmemory.assistant.anthropic import AnthropicChatModel
from chatmemory.core.summaries import summary_message
from chatmemory.formats.anthropic import from_anthropic, to_anthropic
from tests.support.anthropic_server import AnthropicServer, anthropic_server, call, events, message, text, thinking
from tests.support.factories import ConversationFactory

__all__ = ["anthropic_server"]

LOOKS_BACK = 20


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
    """Anthropic's: it keeps prefixes that end at a mark, and looks for them at marks and up to 20 blocks before."""

    def __init__(self) -> None:
        self.kept: set[str] = set()
        self.before: list[str] = []
        self.read = self.possible = self.tokens = 0

    def take(self, request: dict[str, Any]) -> None:
        blocks = blocks_of(request)
        said = [each[0] for each in blocks]
        marks = [index for index, (_, _, mark) in enumerate(blocks) if mark is not None]
        assert len(marks) <= 4
        looked_at = sorted({end for mark in marks for end in range(max(0, mark - LOOKS_BACK), mark + 1)}, reverse=True)
        hit = next((end for end in looked_at if "".join(said[: end + 1]) in self.kept), -1)
        self.read += sum(tokens for _, tokens, _ in blocks[: hit + 1])
        self.kept |= {"".join(said[: mark + 1]) for mark in marks}
        same = 0
        while same < min(len(said), len(self.before)) and said[same] == self.before[same]:
            same += 1
        self.possible += sum(tokens for _, tokens, _ in blocks[:same])
        self.tokens += sum(tokens for _, tokens, _ in blocks)
        self.before = said


def look(number: int) -> str:
    """Look something up."""
    return f"Page {number}: " + "a long text " * 30


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
