"""Text of models and tools that no database stores: it is replaced alike where it is shown and where it is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from itertools import pairwise
from typing import Any

import pytest
from django.test import Client
from hypothesis import example, given
from hypothesis import strategies as st

from chatmemory import AiMessage, ImageContent, MessageWindowChatMemory, ToolExecutionRequest, UserMessage
from chatmemory.assistant import Assistant, ChatModel, ChatModelSummarizer, Thinking, ToolError
from chatmemory.core.json_text import with_replacements
from chatmemory.models import Compaction, Conversation
from tests.support.assistant_models import ScriptedModel, calling
from tests.support.assistants import Speaker, choose
from tests.support.factories import ConversationFactory
from tests.support.turns import ask, chunks_of, message_of, said, stream
from tests.support.window_cases import examples

# Of single UTF-16 units, so that pairs are whole, cut or reversed.
TEXTS = st.text(st.sampled_from("a \n\0\ud83c\udf75\ufffd🍵"), max_size=8)
CUTS = st.lists(st.integers(0, 8), max_size=4)


def cut(text: str, cuts: Sequence[int]) -> list[str]:
    """Return the text in pieces."""
    return [text[start:end] for start, end in pairwise([0, *sorted(min(at, len(text)) for at in cuts), len(text)])]


@pytest.fixture
def conversation(user: Any) -> Iterator[Conversation]:
    made: Conversation = ConversationFactory.create(owner=user, window="messages", limit=50)
    yield made
    choose(None)


def saying(deltas: Sequence[str | Thinking]) -> ChatModel:
    """A model that says this, and returns it as it said it."""

    def speak(messages: Any) -> Iterator[Any]:
        yield from deltas
        thought = "".join(delta.text for delta in deltas if isinstance(delta, Thinking))
        yield AiMessage("".join(delta for delta in deltas if isinstance(delta, str)), thinking=thought or None)

    return Speaker(speak)


@pytest.mark.slow
@pytest.mark.django_db
@given(text=TEXTS.filter(lambda text: text.strip(" \n")), cuts=CUTS, thought=TEXTS, thought_cuts=CUTS)
@example("tea \ud83c\udf75", [5], "", [])
@example("a\ud83c", [], "b\ud83c", [])
@examples(25)
def test_what_is_shown_is_what_is_stored(
    api: Client, conversation: Conversation, text: str, cuts: list[int], thought: str, thought_cuts: list[int]
) -> None:
    deltas = [*map(Thinking, cut(thought, thought_cuts)), *cut(text, cuts)]
    choose(saying(deltas))
    parts = message_of(chunks_of(stream(api, conversation, "Hi")))["parts"]
    shown = {part["type"]: part["text"] for part in parts if "text" in part}
    *_, row = conversation.messages.history()
    stored = row.message
    assert isinstance(stored, AiMessage)
    assert shown["text"] == stored.text == with_replacements(text)
    assert shown.get("reasoning") == stored.thinking == (with_replacements(thought) or None)
    assert ask(api, conversation, "Again").json()["answer"]["text"] == stored.text


@given(text=TEXTS, cuts=CUTS, thought=TEXTS, is_async=st.booleans())
@examples(50)
def test_deltas_make_the_answer(text: str, cuts: list[int], thought: str, is_async: bool) -> None:
    """Also if thinking comes between the surrogates of a pair."""
    pieces = cut(text, cuts)
    deltas: list[Any] = [pieces[0], *map(Thinking, thought), *pieces[1:], "."]
    assistant = Assistant(saying(deltas), memory=MessageWindowChatMemory(max_messages=9))

    async def read() -> list[Any]:
        return [event async for event in assistant.astream("default", "Hi")]

    events = asyncio.run(read()) if is_async else list(assistant.stream("default", "Hi"))
    assert "".join(event for event in events if isinstance(event, str)) == with_replacements(f"{text}.")
    thoughts = "".join(event.text for event in events if isinstance(event, Thinking))
    assert thoughts == with_replacements(thought)
    stored = assistant.memory("default").messages()[-1]
    assert stored == AiMessage(with_replacements(f"{text}."), thinking=thoughts or None)


class TestTools:
    def result(self, tool: Callable[..., Any]) -> Any:
        memory = MessageWindowChatMemory(max_messages=9)
        assistant = Assistant(ScriptedModel(calling(("tool", "{}")), "Done"), tools=[tool], memory=memory)
        assistant.chat("default", "Hi")
        return memory.messages()[2]

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            ("page 1\0 page 2 \ud83c\udf75\ud83c", "page 1\ufffd page 2 🍵\ufffd"),
            ({"a": "\ud83c", "when": date(2026, 1, 2)}, '{"a": "\ufffd", "when": "2026-01-02"}'),
            (["a\0"], r'["a\u0000"]'),
        ],
    )
    def test_a_result_is_kept(self, value: Any, text: str) -> None:
        def tool() -> Any:
            return value

        result = self.result(tool)
        assert (result.text, result.is_error) == (text, None)

    def test_contents_are_kept(self) -> None:
        image = ImageContent("https://example.com/a.png")

        def tool() -> Any:
            return [image, "a\0"]

        result = self.result(tool)
        assert (result.contents[0], result.text, result.is_error) == (image, "a\ufffd", None)

    def test_an_error_is_told(self) -> None:
        def tool() -> None:
            raise ToolError("no \ud83c\udf75, no \0")

        result = self.result(tool)
        assert (result.text, result.is_error) == ("no 🍵, no \ufffd", True)


@pytest.mark.django_db(transaction=True)
class TestBesideAnswers:
    @pytest.mark.parametrize("is_model", [True, False])
    def test_summaries(self, conversation: Conversation, is_model: bool) -> None:
        for number in range(4):
            conversation.memory.add(UserMessage(f"{number} " * 40), AiMessage("Well. " * 40))
        summary = "The tea \ud83c\udf75\0"
        summarizer: Any = (
            ChatModelSummarizer(ScriptedModel(summary)) if is_model else lambda messages, previous: summary
        )
        change = conversation.memory.compact(summarizer, keep=0)
        assert change is not None
        assert "The tea 🍵\ufffd" in change.added[0].text

    def test_the_error_of_a_summarizer(self, conversation: Conversation) -> None:
        def fail(messages: Any, previous: Any) -> str:
            raise OSError("no \ud83c\udf75\0")

        for number in range(4):
            conversation.memory.add(UserMessage(f"{number} " * 40), AiMessage("Well. " * 40))
        with pytest.raises(OSError, match="no "):
            conversation.memory.compact(fail, keep=0)
        assert Compaction.objects.get().error == "OSError: no 🍵\ufffd"

    def test_what_was_said_before_a_stop(self, conversation: Conversation) -> None:
        assistant = Assistant(saying(["Once \0", "upon", "a time"]))
        events = assistant.stream(conversation, "Hi")
        for event in events:
            if event == "Once \ufffd":
                assistant.interrupt(conversation)
                break
        events.close()
        assert said(conversation)[-1] == "Once \ufffd"

    def test_requests_of_custom_models(self, conversation: Conversation) -> None:
        def find(what: str) -> str:
            return what

        calls = [
            ToolExecutionRequest("a\0", "find", '{"what": "\ud83c\udf75"}'),
            ToolExecutionRequest("b", "find", r'{"what": "\ud83c\udf75\u0000\uD83C"}'),
            ToolExecutionRequest("c", "find", r'{"what": "\ud83c\udf75"}'),
        ]
        model = ScriptedModel(AiMessage(None, calls, attributes={"note": {"a\0": "\ud83c"}}), "Done")
        Assistant(model, tools=[find]).chat(conversation, "Hi")
        called = conversation.messages.history()[1].message
        assert isinstance(called, AiMessage)
        assert called.tool_execution_requests == (
            ToolExecutionRequest("a\ufffd", "find", '{"what": "🍵"}'),
            ToolExecutionRequest("b", "find", '{"what":"🍵\ufffd\ufffd"}'),
            calls[2],
        )
        assert called.attributes == {"note": {"a\ufffd": "\ufffd"}}
        assert said(conversation)[-4:] == ["🍵", "🍵\ufffd\ufffd", "🍵", "Done"]


@pytest.mark.django_db
def test_what_users_say_is_refused(api: Client, conversation: Conversation) -> None:
    for text in ("a\0", "\ud83c"):
        assert ask(api, conversation, text).status_code == 400
    assert said(conversation) == []
