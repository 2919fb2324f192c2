"""Connections that break while an answer is made, in a real browser: the chat finds back without a reload."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

import pytest

from chatmemory import AiMessage, ChatMessage, ToolExecutionRequest, UserMessage
from chatmemory.models import Conversation
from tests.support.assistants import Speaker, choose
from tests.support.browser import Pages, browser_thread, chromium, expect, new_page, no_double_click  # noqa: F401
from tests.support.cutting_proxy import WHOLE, Cut, CuttingProxy, cutting_proxy
from tests.support.factories import ConversationFactory
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

MOMENTS = int(os.environ.get("CHATMEMORY_TEST_EXAMPLES", "0")) or 6

ANSWER = "Once upon a **time** there was a 🍵 pot.\n\n- It was\n- blue and 小さい."
PIECES = [*re.findall(r"\S+\s*", ANSWER)]
SHOWN = "Once upon a time there was a 🍵 pot.It wasblue and 小さい."

LOST = "Connection lost. Reconnecting…"


@pytest.fixture
def proxy(live_server: Any) -> Iterator[CuttingProxy]:
    with cutting_proxy(live_server.url) as proxy:
        yield proxy


@pytest.fixture
def conversation(user: Any) -> Conversation:
    made: Conversation = ConversationFactory(owner=user, title="Tea", window="messages", limit=20)
    return made


@pytest.fixture
def open_page(proxy: CuttingProxy, settings: Any, api: Any, new_page: Pages) -> Callable[..., Any]:  # noqa: F811
    """Opens the chat of a conversation behind the proxy, as a user who is signed in."""
    settings.ROOT_URLCONF = "tests.support.chat_pages"
    page = new_page(base_url=proxy.address, viewport={"width": 1280, "height": 800})
    session = {"name": "sessionid", "value": api.cookies["sessionid"].value, "url": proxy.address}
    page.context.add_cookies([session])

    def open_(conversation: Conversation) -> Any:
        page.goto(f"/plain/{conversation.pk}/")
        page.locator("chatmemory-chat[data-ready]").wait_for()
        page.evaluate("window.sameAsBefore = true")
        return page

    return open_


@pytest.fixture
def speak() -> Iterator[Callable[..., None]]:
    """Lets the model answer from now on; it calls a function before the piece of a number."""

    def speak_(before: int = -1, do: Callable[[], object] = lambda: None, *, tool: bool = False) -> None:
        def answer(messages: Sequence[ChatMessage]) -> Iterator[Any]:
            if tool and isinstance(messages[-1], UserMessage):
                yield "Let me see."
                yield AiMessage("Let me see.", [ToolExecutionRequest("1", "look_up", '{"number": "7"}')])
                return
            for index, piece in enumerate(PIECES):
                if index == before:
                    do()
                yield piece
            if before == len(PIECES):
                do()
            yield AiMessage(ANSWER)

        choose(Speaker(answer))

    yield speak_
    choose(None)


def say(page: Any, text: str) -> None:
    page.get_by_label("Message", exact=True).fill(text)
    page.get_by_label("Message", exact=True).press("Enter")


def part(page: Any, name: str) -> Any:
    return page.locator(f"[data-part='{name}']")


def bubbles(page: Any) -> Any:
    return page.locator("[data-part='history'] .chatmemory-bubble")


def is_whole(page: Any, question: str, *before: str) -> None:
    """The page shows the question and the whole answer, without a reload, and nothing that is wrong."""
    expect(bubbles(page)).to_have_text([question, *before, SHOWN])
    page.get_by_role("button", name="Send").wait_for()
    for name in ("problem", "notice", "turn-problem", "turn-notice", "answering"):
        expect(part(page, name)).to_be_hidden()
    expect(page.get_by_label("Message", exact=True)).to_have_value("")
    assert page.evaluate("window.sameAsBefore")


def said(conversation: Conversation) -> list[str]:
    return [row.text for row in conversation.messages.history()]


def is_api(path: str) -> bool:
    return path.startswith("/api/")


class Moment:
    """One of the moments at which a connection may break, and what happens to the requests after that."""

    def __init__(self, seed: str) -> None:
        random = Random(seed)
        self.tool = random.random() < 0.4
        size = 4100 if self.tool else 2400  # bytes of the whole stream
        self.kind = random.choice(["bytes", "bytes", "piece", "piece while away", "request"])
        self.piece = random.randrange(len(PIECES) + 1)
        by = random.choice(["reset", "end"])
        first = {"bytes": Cut(after=random.randrange(size), by=by), "request": Cut(after=None)}.get(self.kind, WHOLE)
        self.cuts = [first]
        # What the page asks for then breaks, too.
        while random.random() < 0.4:
            after = random.choice([None, random.randrange(600), random.randrange(3000)])
            self.cuts.append(Cut(after=after, by=random.choice(["reset", "end"])))

    def __repr__(self) -> str:
        return f"{self.kind} {self.piece} {self.tool} {self.cuts}"


@pytest.mark.parametrize("number", range(MOMENTS))
def test_an_answer_is_whole_whenever_the_connection_breaks(
    open_page: Callable[..., Any],
    conversation: Conversation,
    proxy: CuttingProxy,
    speak: Callable[..., None],
    number: int,
) -> None:
    moment = Moment(f"moment {number}")
    page = open_page(conversation)
    cuts = iter(moment.cuts)
    is_back, is_answered = threading.Event(), threading.Event()
    has_begun = False

    def cut(method: str, path: str) -> Cut:
        nonlocal has_begun
        has_begun = has_begun or method == "POST"
        if not is_api(path) or not has_begun:
            return WHOLE
        if moment.kind == "piece while away" and method != "POST" and not is_answered.is_set():
            return Cut(after=None)
        if path.endswith("/stream/"):
            is_back.set()
        return next(cuts, WHOLE)

    def leave() -> None:
        if is_back.is_set():
            return  # it came back for another reason
        proxy.cut_all()
        if moment.kind == "piece":
            assert is_back.wait(60), "the page does not come back"

    proxy.cut = cut
    if moment.kind.startswith("piece"):
        speak(moment.piece, leave, tool=moment.tool)
    else:
        speak(tool=moment.tool)
    say(page, "Tell me a story")
    if moment.kind == "piece while away":
        expect(part(page, "answering")).to_contain_text(LOST)
        is_answered.set()
    is_whole(page, "Tell me a story", *["Let me see."][: moment.tool])
    tool = ["Let me see.", said(conversation)[2]] if moment.tool else []
    assert said(conversation) == ["Tell me a story", *tool, ANSWER]


class Break:
    """The model waits before the last piece of its answer, and may fail then. Meanwhile the connection may break."""

    def __init__(self, proxy: CuttingProxy, speak: Callable[..., None], *, fails: bool = False) -> None:
        self.proxy = proxy
        self.fails = fails
        self.model = threading.Event()
        speak(len(PIECES) - 1, self._wait)

    def _wait(self) -> None:
        assert self.model.wait(300), "the test does not let the model go on"
        if self.fails:
            raise ConnectionError("secret host")

    def cut(self, page: Any) -> None:
        """Break it once the page shows what there is, and let nothing pass from now on."""
        expect(part(page, "answering")).to_contain_text("blue")
        self.proxy.cut = lambda method, path: Cut(after=None)
        self.proxy.cut_all()
        expect(part(page, "answering")).to_contain_text(LOST)

    def heal(self) -> None:
        self.proxy.cut = lambda method, path: WHOLE


def test_the_words_stay_until_the_whole_answer_is_there(
    open_page: Callable[..., Any], conversation: Conversation, proxy: CuttingProxy, speak: Callable[..., None]
) -> None:
    page = open_page(conversation)
    broken = Break(proxy, speak)
    say(page, "Tell me a story")
    broken.cut(page)
    answering = part(page, "answering")
    expect(answering.locator("strong")).to_have_text("time")
    expect(part(page, "status")).to_contain_text(LOST)
    expect(page.get_by_role("alert")).to_have_count(0)
    broken.heal()
    expect(answering).to_contain_text("Answering …")
    expect(answering.locator("strong")).to_have_text("time")
    broken.model.set()
    is_whole(page, "Tell me a story")
    expect(part(page, "status")).to_contain_text("Model: Once upon")


@pytest.mark.usefixtures("speak")  # it chooses the usual model afterwards
def test_words_that_are_stored_meanwhile_are_not_shown_twice(
    open_page: Callable[..., Any], conversation: Conversation, proxy: CuttingProxy
) -> None:
    call, go_on = threading.Event(), threading.Event()

    def answer(messages: Sequence[ChatMessage]) -> Iterator[Any]:
        if isinstance(messages[-1], UserMessage):
            yield "Let me see."
            assert call.wait(300)
            yield AiMessage("Let me see.", [ToolExecutionRequest("1", "look_up", '{"number": "7"}')])
        else:
            assert go_on.wait(300)
            yield ANSWER
            yield AiMessage(ANSWER)

    choose(Speaker(answer))
    page = open_page(conversation)
    say(page, "Tell me a story")
    expect(part(page, "answering")).to_have_text("Let me see.")
    proxy.cut = lambda method, path: Cut(after=None)
    proxy.cut_all()
    expect(part(page, "answering")).to_contain_text(LOST)
    call.set()
    wait_until(lambda: len(said(conversation)) == 3, "the tool's result is not stored")
    proxy.cut = lambda method, path: WHOLE
    expect(bubbles(page)).to_have_text(["Tell me a story", "Let me see."])
    expect(part(page, "answering")).to_have_text("Answering …")
    go_on.set()
    is_whole(page, "Tell me a story", "Let me see.")


def test_a_connection_that_is_dead_without_a_sign(
    open_page: Callable[..., Any], conversation: Conversation, proxy: CuttingProxy, speak: Callable[..., None]
) -> None:
    page = open_page(conversation)
    page.clock.install()
    proxy.cut = lambda method, path: Cut(after=2000, by="silence") if method == "POST" else WHOLE
    speak()
    say(page, "Tell me a story")
    expect(part(page, "answering").locator("strong")).to_have_text("time")
    page.clock.fast_forward(46_000)
    is_whole(page, "Tell me a story")


def test_a_browser_that_is_online_again_waits_no_longer(
    open_page: Callable[..., Any], conversation: Conversation, proxy: CuttingProxy, speak: Callable[..., None]
) -> None:
    page = open_page(conversation)
    page.clock.install()
    broken = Break(proxy, speak)
    say(page, "Tell me a story")
    broken.cut(page)
    page.context.set_offline(True)
    page.clock.pause_at(page.evaluate("Date.now() + 3600000"))  # an hour in a tunnel
    broken.heal()
    broken.model.set()
    page.context.set_offline(False)
    is_whole(page, "Tell me a story")


def test_what_failed_while_nobody_saw_it_says_so(
    open_page: Callable[..., Any],
    conversation: Conversation,
    proxy: CuttingProxy,
    speak: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    page = open_page(conversation)
    broken = Break(proxy, speak, fails=True)
    say(page, "Tell me a story")
    broken.cut(page)
    broken.model.set()
    broken.heal()
    page.get_by_role("button", name="again").wait_for()
    speak()
    page.reload()
    notice = part(page, "turn-notice")
    expect(notice).to_contain_text("Not answered.")
    assert notice.bounding_box()["y"] - bottom_of(bubbles(page).last) < 40
    page.evaluate("window.sameAsBefore = true")
    page.get_by_role("button", name="Ask again").click()
    is_whole(page, "Tell me a story")
    assert said(conversation) == ["Tell me a story", ANSWER]


def bottom_of(element: Any) -> float:
    box = element.bounding_box()
    return float(box["y"] + box["height"])


def test_stop_reaches_the_server_when_the_connection_is_back(
    open_page: Callable[..., Any], conversation: Conversation, proxy: CuttingProxy, speak: Callable[..., None]
) -> None:
    page = open_page(conversation)
    broken = Break(proxy, speak)
    say(page, "Tell me a story")
    broken.cut(page)
    no_double_click(page)
    page.get_by_role("button", name="Stop").click()
    expect(part(page, "answering")).to_contain_text("will be stopped")
    broken.heal()
    expect(part(page, "history").get_by_text("Stopped", exact=True)).to_be_visible()
    expect(part(page, "turn-notice")).to_be_hidden()
    broken.model.set()
    [question, answer] = said(conversation)
    assert question == "Tell me a story"
    assert answer
    assert ANSWER.startswith(answer)


def test_trying_again_while_the_own_answer_is_made_follows_it(
    open_page: Callable[..., Any], conversation: Conversation, speak: Callable[..., None]
) -> None:
    page = open_page(conversation)
    go_on = threading.Event()
    speak(len(PIECES) - 1, lambda: go_on.wait(60))
    page.route("**/turns/", lambda route: route.fulfill(status=500) if is_stop(route) else route.continue_())
    say(page, "Tell me a story")
    expect(part(page, "answering")).to_contain_text("blue")
    no_double_click(page)
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("alert")).to_contain_text("500")
    with page.expect_request("**/turns/stream/"):
        page.get_by_role("button", name="Try again").click()
    go_on.set()
    is_whole(page, "Tell me a story")
    assert said(conversation) == ["Tell me a story", ANSWER]


def is_stop(route: Any) -> bool:
    return str(route.request.method) == "DELETE"


def test_older_messages_that_cannot_be_read_say_so_where_they_would_be(
    open_page: Callable[..., Any], conversation: Conversation
) -> None:
    for number in range(40):
        conversation.memory.add(UserMessage(f"Question {number}"), AiMessage("line\n\n" * 5))
    page = open_page(conversation)
    page.route("**/messages/*", lambda route: route.abort())
    part(page, "scroller").evaluate("box => box.scrollTo(0, 0)")
    problem = part(page, "older-problem")
    expect(problem).to_contain_text("The site does not answer")
    expect(problem).to_be_in_viewport()
    page.unroute("**/messages/*")
    page.get_by_role("button", name="Show older messages").click()
    expect(problem).to_be_hidden()
    expect(page.locator("[data-position='20']")).to_have_count(1)


def test_who_signs_in_again_elsewhere_gets_the_answer_that_is_made(
    open_page: Callable[..., Any], conversation: Conversation, proxy: CuttingProxy, speak: Callable[..., None]
) -> None:
    page = open_page(conversation)
    broken = Break(proxy, speak)
    say(page, "Tell me a story")
    broken.cut(page)
    cookies = page.context.cookies()
    page.context.clear_cookies()
    broken.heal()
    expect(page.get_by_role("alert")).to_contain_text("You are signed out.")
    page.context.add_cookies(cookies)
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(part(page, "answering")).to_contain_text("Answering …")
    broken.model.set()
    is_whole(page, "Tell me a story")
