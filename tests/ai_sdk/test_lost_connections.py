"""Pages by ``useChat`` and assistant-ui that edit and regenerate, while their connections are cut at random moments.

A page does what people do: it tries again until there is an answer, or is loaded anew. Nothing may be said or answered
twice, and the page shows what the server has. ``CHATMEMORY_TEST_PAGES`` is the number of conversations, and
``CHATMEMORY_TEST_SEED`` the seed of the first one.
"""

# ruff: noqa: F811 - fixtures that are imported

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from django.test import Client

from chatmemory.models import Conversation
from tests.ai_sdk.test_assistant_ui import bundle as assistant_ui  # noqa: F401
from tests.support.ai_sdk import bundled, node_modules  # noqa: F401
from tests.support.browser import Pages, browser_thread, chromium, expect, new_page  # noqa: F401
from tests.support.cutting import wait_until_alone
from tests.support.cutting_proxy import WHOLE, Cut, CuttingProxy, cutting_proxy
from tests.support.factories import ConversationFactory, UserFactory
from tests.support.paths import ROOT
from tests.support.server import HttpClient, run_server

pytestmark = [pytest.mark.npm, pytest.mark.django_db(transaction=True)]

CONVERSATIONS = int(os.environ.get("CHATMEMORY_TEST_PAGES", "10"))
FIRST_SEED = int(os.environ.get("CHATMEMORY_TEST_SEED", "0"))
STEPS = 6
CUTS = 3
"""The most connections that are cut in one step."""

ATTEMPTS = 500

_PAGE = """
import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport } from "ai";
import { createRoot } from "react-dom/client";

const { conversation, csrf } = document.body.dataset;
const turns = `/api/conversations/${conversation}/turns/`;
const headers = { "X-CSRFToken": csrf };
let { messages: said, version } = await (await fetch(turns)).json();
SETUP
function Chat() {
  CHAT
  window.chat = chat;
  return <main data-status={chat.status}>{chat.messages.length}</main>;
}

window.act = async ([name, asked, stopAfter]) => {
  const before = version;
  if (stopAfter !== null) setTimeout(() => window.chat.stop(), stopAfter);
  await window.chat[name](asked);
  return version !== before; // whether the response has arrived as a whole
};
createRoot(document.getElementById("root")).render(<Chat />);
"""


