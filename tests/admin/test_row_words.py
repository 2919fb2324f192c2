"""The words of a row: calls in one line, the beginning of a message, short days."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone, translation
from hypothesis import given
from hypothesis import strategies as st

from chatmemory import AiMessage, ImageContent, ToolExecutionRequest, UserMessage
from chatmemory.admin.display.memory_map import short_day
from chatmemory.admin.display.message import ShownMessage, call_line, shown
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db


class TestCallInOneLine:
    @pytest.mark.parametrize(
        ("arguments", "line"),
        [
            ("", "f()"),
            ("{}", "f()"),
            ('{"a": 1, "b": 2.50, "c": null, "d": [1, "x"]}', 'f(a=1, b=2.5, c=null, d=[1, "x"])'),
            ('{"a": "你\\u4f60"}', 'f(a="你你")'),
            ('{"a": "C:\\\\users\\nthere"}', 'f(a="C:\\\\users\\nthere")'),
            ('{"a": "\\u202egnp.exe"}', 'f(a="\\u202egnp.exe")'),
            ('{"a": "' + "x" * 100 + '"}', 'f(a="' + "x" * 97 + "…)"),
            ('{"city":', 'f({"city":)'),
            ("[1, 2]", "f([1, 2])"),
            ('"' + "x" * 30_000 + '"', 'f("' + "x" * 99 + "…)"),
        ],
    )
    def test_is_as_a_program_would_write_it(self, arguments: str, line: str) -> None:
        assert call_line("f", arguments) == line

    @pytest.mark.slow
    @given(st.text(max_size=200), st.text(max_size=300) | st.recursive(st.text(), st.lists).map(str))
    def test_is_one_short_line_whatever_a_model_wrote(self, name: str, arguments: str) -> None:
        line = call_line(name, arguments)
        assert line.isprintable()
        assert len(line) <= 160 * 8

    def test_a_thousand_levels_are_no_error(self) -> None:
        assert call_line("f", '{"a": ' + "[" * 1000 + "]" * 1000 + "}").endswith("[[[…)")


class TestWhatIsShown:
    def show(self, *messages: Any, **options: Any) -> list[ShownMessage]:
        made = ConversationFactory()
        made.memory.add(*messages)
        return [shown(row, **options) for row in made.messages.order_by("position")]

    def test_a_long_answer_that_is_cut_still_says_what_it_calls(self) -> None:
        call = ToolExecutionRequest("1", "look_up", '{"query": "tea"}')
        (message,) = self.show(AiMessage("long " * 1000, [call, call]), most=100)
        assert message.calls == ['look_up(query="tea")'] * 2
        assert message.is_cut
        assert message.left_out == len("long " * 1000) - 100 + 2 * len('{\n  "query": "tea"\n}')

    def test_of_many_calls_the_first_are_named(self) -> None:
        (message,) = self.show(AiMessage(None, [ToolExecutionRequest(str(n), f"f{n}", "{}") for n in range(30)]))
        assert message.calls == [*(f"f{n}()" for n in range(10)), "…"]

    def test_a_tool_without_a_name(self) -> None:
        (message,) = self.show(AiMessage(None, [ToolExecutionRequest("1", "", "{}")]))
        assert message.calls == ["a tool without a name()"]

    def test_pictures_are_named(self) -> None:
        (message,) = self.show(UserMessage([ImageContent("https://example.com/a.png")]))
        assert message.beginning == "Image"


class TestDay:
    def test_is_short(self) -> None:
        year = timezone.now().year
        noon = datetime(year, 11, 17, 12, tzinfo=ZoneInfo("UTC"))
        assert short_day(noon) == "Nov 17"
        with translation.override("ja"):
            assert short_day(noon) == "11月17日"
        with translation.override("de"):
            assert short_day(noon) == "17. Nov"

    def test_has_its_year_if_that_is_another(self) -> None:
        assert short_day(datetime(2019, 3, 1, 12, tzinfo=ZoneInfo("UTC"))) == "March 1, 2019"
