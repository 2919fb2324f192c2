"""The demo's embedded bot: it knows nothing but what it is given."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chatmemory import (
    AiMessage,
    ChatMessage,
    ImageContent,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.assistant import ToolSpecification
from chatmemory.assistant.tools import Toolbox
from demo_project.chat.bot import answer
from demo_project.chat.tools import TOOLS
from tests.support.strategies import messages as any_message

toolbox = Toolbox(TOOLS)


def talk(*texts: str, memory: list[ChatMessage] | None = None) -> str:
    """Say the texts one after the other; the last answer."""
    said = memory if memory is not None else []
    for text in texts:
        said.append(UserMessage(text))
        while (reply := answer(said)).tool_execution_requests:
            said += [reply, *map(toolbox.run, reply.tool_execution_requests)]
        said.append(reply)
    return reply.text or ""


class TestMemory:
    @pytest.mark.parametrize(
        ("told", "asked"),
        [
            ("My name is Ann", "What is my name?"),
            ("hi, my name's Zoë!", "tell me my name"),
            ("My favorite color is blue.", "What's my favorite color"),
            ("I have a dog called Rex", "How is my dog called?"),
            ("Remember the number 7", "Which number did I tell you?"),
            ("Hi, I'm Ann", "What's my name?"),
            ("Ich heiße Anna", "Wie ist mein Name?"),
            ("私の名前はアンです", "私の名前は何ですか"),
            ("我叫小安", "我的名字是什么？"),
        ],
    )
    def test_it_repeats_what_it_was_told(self, told: str, asked: str) -> None:
        assert talk(told).startswith("Noted")
        assert talk(told, asked) == f"You said:\n“{told}”"
        assert talk(asked).startswith("I find nothing about that in my memory. If you told me, I have forgotten it")

    def test_the_latest_counts(self) -> None:
        assert "Bob" in talk("My name is Ann", "My name is Bob", "What is my name?")

    def test_a_question_without_words_of_its_own_asks_for_everything(self) -> None:
        said = talk("My name is Ann", "Remember the number 7", "What is my name?", "What do you know about me?")
        assert said == "You said:\n“My name is Ann”\n“Remember the number 7”"

    @pytest.mark.parametrize(
        "text", ["Hello", "Thanks!", "Write me a poem", "Where is order 1001?", "谢谢", "我的猫叫什么"]
    )
    def test_what_tells_nothing_is_not_noted(self, text: str) -> None:
        assert not talk(text).startswith("Noted")
        assert talk("My name is Ann", text, "What do you know about me?") == "You said:\n“My name is Ann”"

    def test_a_question_teaches_nothing(self) -> None:
        assert "forgotten" in talk("Is my name Ann?", "What is my name?")

    def test_its_own_answer_may_outlive_the_message(self) -> None:
        memory: list[ChatMessage] = []
        said = talk("My name is Ann", "What is my name?", memory=memory)
        assert talk("What is my name?", memory=memory[2:]) == said

    # Words without a meaning of their own to the bot.
    @given(
        st.text("bcdfghjkmn", min_size=1, max_size=12),
        st.lists(st.sampled_from(["Hello", "Where is order 1001?", "Thanks"]), max_size=5),
    )
    def test_a_fact_is_known_exactly_as_long_as_it_is_there(self, name: str, between: list[str]) -> None:
        memory: list[ChatMessage] = []
        talk(f"My name is {name}", *between, memory=memory)
        assert talk("What is my name?", memory=list(memory)) == f"You said:\n“My name is {name}”"
        assert "forgotten" in talk("What is my name?", memory=memory[1:])

    @pytest.mark.slow
    @given(st.lists(any_message(), max_size=8))
    def test_any_memory_has_an_answer_and_always_the_same(self, memory: list[ChatMessage]) -> None:
        before = list(memory)
        first = answer(memory)
        assert isinstance(first, AiMessage)
        assert first.text or first.tool_execution_requests
        assert answer(memory) == first
        assert memory == before

    @given(st.text(max_size=200))
    @example("order")
    def test_any_text_has_an_answer(self, text: str) -> None:
        assert talk(text, "What do you know about me?")

    @pytest.mark.parametrize(
        "text", ["Who are you?", "help", "Hi there!", "What can you do?", "Forget my name", "こんにちは"]
    )
    def test_it_is_honest_about_what_it_is(self, text: str) -> None:
        assert "not a language model" in talk(text)

    def test_without_anything_to_answer(self) -> None:
        assert answer([]) == answer([SystemMessage("Be brief.")])
        assert "text only" in (answer([UserMessage([ImageContent("https://example.com/cat.png")])]).text or "")


class TestTool:
    @pytest.mark.parametrize(
        ("text", "numbers"),
        [
            ("Where is order 1001?", ["1001"]),
            ("Look up orders 1001 and 1002", ["1001", "1002"]),
            ("注文1001はどこですか？", ["1001"]),
            ("where's my order?", []),
            ("Cancel order 1004", []),
            ("Remember the number 1001", []),
        ],
    )
    def test_when_it_calls_it(self, text: str, numbers: list[str]) -> None:
        requests = answer([UserMessage(text)]).tool_execution_requests
        assert [json.loads(request.arguments or "")["number"] for request in requests] == numbers
        assert len({request.id for request in requests}) == len(requests)

    def test_it_asks_which_order(self) -> None:
        assert talk("Where is my order?").startswith("Which order?")

    def test_it_tells_what_it_gave(self) -> None:
        said = talk("Look up orders 1002 and 77")
        assert said.startswith("Order 1002: two mugs, being packed, leave tomorrow. There is no order 77.")

    def test_results_whose_call_and_question_left(self) -> None:
        assert answer([ToolExecutionResultMessage("1", "look_up_order", "It is here.")]).text == "It is here."

    @pytest.mark.parametrize("number", ["1003", 1003])
    def test_a_number_does_for_its_digits(self, number: str | int) -> None:
        result = toolbox.run(ToolExecutionRequest("1", "look_up_order", json.dumps({"number": number})))
        assert not result.is_error
        assert result.text == "Order 1003: a bread knife, delivered on Monday."

    def test_an_unknown_order_is_an_error(self) -> None:
        result = toolbox.run(ToolExecutionRequest("1", "look_up_order", '{"number": "77"}'))
        assert result.is_error
        assert "There is no order 77" in result.text


RECALL = [ToolSpecification("conversation_search", "", {})]


class TestRecall:
    FOUND = (
        "These are quotations.\n<results>\n<result>\n"
        '<message from="user" said="Monday 2026-11-02 08:00+00:00" left="…" because="…" found="yes">What is my name?'
        "</message>\n"
        '<message from="user" said="Tuesday 2026-11-03 14:05+00:00" left="…" because="…" found="yes">'
        "My name is Ann &amp; &lt;Bob&gt;</message>\n"
        '<message from="assistant" said="Tuesday 2026-11-03 14:05+00:00" found="yes">Her name is Eve.</message>\n'
        "</result>\n</results>"
    )

    def test_it_looks_for_what_it_does_not_find(self) -> None:
        [request] = answer([UserMessage("What is my name?")], RECALL).tool_execution_requests
        assert (request.name, request.arguments) == ("conversation_search", '{"query": "name"}')
        known = [UserMessage("My name is Ann"), UserMessage("What is my name?")]
        assert not answer(known, RECALL).tool_execution_requests

    @pytest.mark.parametrize("text", ["Hello", "My name is Ann", "What do you know about me?", "Where is order 1001?"])
    def test_it_does_not_look_for_anything_else(self, text: str) -> None:
        names = {request.name for request in answer([UserMessage(text)], RECALL).tool_execution_requests}
        assert "conversation_search" not in names

    def test_it_says_when_it_was_told(self) -> None:
        result = ToolExecutionResultMessage("1", "conversation_search", self.FOUND)
        said = answer([UserMessage("What is my name?"), result], RECALL).text
        assert said == (
            "I no longer have that in mind, but on Tuesday 2026-11-03 at 14:05 you told me:\n“My name is Ann & <Bob>”"
        )

    def test_it_remembers_what_it_repeated(self) -> None:
        result = ToolExecutionResultMessage("1", "conversation_search", self.FOUND)
        repeated = answer([UserMessage("What is my name?"), result], RECALL)
        assert talk("What is my name?", memory=[repeated]) == "You said:\n“My name is Ann & <Bob>”"

    def test_what_was_never_told(self) -> None:
        result = ToolExecutionResultMessage("1", "conversation_search", "Nothing was found. Try other words.")
        said = answer([UserMessage("What is my name?"), result], RECALL).text
        assert said == "I find nothing about that, neither in my memory nor in what has left it."
