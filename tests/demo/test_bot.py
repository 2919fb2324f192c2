"""The demo's embedded bot: what it understands, and that it knows nothing but what it is given."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from fractions import Fraction

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
from chatmemory.assistant.tools import Toolbox
from demo_project.chat.arithmetic import ArithmeticProblem, calculate
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
        ("told", "asked", "known"),
        [
            ("My name is Ann", "What is my name?", "Your name is Ann."),
            ("hi, my name's Zoë!", "who am I", "Your name is Zoë."),
            ("Call me Al", "What's my name", "Your name is Al."),
            ("My favorite color is blue.", "what is my favourite colour?", "Your favorite color is blue."),
            (
                "My favourite colours are blue and green",
                "my favorite color?",
                "Your favourite colours are blue and green.",
            ),
            ("my favorite color is now green", "What's my favorite color", "Your favorite color is green."),
            ("My dog's name is Rex", "What is the name of my dog?", "Your dog's name is Rex."),
            ("My dog's name is Rex", "What is my dog’s name?", "Your dog's name is Rex."),
            ("My friend's name is Bob", "who is my friend?", "Your friend's name is Bob."),
            ("I have a dog named Rex", "What is my dog called?", "Your dog's name is Rex."),
            ("My name’s Ann", "whats my name", "Your name is Ann."),
            ("my name: Ann", "do you know who I am?", "Your name is Ann."),
            ("I'm Ann", "What is my name?", "You are Ann."),
            ("I am Ann.", "what did I say my name was?", "You are Ann."),
            ("I live in Berlin", "which city do I live in?", "You live in Berlin."),
            ("I am 34 years old", "how old am I?", "Your age is 34."),
            ("My birthday is May 3, 1990", "when is my birthday?", "Your birthday is May 3, 1990."),
            ("My name is Ann, nice to meet you", "I forgot what my name is.", "Your name is Ann."),
            ("My name is Ann by the way", "Can you remember my name?", "Your name is Ann."),
            ("Please call me Al, not Albert", "My name?", "Your name is Al."),
            ("Hi my name is Bob and I live in Paris", "what did I tell you?", "Your name is Bob. You live in Paris."),
            (
                "remember that my car is red and the bike is blue",
                "tell me everything you know about me",
                "Your car is red. The bike is blue.",
            ),
            ("Can you remember the number 42?", "what's my number?", "The number is 42."),
            ("My dog is in my house", "where is my dog?", "You said: “My dog is in my house”."),
            ("my name is Ann and my cat is Rex", "Do you know my cat?", "Your cat is Rex."),
            ("My name is Ann, what is 1+1?", "Do you still remember my name?", "Your name is Ann."),
            ("Remember the number 7", "What was the number?", "The number is 7."),
            ("Please remember 12.5", "Which number did I tell you?", "The number is 12.5."),
            ("Remember that the door code is 47x", "What is the door code again?", "The door code is 47x."),
            ("Remember to buy milk", "What do you remember?", "You asked me to remember: buy milk."),
            (
                "My name is Ann. Remember the number 7.",
                "What do you know about me?",
                "Your name is Ann. The number is 7.",
            ),
            ("My dog is called Rex", "what is my dog", "Your dog's name is Rex."),
        ],
    )
    def test_what_it_was_told(self, told: str, asked: str, known: str) -> None:
        assert talk(told).startswith("Noted") or "1+1" in told
        assert talk(told, asked) == known
        forgotten = talk(asked)
        assert "Nothing in my memory tells me" in forgotten
        assert "forgotten" in forgotten
        assert known not in forgotten

    def test_the_latest_counts(self) -> None:
        assert talk("My name is Ann", "My name is Bob", "What is my name?") == "Your name is Bob."

    def test_it_greets_by_name(self) -> None:
        assert talk("My name is Ann", "Hello") == "Hello, Ann!"

    def test_a_question_teaches_nothing(self) -> None:
        assert "forgotten" in talk("Is my name Ann?", "What is my name?")

    @pytest.mark.parametrize(
        "text",
        [
            *[
                "my name is not Ann",
                "In my opinion this is wrong",
                "I can't remember my password",
                "call me at 555-1234",
            ],
            *[
                "I don't remember anything",
                "I will always remember Paris",
                "I'm fine",
                "my friend says that this is bad",
            ],
        ],
    )
    def test_what_it_does_not_take_in(self, text: str) -> None:
        assert "did not understand" in talk(text)
        assert talk(text, "What do you know about me?").startswith("Nothing")

    @pytest.mark.parametrize("text", ["What is the capital of France?", "What's the weather like today?"])
    def test_what_nobody_told_it_is_not_forgotten(self, text: str) -> None:
        assert talk(text).startswith("Nothing in my memory tells me the ")
        assert "forgotten" not in talk(text)

    def test_each_answer_may_be_one_of_several(self) -> None:
        told = "My mother's name is Eve and my father's name is Tom"
        assert (
            talk(told, "Who is my mother and who is my father?")
            == "Your mother's name is Eve. Your father's name is Tom."
        )

    def test_its_own_answer_may_outlive_the_message(self) -> None:
        memory: list[ChatMessage] = []
        talk("My name is Ann", "What is my name?", memory=memory)
        said = talk("What is my name?", memory=memory[2:])
        assert said == "None of your messages in my memory tells me that, but an answer of mine does: your name is Ann."
        assert talk("What do you know about me?", memory=memory[2:]) == "Your name is Ann."

    @pytest.mark.parametrize("told", ["I live in Berlin", "I'm Ann", "My dog is in my house", "Remember to buy milk"])
    def test_each_form_of_its_answers_is_read_back(self, told: str) -> None:
        memory: list[ChatMessage] = []
        known = talk(told, "What do you know about me?", memory=memory)
        assert talk("What do you know about me?", memory=memory[2:]) == known

    # Words without a meaning of their own to the bot.
    @given(
        st.text("bcdfghjkmn", min_size=1, max_size=12),
        st.lists(st.sampled_from(["Hello", "1+1", "Thanks"]), max_size=5),
    )
    def test_a_fact_is_known_exactly_as_long_as_it_is_there(self, name: str, between: list[str]) -> None:
        memory: list[ChatMessage] = []
        talk(f"My name is {name}", *between, memory=memory)
        assert talk("What is my name?", memory=list(memory)) == f"Your name is {name}."
        without = [message for message in memory[1:] if f", {name}!" not in (getattr(message, "text", None) or "")]
        assert "forgotten" in talk("What is my name?", memory=without)

    @given(st.lists(any_message(), max_size=8))
    def test_any_memory_has_an_answer_and_always_the_same(self, memory: list[ChatMessage]) -> None:
        before = list(memory)
        first = answer(memory)
        assert isinstance(first, AiMessage)
        assert first.text or first.tool_execution_requests
        assert answer(memory) == first
        assert memory == before

    @given(st.text(max_size=200))
    @example("remember")
    @example("my  is ")
    @example("order")
    def test_any_text_has_an_answer(self, text: str) -> None:
        assert talk(text, "What do you know about me?")

    @pytest.mark.parametrize(
        "text",
        [
            *["my " * 50_000, "1+" * 50_000, "what is my " + "a " * 50_000, "(" * 100_000, "hi " * 50_000],
            *["and the a " * 50_000, "1 " * 50_000, "I am " + "A " * 50_000, "do you know " * 50_000],
        ],
    )
    def test_a_long_text_takes_no_long_time(self, text: str) -> None:
        started = time.process_time()
        assert talk(text)
        assert time.process_time() - started < 1, "it does not grow with the length alone: 0.01 is usual"

    @pytest.mark.parametrize("text", ["Tell me a joke", "Who are you?", "¿Qué tal?", "What can you do?"])
    def test_it_is_honest_about_what_it_is(self, text: str) -> None:
        assert "not a language model" in talk(text)

    @pytest.mark.parametrize("text", ["ok", "bye", "How are you?", "thanks", "Hello"])
    def test_small_talk_is_short(self, text: str) -> None:
        memory: list[ChatMessage] = []
        talk("help", memory=memory)
        assert len(talk(text, memory=memory)) < 80

    def test_it_says_what_it_is_once_and_when_asked(self) -> None:
        assert "not a language model" in talk("Tell me a joke")
        assert talk("Tell me a joke", "Tell me a joke").endswith("Say “help” and I will tell you what I understand.")
        assert "not a language model" in talk("Tell me a joke", "help")

    def test_without_anything_to_answer(self) -> None:
        assert answer([]) == answer([SystemMessage("Be brief.")])
        assert "text only" in (answer([UserMessage([ImageContent("https://example.com/cat.png")])]).text or "")


class TestTools:
    @pytest.mark.parametrize(
        ("text", "calls"),
        [
            ("What is 12*(3+4)?", [("calculator", "12*(3+4)")]),
            ("12/5 =", [("calculator", "12/5")]),
            ("(what is 5-3)", [("calculator", "5-3")]),
            ("Where is order 1001?", [("look_up_order", "1001")]),
            ("Look up order #1001 and calculate 3 * 4", [("look_up_order", "1001"), ("calculator", "3 * 4")]),
            ("Calculate 3*4 and look up order 1002", [("calculator", "3*4"), ("look_up_order", "1002")]),
            ("orders 1001 and 1002", [("look_up_order", "1001"), ("look_up_order", "1002")]),
            ("track 1001", [("look_up_order", "1001")]),
            ("where's my order?", []),
            ("What's 3 times 4?", [("calculator", "3 times 4")]),
            ("what is 20% of 50", [("calculator", "20% of 50")]),
            ("1e3+1", [("calculator", "1e3+1")]),
            ("what is 1,5*2", [("calculator", "1,5*2")]),
            ("What is 100 + 10%?", []),
            ("What is 1990-05-03?", []),
            ("My number is 555-1234, what is my name?", []),
            ("I moved on 2024-05-01", []),
            ("My number is 12-34", []),
        ],
    )
    def test_which_it_calls(self, text: str, calls: list[tuple[str, str]]) -> None:
        requests = answer([UserMessage(text)]).tool_execution_requests
        given = [(request.name, *json.loads(request.arguments or "").values()) for request in requests]
        assert given == calls
        assert len({request.id for request in requests}) == len(requests)

    def test_it_tells_what_they_gave(self) -> None:
        said = talk("Calculate 3*4 and look up order 1002")
        assert said == "3*4 = 12. Order 1002: two mugs, being packed, leave tomorrow."

    def test_it_asks_which_order(self) -> None:
        assert (
            talk("where's my order?") == talk("track my order") == "Which order? Give me its number, for example 1001."
        )
        assert talk("My order is 1002", "where is my order?") == "Your order is 1002."

    def test_it_says_that_it_does_two_things_at_a_time(self) -> None:
        assert "ask me again" in talk("What is 1+1, 2+2 and 3+3?")

    def test_it_recalls_and_calculates_in_one_answer(self) -> None:
        assert talk("My name is Ann", "What is my name and what is 2+2?") == "2+2 = 4. Your name is Ann."

    def test_results_whose_call_and_question_left(self) -> None:
        assert answer([ToolExecutionResultMessage("1", "calculator", "1+1 = 2")]).text == "1+1 = 2."

    @pytest.mark.parametrize(
        ("name", "arguments", "words"),
        [
            ("calculator", '{"expression": "1/0"}', "divided by zero"),
            ("calculator", "{", "not JSON"),
            ("calculator", "[" * 100_000, "not JSON"),
            ("calculator", "[]", "must be a JSON object"),
            ("calculator", None, "expression is missing"),
            ("calculator", '{"expression": true}', "expression: Input should be a valid string"),
            ("look_up_order", '{"number": "77"}', "There is no order 77"),
            ("delete_everything", "{}", "There is no tool 'delete_everything'"),
            (None, "{}", "There is no tool None"),
        ],
    )
    def test_errors_are_results(self, name: str | None, arguments: str | None, words: str) -> None:
        result = toolbox.run(ToolExecutionRequest(id="1", name=name, arguments=arguments))
        assert result.is_error
        assert words in result.text

    def test_a_number_does_for_its_digits(self) -> None:
        result = toolbox.run(ToolExecutionRequest(id="1", name="look_up_order", arguments='{"number": 1003}'))
        assert not result.is_error
        assert result.id == "1"

    def test_every_tool_that_is_offered_runs(self) -> None:
        for tool in toolbox.specifications:
            [argument] = tool.parameters["required"]
            request = ToolExecutionRequest(id="1", name=tool.name, arguments=json.dumps({argument: "1001"}))
            assert not toolbox.run(request).is_error


_NUMBERS = st.integers(0, 99).map(str)
_EXPRESSIONS = st.recursive(
    _NUMBERS,
    lambda inner: st.builds("({}{}{})".format, inner, st.sampled_from("+-*"), inner),
    max_leaves=8,
)


class TestArithmetic:
    @pytest.mark.parametrize(
        ("expression", "value"),
        [
            ("12*(3+4)", "84"),
            ("0.1+0.2", "0.3"),
            ("1/3", "0.333333333333"),
            ("7//2 + 7%2", "4"),
            ("-2^3", "-8"),
            ("2**-1", "0.5"),
            ("3 × 4 ÷ 6 − 1", "1"),
            ("1/3*3", "1"),
            ("+5", "5"),
            ("007+1", "8"),
            ("1,000*2", "2000"),
            ("1e3 + 1.50", "1001.5"),
            ("3 x 4 divided by 6 minus 1", "1"),
            ("20% of 50", "10"),
            ("10 plus 20 percent of 50", "20"),
            ("1**100", "1"),
        ],
    )
    def test_values(self, expression: str, value: str) -> None:
        assert calculate(expression) == value

    @given(_EXPRESSIONS)
    def test_it_agrees_with_python(self, expression: str) -> None:
        try:
            value = calculate(expression)
        except ArithmeticProblem:
            return
        assert Fraction(value) == eval(expression)

    @pytest.mark.parametrize(
        "expression",
        [
            *[
                "",
                "1+",
                "1 2",
                "1e",
                "e3",
                "a",
                "1,2",
                "1,5*2",
                "1.000,5",
                "1<2",
                "1(2)",
                "[1]",
                "٣+٤",
                "." * 50,
                "(" * 190,
            ],
            *["1/0", "1%0", "0**-1", "2**0.5", "9**9**9", "9**60*9**60", "1e999", "9" * 150, "1" * 300],
            *["9" * 190 + ".5", "__import__('os')", "().__class__", "1if 1else 2"],
        ],
    )
    def test_what_is_refused(self, expression: str) -> None:
        with pytest.raises(ArithmeticProblem):
            calculate(expression)

    @given(st.text("0123456789.+-*/%() ", max_size=60))
    def test_any_expression_ends_soon(self, expression: str) -> None:
        started = time.process_time()
        with suppress(ArithmeticProblem):
            calculate(expression)
        assert time.process_time() - started < 1, "0.001 is usual"
