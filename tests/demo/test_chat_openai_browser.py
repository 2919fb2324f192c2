"""The demo's chat in a real browser, with a model behind OpenAI's protocol."""

# ruff: noqa: F811 - fixtures that are imported

from __future__ import annotations

import json
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.demo.test_command import Demo
from tests.support.browser import Pages, browser_thread, chromium, expect, new_page, no_double_click  # noqa: F401
from tests.support.demo_browser import (  # noqa: F401
    MODELS,
    answered,
    bubbles,
    cookies,
    demo,
    history_of,
    open_chat,
    ready,
    say,
    served,
    site,
)
from tests.support.openai_server import ModelServer, calls, says

pytestmark = pytest.mark.browser

NAME_IT = """() => {
    const { api } = document.querySelector("chatmemory-chat").panel;
    return api.call("PATCH", "", { body: { title: "Named" } });
}"""


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    server = ModelServer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def site_of_model(
    demo: Demo, cookies: Any, server: ModelServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    other = Demo(tmp_path_factory.mktemp("model"))
    with closing(sqlite3.connect(demo.database)) as source, closing(sqlite3.connect(other.database)) as target:
        source.backup(target)
    values = ("tiny", "secret", server.url)
    other.environment |= dict(zip(MODELS, values, strict=True))
    with served(other) as address:
        yield address


class TestModelServer:
    """The same page, and a model behind OpenAI's protocol."""

    @pytest.fixture
    def page(self, open_chat: Callable[..., Any], site_of_model: str) -> Any:
        """A chat with a title, so that the model is not asked for one."""
        page = open_chat(site_of_model)
        page.evaluate(NAME_IT)
        return page

    def test_it_streams(self, page: Any, server: ModelServer, new_page: Pages) -> None:
        go_on = threading.Event()
        server.stream(says("Hello, ", "Ann", "!"), wait_for=go_on)
        page.get_by_label("Message", exact=True).fill("I am Ann")
        page.get_by_label("Message", exact=True).press("Enter")
        expect(page.locator("[data-part='answering']")).to_have_text("Hello, Ann!")
        expect(bubbles(page)).to_have_count(1)
        go_on.set()
        answered(page, 2)
        expect(page.locator("chatmemory-chat [data-part='status']")).to_have_text("Model: Hello, Ann!")
        expect(page.get_by_text("Model: tiny at 127.0.0.1")).to_be_visible()
        assert new_page.problems == []

    def test_it_calls_tools(self, page: Any, server: ModelServer) -> None:
        server.stream(calls(("a", "look_up_order", '{"number": "1001"}'), ("b", "look_up_order", '{"number": "77"}')))
        server.stream(says("One is on its way."))
        say(page, "Where are orders 1001 and 77?")
        expect(page.locator("[data-part='history'] .chatmemory-tool")).to_have_text(
            [
                "look_up_order Order 1001: a blue teapot, on its way, arrives on Friday.",
                re.compile("^look_up_order Failed There is no order 77"),
            ]
        )

    def test_a_failure_is_shown_and_trying_again_duplicates_nothing(self, page: Any, server: ModelServer) -> None:
        server.stream(calls(("a", "look_up_order", '{"number": "1001"}')))
        server.fail(500, "out of memory")
        server.break_off(says("Twel", finish=None))
        server.stream(says("Twelve."))
        page.get_by_label("Message", exact=True).fill("Where is order 1001?")
        page.get_by_role("button", name="Send").click()
        alert = page.get_by_role("alert")
        expect(alert).to_contain_text("out of memory")
        expect(bubbles(page)).to_have_count(1)
        with page.expect_response("**/turns/") as again:
            page.get_by_role("button", name="Try again").click()
        again.value.finished()
        expect(alert).to_contain_text("broke off")

        page.reload()
        ready(page)
        expect(page.locator("[data-part='turn-notice']")).to_contain_text("Not answered.")
        page.get_by_role("button", name="Ask again").click()
        answered(page, 2)
        expect(bubbles(page).last).to_contain_text("Twelve.")
        assert [item["type"] for item in history_of(page)] == ["SYSTEM", "USER", "AI", "TOOL_EXECUTION_RESULT", "AI"]
        assert json.dumps(history_of(page)).count("Twel") == 2, "text and message of one"

    def test_an_answer_can_be_stopped(self, page: Any, server: ModelServer) -> None:
        go_on = threading.Event()
        server.stream(says("Once ", "upon ", "a time"), wait_for=go_on)
        page.get_by_label("Message", exact=True).fill("Tell me a story")
        page.get_by_label("Message", exact=True).press("Enter")
        expect(page.locator("[data-part='answering']")).to_contain_text("Once")
        no_double_click(page)
        page.get_by_role("button", name="Stop").click()
        expect(page.locator("[data-part='message']")).to_be_focused()
        answered(page, 2)
        expect(page.locator("[data-part='history']").get_by_text("Stopped", exact=True)).to_be_visible()
        expect(page.locator("[data-part='turn-notice']")).to_be_hidden()
        answer = history_of(page)[-1]["message"]
        assert answer["attributes"] == {"stopped": True}
        expect(bubbles(page).last).to_have_text(answer["text"].strip())
        go_on.set()

    def test_an_answer_that_is_cut_off_is_marked(self, page: Any, server: ModelServer) -> None:
        server.stream(says("Once upon", finish="length"))
        say(page, "Tell me a story")
        expect(bubbles(page).last).to_have_text("Once upon")
        expect(page.get_by_text("Cut off: the model's limit was reached")).to_be_visible()

    def test_it_names_the_chat(self, open_chat: Callable[..., Any], site_of_model: str, server: ModelServer) -> None:
        page = open_chat(site_of_model)
        server.stream(says("Hello, Ann!"))
        server.stream(says("Ann says hello"))
        say(page, "I am Ann")
        expect(page.get_by_role("heading", name="Ann says hello")).to_be_visible()
        expect(page.locator("chatmemory-conversations [aria-current] bdi")).to_have_text("Ann says hello")
        expect(page).to_have_title("Ann says hello · chatmemory")
