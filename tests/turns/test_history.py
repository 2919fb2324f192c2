"""``GET turns/``: what was said, as the UI messages that the streams made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chatmemory import (
    AiMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.assistant import Thinking
from chatmemory.models import Conversation
from tests.support import budget
from tests.support.api import url
from tests.support.assistants import Speaker, choose
from tests.support.factories import ConversationFactory
from tests.support.turns import ask, chunks_of, message_of, stream

pytestmark = pytest.mark.django_db


def page(api: Client, conversation: Conversation, query: str = "") -> Any:
    answer = api.get(url(conversation, f"turns/{query}"))
    assert answer.status_code == 200, answer.content
    return answer.json()


def pages(api: Client, conversation: Conversation) -> list[Any]:
    found = [page(api, conversation)]
    while found[-1]["before"] is not None:
        found.append(page(api, conversation, f"?before={found[-1]['before']}"))
    return found


def ids(answer: Any) -> list[str]:
    return [message["id"] for message in answer["messages"]]


class TestPages:
    def test_an_empty_one(self, api: Client, conversation: Conversation) -> None:
        assert page(api, conversation) == {"messages": [], "before": None, "running": False, "version": 0}

    def test_one_message_a_turn_of_the_assistant(self, api: Client, conversation: Conversation) -> None:
        conversation.memory.add(SystemMessage("Be brief"))
        ask(api, conversation, "order 7")
        shown = page(api, conversation)
        assert ids(shown) == ["1", "answer-1"]
        assert [part["type"] for part in shown["messages"][1]["parts"]] == [
            "step-start", "dynamic-tool", "step-start", "text",
        ]  # fmt: skip

    @pytest.mark.slow
    def test_the_latest_turns_come_first(self, api: Client, conversation: Conversation) -> None:
        for number in range(120):
            conversation.memory.add(UserMessage(str(number)), AiMessage(f"To {number}"))
        found = pages(api, conversation)
        assert [len(each["messages"]) for each in found] == [100, 100, 40]
        assert [each["before"] for each in found] == [140, 40, None]
        every = [id for each in reversed(found) for id in ids(each)]
        assert every == [id for number in range(0, 240, 2) for id in (str(number), f"answer-{number}")]

    @pytest.mark.slow
    def test_no_page_is_beyond_all_bounds(self, api: Client, conversation: Conversation, settings: Any) -> None:
        settings.CHATMEMORY = {**settings.CHATMEMORY, "MAX_PAGE_CHARS": 1000}
        conversation.memory.add(AiMessage("Welcome"))
        call = AiMessage("x" * 300, [ToolExecutionRequest("1", "look_up", "{}")])
        result = ToolExecutionResultMessage("1", "look_up", "y" * 300)
        for number in range(3):
            conversation.memory.add(UserMessage(str(number)), *[call, result] * 4, AiMessage("Done"))
        found = pages(api, conversation)
        assert all(len(str(each)) < 4000 for each in found)
        every = [id for each in reversed(found) for id in ids(each)]
        assert len(set(every)) == len(every)
        assert [id for id in every if not id.startswith("answer")] == ["1", "11", "21"]
        texts = [part for each in reversed(found) for one in each["messages"] for part in one["parts"]]
        assert [part.get("text", part.get("output"))[:1] for part in texts if part["type"] != "step-start"] == [
            "W", *["0", *["x", "y"] * 4, "D"], *["1", *["x", "y"] * 4, "D"], *["2", *["x", "y"] * 4, "D"],
        ]  # fmt: skip

    @pytest.mark.slow
    def test_many_short_rows_of_one_turn(self, api: Client, conversation: Conversation) -> None:
        conversation.memory.add(UserMessage("Go"), *(AiMessage(str(number)) for number in range(1500)))
        found = pages(api, conversation)
        assert len(found) == 2
        texts = [
            part["text"]
            for each in reversed(found)
            for one in each["messages"]
            for part in one["parts"]
            if "text" in part
        ]
        assert texts == ["Go", *map(str, range(1500))]

    @pytest.mark.parametrize("before", ["", "-1", "x", "1.5", "99999999999999999999"])
    def test_a_wrong_position_is_refused(self, api: Client, conversation: Conversation, before: str) -> None:
        answer = api.get(url(conversation, f"turns/?before={before}"))
        assert (answer.status_code, answer.json()["errors"][0]["place"]) == (400, "before")

    def test_what_was_forgotten_is_still_there(self, api: Client, conversation: Conversation) -> None:
        for text in ("One", "Two", "Three", "Four"):
            ask(api, conversation, text)
        assert len(ids(page(api, conversation))) == 8

    def test_without_a_history_the_memory_is_all(self, api: Client, conversation: Conversation, settings: Any) -> None:
        settings.CHATMEMORY = {**settings.CHATMEMORY, "KEEP_HISTORY": False}
        for text in ("One", "Two", "Three"):
            last = message_of(chunks_of(stream(api, conversation, text)))
        assert ids(page(api, conversation)) == ["2", "answer-2", "4", last["id"]]

    def test_any_accept_gets_json(self, api: Client, conversation: Conversation) -> None:
        for accept in ("text/event-stream", "*/*", "application/json"):
            answer = api.get(url(conversation, "turns/"), headers={"accept": accept})
            assert answer["Content-Type"] == "application/json"


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8)
CALLS = st.lists(st.sampled_from(["7", "0", "8"]), max_size=3)
STEPS = st.lists(st.tuples(st.one_of(st.none(), TEXTS), st.one_of(st.none(), TEXTS), CALLS), max_size=3)
TURNS = st.lists(st.tuples(TEXTS.filter(str.strip), STEPS, TEXTS, st.booleans()), min_size=1, max_size=4)


class Scripted:
    """A model that says what it is told to, in pieces of one character, with random failures after that."""

    def __init__(self, steps: Any, last: str, fails: bool) -> None:
        self._answers = [self._answer(*step) for step in steps if step[2]] + [AiMessage(last)]
        self._fails = fails

    def _answer(self, text: str | None, thinking: str | None, numbers: list[str]) -> AiMessage:
        calls = [
            ToolExecutionRequest(f"{index}", "look_up", f'{{"number": "{number}"}}')
            for index, number in enumerate(numbers)
        ]
        return AiMessage(text, calls, thinking=thinking)

    def speak(self, messages: Any) -> Iterator[Any]:
        answer = self._answers.pop(0)
        yield from map(Thinking, answer.thinking or "")
        yield from answer.text or ""
        if self._fails and not self._answers:
            raise OSError("away")
        yield answer


@pytest.mark.slow
@settings(max_examples=budget.examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(turns=TURNS)
def test_what_the_streams_made_is_what_is_read(api: Client, user: Any, turns: Any) -> None:
    conversation = ConversationFactory.create(owner=user, window="messages", limit=100)
    shown = []
    for text, steps, last, fails in turns:
        choose(Speaker(Scripted(steps, last, fails).speak))
        chunks = chunks_of(stream(api, conversation, text))
        made = message_of(chunks)
        if chunks[-1]["type"] == "error":  # what was not stored is no part of it
            while made["parts"] and made["parts"][-1]["type"] in {"text", "reasoning", "step-start"}:
                made["parts"].pop()
        shown += [{"role": "user", "parts": [{"type": "text", "text": text}]}]
        shown += [made] if made["parts"] else []
    read = page(api, conversation)["messages"]
    assert [_plain(one) for one in read] == [_plain(one) for one in shown]
    answers = [one for one in shown if one["role"] == "assistant"]
    assert [one["id"] for one in read if one["role"] == "assistant"] == [one["id"] for one in answers]


def _plain(message: Any) -> Any:
    fields = ("type", "text", "toolCallId", "toolName", "input", "output", "errorText")
    parts = [{name: part[name] for name in fields if name in part} for part in message["parts"]]
    return message["role"], parts
