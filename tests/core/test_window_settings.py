"""The declaration of a window's settings: the lists that type checkers need are the same, and one check knows all."""

from __future__ import annotations

from typing import Any

import pytest

from chatmemory import MessageWindowChatMemory, TokenWindowChatMemory
from chatmemory.core.exceptions import InvalidValueError
from chatmemory.core.window import RULES, SETTINGS, Window, WindowKind, WindowOptions, WindowSettings, check


def test_the_written_lists_are_those_of_the_declaration() -> None:
    assert list(WindowSettings.__annotations__) == [*SETTINGS, "preset"]
    assert set(RULES) <= SETTINGS.keys()
    assert {*WindowOptions.__annotations__, "limit"} == set(RULES)
    window = Window(kind=WindowKind.MESSAGES, limit=1)
    for name in WindowOptions.__annotations__:
        assert getattr(window, name) == SETTINGS[name].default


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=lambda setting: setting.name)
def test_every_default_is_a_value(setting: Any) -> None:
    assert setting.name == "limit" or check(setting.name, setting.default) == setting.default


@pytest.mark.parametrize(
    ("name", "value", "code", "said"),
    [
        ("window", "hours", "invalid_choice", "one of messages, tokens, but is: 'hours'"),
        ("window", None, "null", "one of messages, tokens, but is: null"),
        ("limit", 0, "min_value", "greater than zero, but is: 0"),
        ("limit", None, "null", "greater than zero, but is: null"),
        ("limit", "4", "invalid_type", "a whole number greater than zero, but is: '4'"),
        ("limit", True, "invalid_type", "a whole number greater than zero, but is: True"),
        ("model", 5, "invalid_type", "a string of 1 to 255 characters, but is: 5"),
        ("model", " ", "blank", "a string of 1 to 255 characters, but is: ' '"),
        ("model", "m" * 256, "max_length", "a string of 1 to 255 characters, but is: 'mmm"),
        ("low_water", 0, "min_value", "a percentage from 1 to 100, but is: 0"),
        ("low_water", 101, "max_value", "a percentage from 1 to 100, but is: 101"),
        ("low_water", None, "null", "a percentage from 1 to 100, but is: null"),
        ("whole_turns", 1, "invalid_type", "true or false, but is: 1"),
        ("always_keep_system_message_first", None, "null", "true or false, but is: null"),
        ("keep_tool_results", -1, "min_value", "a whole number of at least zero, or null, but is: -1"),
        ("keep_tool_results", 1.0, "invalid_type", "a whole number of at least zero, or null, but is: 1.0"),
        ("compact_at", 101, "max_value", "a percentage from 1 to 100, or null, but is: 101"),
        ("compact_keep_calls", 0, "min_value", "a whole number greater than zero, or null, but is: 0"),
    ],
)
def test_a_value_without_a_meaning(name: str, value: Any, code: str, said: str) -> None:
    with pytest.raises(InvalidValueError) as raised:
        check(name, value)
    assert raised.value.code == code
    assert str(raised.value).startswith(f"{name} must be {said}")
    assert raised.value.params["name"] == name
    with pytest.raises(InvalidValueError, match=r"^mine must be "):
        check(name, value, "mine")


def test_none_is_a_value_of_those_that_say_so() -> None:
    nullable = [name for name, setting in SETTINGS.items() if setting.null]
    assert nullable == ["keep_tool_results", "compact_at", "compact_keep_calls"]
    assert check("compact_at", None) is None


def test_a_limit_in_memory_has_no_most() -> None:
    assert MessageWindowChatMemory(max_messages=2**40).window().limit == 2**40


@pytest.mark.parametrize("name", ["limit", "compact_at", "keep_tool_result"])
def test_a_memory_takes_no_other_settings(name: str) -> None:
    given: Any = {name: 1}
    with pytest.raises(TypeError, match=f"MessageWindowChatMemory.* unexpected keyword argument '{name}'"):
        MessageWindowChatMemory(max_messages=5, **given)


def test_both_memories_have_all_the_others() -> None:
    options: WindowOptions = {
        "always_keep_system_message_first": True,
        "low_water": 70,
        "whole_turns": True,
        "keep_tool_results": 0,
        "compact_keep_calls": 2,
    }

    class Words:
        def estimate_token_count_in_text(self, text: str) -> int:
            return len(text.split())

        def estimate_token_count_in_message(self, message: Any) -> int:
            return 1

        def estimate_token_count_in_messages(self, messages: Any) -> int:
            return len(list(messages))

    of_tokens = TokenWindowChatMemory(max_tokens=5, token_count_estimator=Words(), **options)
    for memory in (MessageWindowChatMemory(max_messages=5, **options), of_tokens):
        window = memory.window()
        assert {name: getattr(window, name) for name in options} == options