@pytest.fixture(scope="module")
def use_chat(node_modules: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The script of a page with what docs/rest.md shows."""
    blocks = re.findall(r"^```js\n(.*?)^```$", (ROOT / "docs" / "rest.md").read_text("utf-8"), re.M | re.S)
    [shown] = [block for block in blocks if "useChat(" in block]
    setup, chat = shown.split("const chat = ")
    folder = tmp_path_factory.mktemp("page")
    (folder / "page.jsx").write_text(_PAGE.replace("SETUP", setup).replace("CHAT", f"const chat = {chat}"), "utf-8")
    return bundled(node_modules, folder / "page.jsx", folder / "page.js")


@pytest.fixture(params=["use_chat", "assistant_ui"])
def site(
    request: pytest.FixtureRequest, transactional_db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[int]:
    """The port of a site with one of the pages."""
    monkeypatch.setenv("CHATMEMORY_TEST_BUNDLE", str(request.getfixturevalue(request.param)))
    with run_server(tmp_path / "log", "tests.settings.use_chat") as port:
        yield port
    wait_until_alone()


class Talk:
    """A page with a conversation, and what is expected of both."""

    def __init__(self, page: Any, site: int, proxy: CuttingProxy, conversation: Conversation, chance: Random) -> None:
        self.page, self.proxy, self.conversation, self.chance = page, proxy, conversation, chance
        self.idle = HttpClient(site, "", "").wait_until_idle
        self.cuts_left = 0
        self.log: list[Any] = []
        """What has happened in this step."""
        proxy.cut = self.cut
        self.load()

    def load(self) -> None:
        # What is on its way would be no repeated request if it came after what is said on the new page.
        self.idle()
        self.cuts_left = 0
        self.log.append("load")
        self.page.goto(f"{self.proxy.address}/chat/{self.conversation.pk}/")
        expect(self.page.locator("main")).to_be_attached()

    def cut(self, method: str, path: str) -> Cut:
        if method != "POST" or not self.cuts_left or self.chance.random() < 0.3:
            return WHOLE
        self.cuts_left -= 1
        after = self.chance.choice([None, *(self.chance.randrange(3000) for _ in range(5))])
        cut = Cut(after=after, by=self.chance.choice(["reset", "end"]))
        self.log.append(cut)
        return cut

    def act(self, name: str, asked: dict[str, Any]) -> bool:
        """Call a function of ``useChat``, at times stop it, and return whether its response arrived as a whole."""
        stop_after = None
        if self.cuts_left and self.chance.random() < 0.2:
            self.cuts_left -= 1
            stop_after = self.chance.randrange(60)  # milliseconds
        done: bool = self.page.evaluate("act", [name, asked, stop_after])
        self.log.append((name, asked, stop_after, done))
        return done

    def shown(self) -> list[dict[str, Any]]:
        shown: list[dict[str, Any]] = self.page.evaluate(
            """() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(
                chat.messages.map(({ id, role, parts }) => ({
                    id, role, text: parts.filter(part => part.type === "text").map(part => part.text).join("|")
                }))))))"""
        )
        return shown

    def step(self, number: int) -> None:
        """Say, edit or regenerate something, until there is an answer."""
        before = self.conversation.tree()
        path = before.path()
        kind = self.chance.choice(["send", "edit", "last answer", "an answer"] if path else ["send"])
        at = {"send": len(path), "last answer": len(path) - 1}.get(kind, 0)
        if kind in ("edit", "an answer"):
            at = self.chance.randrange(0 if kind == "edit" else 1, len(path), 2)
        text = f"again {number}"
        edited = self.shown()[at]["id"] if kind == "edit" else None

        def ask() -> bool:
            ids = [message["id"] for message in self.shown()]
            if kind == "send":
                return self.act("sendMessage", {"text": text})
            if kind == "edit":
                return self.act("sendMessage", {"text": text, "messageId": ids[at]})
            return self.act("regenerate", {"messageId": ids[at]} if kind == "an answer" else {})

        self.cuts_left = self.chance.randrange(CUTS + 1)
        done = ask()
        for _ in range(ATTEMPTS):
            if done:
                break
            if self.chance.random() < 0.2:
                self.load()
                shown = self.shown()
                if shown and shown[-1]["role"] == "user":
                    done = self.act("regenerate", {})
                elif self.conversation.tree().head == before.head:
                    done = ask()
                else:
                    break
            elif edited in [message["id"] for message in self.shown()] and self.chance.random() < 0.5:
                done = ask()  # in useChat, an edited message keeps its ID
            else:
                done = self.act("regenerate", {})
        else:
            pytest.fail(f"it is never answered: {self.log}")

        tree = self.conversation.tree()
        new = {position: parent for position, parent in tree.parents.items() if position not in before.parents}
        parent = path[at - 1] if at else None
        *asked, answer = new
        assert len(asked) == (kind in ("send", "edit")), (self.log, new)
        assert new == ({asked[0]: parent, answer: asked[0]} if asked else {answer: parent}), (self.log, new)
        assert tree.head == answer, self.log
        assert {**tree.parents, **before.parents} == tree.parents
        self.check()

    def check(self) -> None:
        """The page shows what the server has."""
        client = Client()
        client.force_login(self.conversation.owner)
        turns = client.get(f"/api/conversations/{self.conversation.pk}/turns/").json()["messages"]
        stored = [(message["role"], "".join(part.get("text", "") for part in message["parts"])) for message in turns]
        shown = self.shown()
        assert [(message["role"], message["text"]) for message in shown] == stored, self.log
        assert [each["id"] for each in shown[1::2]] == [each["id"] for each in turns[1::2]]
        texts = dict(self.conversation.messages.history().values_list("position", "text"))
        assert [text for _, text in stored] == [texts[position] for position in self.conversation.tree().path()]


def test_nothing_is_said_or_answered_twice(site: int, new_page: Pages) -> None:
    owner = UserFactory()
    client = Client()
    client.force_login(owner)
    page = new_page(storage_state=None)
    with cutting_proxy(f"http://127.0.0.1:{site}") as proxy:
        session = {"name": "sessionid", "value": client.cookies["sessionid"].value, "url": proxy.address}
        page.context.add_cookies([session])
        for seed in range(FIRST_SEED, FIRST_SEED + CONVERSATIONS):
            conversation = ConversationFactory(owner=owner, window="messages", limit=50)
            talk = Talk(page, site, proxy, conversation, Random(seed))
            for number in range(STEPS):
                talk.log = [seed, number]
                talk.step(number)
            talk.load()
            talk.check()
