"""A page by assistant-ui with the runtime that docs/rest.md shows: it has the branches of the server."""

# ruff: noqa: F811 - fixtures that are imported

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from chatmemory.models import Conversation
from tests.support.ai_sdk import FOLDER, bundled, node_modules  # noqa: F401
from tests.support.browser import Pages, browser_thread, chromium, expect, new_page  # noqa: F401
from tests.support.cutting import wait_until_alone
from tests.support.factories import ConversationFactory, UserFactory
from tests.support.paths import ROOT
from tests.support.server import run_server

pytestmark = [pytest.mark.npm, pytest.mark.django_db(transaction=True)]

_DOCUMENTED = """
import { AssistantChatTransport, useChatRuntime } from "@assistant-ui/react-ai-sdk";

const conversation = `/api/conversations/${document.body.dataset.conversation}/`;
const headers = { "X-CSRFToken": document.body.dataset.csrf };
SETUP
export function useConversation() {
  RUNTIME
  return runtime;
}
export const versionSeen = () => version;
"""


@pytest.fixture(scope="module")
def bundle(node_modules: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page's script."""
    blocks = re.findall(r"^```js\n(.*?)^```$", (ROOT / "docs" / "rest.md").read_text("utf-8"), re.M | re.S)
    [shown] = [block for block in blocks if "useChatRuntime(" in block]
    setup, runtime = shown.split("const runtime = ")
    folder = tmp_path_factory.mktemp("page")
    documented = folder / "documented.js"
    documented.write_text(_DOCUMENTED.replace("SETUP", setup).replace("RUNTIME", f"const runtime = {runtime}"), "utf-8")
    page = FOLDER / "page" / "assistant_ui.jsx"
    return bundled(node_modules, page, folder / "page.js", f"--alias:documented={documented}")


@pytest.fixture
def conversation(transactional_db: None) -> Conversation:
    conversation: Conversation = ConversationFactory(owner=UserFactory(), window="messages", limit=50)
    return conversation


@pytest.fixture
def page(
    conversation: Conversation, bundle: Path, new_page: Pages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """The page of the owner of the conversation."""
    monkeypatch.setenv("CHATMEMORY_TEST_BUNDLE", str(bundle))
    client = Client()
    client.force_login(conversation.owner)
    with run_server(tmp_path / "log", "tests.settings.use_chat") as port:
        address = f"http://127.0.0.1:{port}"
        page = new_page(storage_state=None)
        page.context.add_cookies([{"name": "sessionid", "value": client.cookies["sessionid"].value, "url": address}])
        page.goto(f"{address}/chat/{conversation.pk}/")
        yield page
    wait_until_alone()


def said(page: Any) -> Any:
    return page.locator("article")


def button(page: Any, name: str, at: int) -> Any:
    return page.locator(f"section:nth-of-type({at + 1})").get_by_role("button", name=name)


def say(page: Any, text: str) -> None:
    page.get_by_label("Message").last.fill(text)
    page.get_by_role("button", name="Send").last.click()


def edit(page: Any, at: int, text: str) -> None:
    button(page, "Edit", at).click()
    page.get_by_label("Message").first.fill(text)
    page.get_by_role("button", name="Send").first.click()


def on_server(conversation: Conversation) -> list[tuple[str, str]]:
    """The texts of the current branch, each with its number among the messages that follow the same one."""
    tree = conversation.tree()
    texts = dict(conversation.messages.history().values_list("position", "text"))
    siblings = {position: [*tree.siblings(position)] for position in tree.path()}
    return [(texts[each], f"{all_.index(each) + 1}/{len(all_)}") for each, all_ in siblings.items()]


def shows(page: Any, *messages: tuple[str, str]) -> None:
    """The page shows these texts and numbers, and no turn is running."""
    texts = [text for text, _ in messages]
    expect(said(page)).to_have_text(texts)
    expect(page.locator("main")).to_have_attribute("data-running", "false")
    numbers = page.locator("section").evaluate_all("all => all.map(one => one.dataset.number)")
    assert numbers == [number for _, number in messages]


def test_a_page_has_the_branches_of_the_server(page: Any, conversation: Conversation) -> None:
    one = [("One", "1/1"), ("You said One 🎉", "1/1")]
    say(page, "One")
    shows(page, *one)
    say(page, "Two")
    shows(page, *one, ("Two", "1/1"), ("You said Two 🎉", "1/1"))

    edit(page, 2, "Three")
    shows(page, *one, ("Three", "2/2"), ("You said Three 🎉", "1/1"))
    button(page, "Reload", 3).click()
    expect(page.locator("section").nth(3)).to_contain_text("2/2")
    three = [*one, ("Three", "2/2"), ("You said Three 🎉", "2/2")]
    shows(page, *three)
    assert on_server(conversation) == three

    # The server switches with the next message.
    button(page, "Previous", 2).click()
    shows(page, *one, ("Two", "1/2"), ("You said Two 🎉", "1/1"))
    assert on_server(conversation) == three
    say(page, "Four")
    four = [*one, ("Two", "1/2"), ("You said Two 🎉", "1/1"), ("Four", "1/1"), ("You said Four 🎉", "1/1")]
    shows(page, *four)
    assert on_server(conversation) == four

    page.reload()
    shows(page, *four)
    button(page, "Next", 2).click()
    five = [*one, ("Three", "2/2"), ("You said Three 🎉", "1/2")]
    shows(page, *five)
    say(page, "Five")
    five += [("Five", "1/1"), ("You said Five 🎉", "1/1")]
    shows(page, *five)
    assert on_server(conversation) == five

    button(page, "Reload", 1).click()
    expect(page.locator("section").nth(1)).to_contain_text("2/2")
    shows(page, ("One", "1/1"), ("You said One 🎉", "2/2"))
    edit(page, 0, "Six")
    six = [("Six", "2/2"), ("You said Six 🎉", "1/1")]
    shows(page, *six)
    assert on_server(conversation) == six
    page.reload()
    shows(page, *six)
    button(page, "Previous", 0).click()
    shows(page, ("One", "1/2"), ("You said One 🎉", "1/2"), *four[2:])
