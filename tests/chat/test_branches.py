"""Branches in a chat: questions that are changed, other answers and the way between them, in a real browser."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random
from typing import Any

import pytest

from chatmemory import AiMessage, ChatMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory.branches.tree import read_tree
from chatmemory.models import Branch, Conversation
from tests.chat.test_panel_browser import PHONE, WIDE, bubbles, open_page, part, say, speak  # noqa: F401
from tests.support.assistants import Speaker, choose, text_of
from tests.support.browser import (  # noqa: F401
    Pages,
    axe_violations,
    browser_thread,
    chromium,
    expect,
    new_page,
    no_double_click,
)
from tests.support.cutting_proxy import WHOLE, Cut, cutting_proxy
from tests.support.factories import ConversationFactory
from tests.support.waiting import wait_until

# ruff: noqa: F811 (fixtures of another module)

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

RUNS = int(os.environ.get("CHATMEMORY_TEST_EXAMPLES", "0")) or 6


@pytest.fixture
def conversation(user: Any) -> Conversation:
    made: Conversation = ConversationFactory(owner=user, title="Tea", window="messages", limit=20)
    return made


@pytest.fixture(autouse=True)
def numbered() -> Iterator[None]:
    """Lets the model number its answers."""
    count = 0

    def answer(messages: Sequence[ChatMessage]) -> Iterator[Any]:
        nonlocal count
        count += 1
        question = next(each for each in reversed(messages) if isinstance(each, UserMessage))
        text = f"Answer {count} to {text_of(question)}."
        yield text[:7]
        yield text[7:]
        yield AiMessage(text)

    choose(Speaker(answer))
    yield
    choose(None)


def talk(conversation: Conversation, *questions: str, lines: int = 0) -> None:
    for question in questions:
        conversation.memory.add(
            UserMessage(question), AiMessage(f"Old answer to {question}." + "\n\nAnd more." * lines)
        )


def entry(page: Any, position: int) -> Any:
    return page.locator(f"[data-part='history'] > [data-position='{position}']")


def edit(page: Any, position: int, text: str) -> None:
    entry(page, position).get_by_role("button", name="Edit").click()
    page.get_by_label("Edit message").fill(text)
    page.get_by_label("Edit message").press("Enter")


def again(page: Any, position: int) -> None:
    entry(page, position).get_by_role("button", name="Answer again").click()


def shows(page: Any, *texts: str) -> None:
    """The page shows these messages and nothing that is wrong, and waits for the user."""
    expect(bubbles(page)).to_have_text(list(texts))
    page.get_by_role("button", name="Send").wait_for()
    for name in ("problem", "notice", "turn-problem", "turn-notice", "answering"):
        expect(part(page, name)).to_be_hidden()
    expect(page.locator("[data-part^='branch-']:visible")).to_have_count(0)


def texts_of_server(conversation: Conversation) -> list[str]:
    """What the questions and answers of the current branch say."""
    path = read_tree(Conversation.objects.get(pk=conversation.pk)).path()
    rows = conversation.messages.history().filter(position__in=path, type__in=("USER", "AI"))
    return [row.text for row in rows if row.text]


def is_of_server(page: Any, conversation: Conversation) -> None:
    """The page shows the current branch of the server, with the versions of each message; so it does after a reload."""
    tree = read_tree(Conversation.objects.get(pk=conversation.pk))
    versions = [
        f"{tree.siblings(position).index(position) + 1}/{len(tree.siblings(position))}"
        for position in tree.path()
        if len(tree.siblings(position)) > 1
    ]
    shown = texts_of_server(conversation)
    for is_last in (False, True):
        expect(bubbles(page)).to_have_text(shown)
        expect(page.locator("[data-part='history'] > li:visible")).to_have_count(len(tree.path()))
        expect(page.locator(".chatmemory-pager")).to_have_text([f"‹{version}›" for version in versions])
        if not is_last:
            page.reload()
            page.locator("chatmemory-chat[data-ready]").wait_for()


def test_any_question_is_changed(open_page: Callable[..., Any], conversation: Conversation, new_page: Pages) -> None:
    talk(conversation, "one", "two", "three")
    page = open_page(f"/panel/{conversation.pk}/")
    edit(page, 4, "3")
    shows(page, "one", "Old answer to one.", "two", "Old answer to two.", "3", "Answer 1 to 3.")
    expect(page.get_by_label("Message", exact=True)).to_be_focused()
    is_of_server(page, conversation)
    edit(page, 2, "2")
    shows(page, "one", "Old answer to one.", "2", "Answer 2 to 2.")
    edit(page, 0, "1")
    shows(page, "1", "Answer 3 to 1.")
    expect(page.locator("[data-part='retained'] > li:not(.is-leaving)")).to_have_count(2)
    is_of_server(page, conversation)
    assert Branch.objects.filter(conversation=conversation).count() == 4
    assert new_page.problems == []


def test_the_box_sends_with_enter_and_closes_with_escape(
    open_page: Callable[..., Any], conversation: Conversation
) -> None:
    talk(conversation, "one", "two")
    page = open_page(f"/plain/{conversation.pk}/")
    pencil = entry(page, 0).get_by_role("button", name="Edit")
    pencil.press("Enter")
    box = page.get_by_label("Edit message")
    expect(box).to_be_focused()
    expect(box).to_have_value("one")
    box.press("End")
    box.press("Shift+Enter")
    box.type("more")
    box.press("Escape")
    expect(box).to_have_count(0)
    expect(pencil).to_be_focused()
    shows(page, "one", "Old answer to one.", "two", "Old answer to two.")
    pencil.press("Enter")
    expect(box).to_have_value("one")
    box.fill(" ")
    box.press("Enter")
    expect(box).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    expect(pencil).to_be_focused()
    assert not Branch.objects.exists()


def test_another_answer(open_page: Callable[..., Any], conversation: Conversation, new_page: Pages) -> None:
    talk(conversation, "one", "two")
    page = open_page(f"/plain/{conversation.pk}/")
    again(page, 3)
    shows(page, "one", "Old answer to one.", "two", "Answer 1 to two.")
    expect(page.get_by_role("group", name="Version 2 of 2")).to_be_visible()
    again(page, 1)
    shows(page, "one", "Answer 2 to one.")
    is_of_server(page, conversation)
    assert new_page.problems == []


def test_switching_there_and_back(open_page: Callable[..., Any], conversation: Conversation, new_page: Pages) -> None:
    talk(conversation, "one", "two")
    page = open_page(f"/panel/{conversation.pk}/")
    before = part(page, "retained").inner_text()
    again(page, 1)
    shows(page, "one", "Answer 1 to one.")
    again(page, 4)
    shows(page, "one", "Answer 2 to one.")
    pager = page.locator(".chatmemory-pager")
    expect(pager).to_have_text("‹3/3›")
    expect(pager.get_by_role("button", name="Next version")).to_be_disabled()
    pager.get_by_role("button", name="Previous version").press("Enter")
    shows(page, "one", "Answer 1 to one.")
    expect(pager.get_by_role("button", name="Previous version")).to_be_focused()
    page.keyboard.press("Enter")
    shows(page, "one", "Old answer to one.", "two", "Old answer to two.")
    expect(pager.get_by_role("button", name="Next version")).to_be_focused()  # the other one is disabled
    expect(page.get_by_role("group", name="Version 1 of 3")).to_be_visible()
    assert part(page, "retained").inner_text() == before
    is_of_server(page, conversation)
    assert new_page.problems == []


def top_of(element: Any) -> float:
    return float(element.bounding_box()["y"])


@pytest.mark.parametrize("lines", [40, 0], ids=["long", "short"])
def test_a_message_stays_where_it_is_while_others_come_below_it(
    open_page: Callable[..., Any], conversation: Conversation, lines: int
) -> None:
    talk(conversation, "zero", *map(str, range(20)), lines=lines)
    page = open_page(f"/plain/{conversation.pk}/", reduced_motion="reduce")
    edit(page, 38, "other")
    expect(bubbles(page).last).to_have_text("Answer 1 to other.")
    question = bubbles(page).filter(has_text="other").first
    for name, text in [("Previous", "18"), ("Next", "other"), ("Previous", "18")]:
        page.get_by_role("button", name="Send").wait_for()
        before = top_of(question)
        page.get_by_role("button", name=f"{name} version").click()
        question = bubbles(page).get_by_text(text, exact=True)
        expect(question).to_be_visible()
        page.locator(f".chatmemory-pager :focus.is-{'next' if name == 'Previous' else 'previous'}-version").wait_for()
        assert abs(top_of(question) - before) < 2
    # What is empty below is gone with the next message.
    say(page, "More")
    expect(bubbles(page).last).to_have_text("Answer 2 to More.")


def test_what_comes_back_counts_as_remembered(open_page: Callable[..., Any], conversation: Conversation) -> None:
    conversation.memory.set_window(window="messages", limit=4)
    talk(conversation, "one", "two", "three")
    page = open_page(f"/panel/{conversation.pk}/", reduced_motion="reduce")
    expect(entry(page, 0)).to_contain_text("Forgotten")
    edit(page, 2, "2")
    shows(page, "one", "Old answer to one.", "2", "Answer 1 to 2.")
    kept = page.locator("[data-part='retained'] .chatmemory-text")
    expect(kept).to_have_text(["one", "Old answer to one.", "2", "Answer 1 to 2."])
    expect(part(page, "history").get_by_text("Forgotten")).to_have_count(0)
    expect(part(page, "forgotten")).to_be_hidden()
    say(page, "3")  # and what came back is forgotten once more
    shows(page, "one", "Old answer to one.", "2", "Answer 1 to 2.", "3", "Answer 2 to 3.")
    expect(kept).to_have_text(["2", "Answer 1 to 2.", "3", "Answer 2 to 3."])
    expect(entry(page, 0)).to_contain_text("Forgotten")
    expect(part(page, "forgotten")).to_contain_text("2 older messages")
    is_of_server(page, conversation)


def test_an_answer_with_tools_is_one_version(open_page: Callable[..., Any], conversation: Conversation) -> None:
    call = AiMessage(None, [ToolExecutionRequest("1", "look_up", '{"number": "7"}')])
    result = ToolExecutionResultMessage("1", "look_up", "order 7")
    conversation.memory.add(UserMessage("order"), call, result, AiMessage("On its way."))
    page = open_page(f"/plain/{conversation.pk}/")
    expect(page.get_by_role("button", name="Answer again")).to_have_count(1)
    again(page, 3)
    shows(page, "order", "Answer 1 to order.")
    page.get_by_role("button", name="Previous version").click()
    shows(page, "order", "On its way.")
    expect(entry(page, 3).get_by_role("group", name="Version 1 of 2")).to_be_visible()
    is_of_server(page, conversation)


def test_another_tab_finds_out(open_page: Callable[..., Any], conversation: Conversation) -> None:
    talk(conversation, "one", "two")
    here, there = (open_page(f"/plain/{conversation.pk}/") for _ in range(2))
    entry(there, 2).get_by_role("button", name="Edit").click()
    there.get_by_label("Edit message").fill("not sent")
    edit(here, 0, "1")
    shows(here, "1", "Answer 1 to 1.")
    there.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    shows(there, "1", "Answer 1 to 1.")
    expect(there.get_by_label("Message", exact=True)).to_have_value("not sent")
    there.get_by_role("button", name="Previous version").click()
    shows(there, "one", "Old answer to one.", "two", "Old answer to two.")
    here.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    shows(here, "one", "Old answer to one.", "two", "Old answer to two.")
    is_of_server(here, conversation)


def test_what_another_tab_changes_keeps_the_box(open_page: Callable[..., Any], conversation: Conversation) -> None:
    talk(conversation, "one")
    page = open_page(f"/plain/{conversation.pk}/")
    entry(page, 0).get_by_role("button", name="Edit").click()
    box = page.get_by_label("Edit message")
    box.fill("half a")
    talk(conversation, "two")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(bubbles(page).last).to_have_text("Old answer to two.")
    expect(box).to_be_focused()
    box.type(" question")
    box.press("Enter")
    shows(page, "half a question", "Answer 1 to half a question.")


def test_a_reload_in_the_middle_shows_what_the_server_has(
    open_page: Callable[..., Any], conversation: Conversation, speak: Callable[..., None]
) -> None:
    talk(conversation, "one", "two")
    go_on = threading.Event()
    page = open_page(f"/plain/{conversation.pk}/")
    speak("Another ", "answer.", wait_for=go_on)
    again(page, 1)
    expect(part(page, "answering")).to_contain_text("Another")
    expect(page.get_by_role("button", name="Edit")).to_have_count(0)
    page.reload()
    expect(bubbles(page)).to_have_text(["one"])
    expect(part(page, "answering")).to_have_text("Answering …")
    go_on.set()
    shows(page, "one", "Another answer.")
    is_of_server(page, conversation)


def test_problems_stand_at_the_message(open_page: Callable[..., Any], conversation: Conversation) -> None:
    talk(conversation, "one", "two", lines=30)
    page = open_page(f"/plain/{conversation.pk}/")
    refused = {"type": "urn:chatmemory:problem:history-not-kept", "detail": "It cannot go back."}
    page.route("**/turns/", lambda route: route.fulfill(status=409, json=refused))
    edit(page, 0, "1")
    problem = entry(page, 0).get_by_role("alert")
    expect(problem).to_have_text("It cannot go back.")
    expect(problem).to_be_in_viewport()
    expect(page.get_by_label("Edit message")).to_be_editable()
    expect(page.get_by_label("Edit message")).to_have_value("1")
    expect(bubbles(page)).to_have_count(4)
    page.get_by_label("Edit message").press("Escape")
    again(page, 1)
    expect(entry(page, 1).get_by_role("alert")).to_be_in_viewport()
    page.unroute("**/turns/")
    again(page, 1)
    shows(page, "one", "Answer 1 to one.")
    page.route("**/switch/", lambda route: route.abort())
    page.get_by_role("button", name="Previous version").click()
    expect(entry(page, 4).get_by_role("alert")).to_contain_text("The site does not answer.")
    page.unroute("**/switch/")
    page.get_by_role("button", name="Try again").click()
    expect(bubbles(page)).to_have_count(4)
    expect(page.get_by_role("alert")).to_have_count(0)


def test_while_another_page_has_an_answer_made(
    open_page: Callable[..., Any], conversation: Conversation, speak: Callable[..., None]
) -> None:
    talk(conversation, "one", "two")
    here, there = (open_page(f"/plain/{conversation.pk}/") for _ in range(2))
    go_on = threading.Event()
    speak("Slow ", "answer.", wait_for=go_on)
    say(there, "three")
    expect(part(there, "answering")).to_contain_text("Slow")
    again(here, 1)
    notice = here.get_by_text("Another answer is being made in this conversation.")
    expect(notice).to_be_visible()
    go_on.set()
    there.get_by_role("button", name="Send").wait_for()
    assert Branch.objects.count() == 0
    here.get_by_role("button", name="Try again").click()
    shows(here, "one", "Slow answer.")
    is_of_server(here, conversation)


def test_stopping_another_answer(
    open_page: Callable[..., Any], conversation: Conversation, speak: Callable[..., None]
) -> None:
    talk(conversation, "one", "two")
    go_on = threading.Event()
    page = open_page(f"/plain/{conversation.pk}/")
    speak("Another ", "answer.", wait_for=go_on)
    again(page, 1)
    expect(part(page, "answering")).to_contain_text("Another")
    no_double_click(page)
    page.get_by_role("button", name="Stop").click()
    shows(page, "one", "Another ")
    go_on.set()
    page.get_by_role("button", name="Previous version").click()
    shows(page, "one", "Old answer to one.", "two", "Old answer to two.")


def test_without_a_history_nothing_is_offered(
    open_page: Callable[..., Any], conversation: Conversation, settings: Any
) -> None:
    settings.CHATMEMORY = {**settings.CHATMEMORY, "KEEP_HISTORY": False}
    talk(conversation, "one")
    page = open_page(f"/plain/{conversation.pk}/")
    expect(bubbles(page)).to_have_count(2)
    expect(page.locator(".chatmemory-branches")).to_have_count(0)


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_axe_finds_nothing(open_page: Callable[..., Any], conversation: Conversation, viewport: dict[str, int]) -> None:
    talk(conversation, "one", "two")
    look = {"viewport": viewport, "bypass_csp": True, "reduced_motion": "reduce"}
    page = open_page(f"/panel/{conversation.pk}/", **look)
    again(page, 3)
    expect(page.locator(".chatmemory-pager")).to_have_count(1)
    page.get_by_role("button", name="Send").wait_for()
    assert axe_violations(page) == []
    page.route("**/turns/", lambda route: route.fulfill(status=500))
    edit(page, 0, "1")
    page.get_by_role("alert").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == viewport["width"]
    assert axe_violations(page) == []


def test_it_speaks_the_language_of_the_page(
    open_page: Callable[..., Any], conversation: Conversation, settings: Any
) -> None:
    settings.LANGUAGE_CODE = "ja"
    talk(conversation, "one")
    page = open_page(f"/plain/{conversation.pk}/")
    entry(page, 0).locator(".is-edit").click()
    expect(page.get_by_role("button", name="キャンセル")).to_be_visible()


@pytest.mark.parametrize("act", ["edit", "again"])
def test_a_request_that_arrives_late_and_was_sent_again_is_one(
    open_page: Callable[..., Any], conversation: Conversation, act: str
) -> None:
    talk(conversation, "one", "two")
    page = open_page(f"/plain/{conversation.pk}/")
    requests: list[Any] = []

    def delay(route: Any) -> None:
        requests.append(route.request)
        if len(requests) == 1:
            route.abort()
            return
        if len(requests) == 2:
            first = requests[0]
            names = ("accept", "content-type", "idempotency-key", "x-csrftoken")
            headers = {name: first.headers[name] for name in names}
            first.frame.page.context.request.post(first.url, headers=headers, data=first.post_data)
        route.continue_()

    page.route("**/turns/", delay)
    if act == "edit":
        edit(page, 0, "1")
    else:
        again(page, 1)
    shows(page, *(["1", "Answer 1 to 1."] if act == "edit" else ["one", "Answer 1 to one."]))
    assert Branch.objects.filter(version__gt=0).count() == 1
    is_of_server(page, conversation)


class Trouble:
    """What happens to the connections of one change."""

    def __init__(self, seed: str) -> None:
        random = Random(seed)
        self.act = random.choice(["edit", "edit", "again", "again", "switch"])
        self.place = random.random()
        first = Cut(after=None) if random.random() < 0.2 else Cut(after=random.randrange(5000), by=_end(random))
        self.cuts = [first]
        while random.random() < 0.5:
            self.cuts.append(
                Cut(after=random.choice([None, random.randrange(600), random.randrange(3000)]), by=_end(random))
            )

    def __repr__(self) -> str:
        return f"{self.act} {self.place} {self.cuts}"


def _end(random: Random) -> Any:
    return random.choice(["reset", "end"])


def has_settled(page: Any, conversation: Conversation, before: int) -> bool:
    """The page waits for the user, and shows what the server has. Who is offered to try again does so."""
    if page.get_by_role("button", name="Try again").count():
        page.get_by_role("button", name="Try again").click()
        return False
    is_waiting = page.get_by_role("button", name="Send").is_visible() and not part(page, "answering").is_visible()
    if not is_waiting or Branch.objects.filter(version__gt=0).count() == before:
        return False
    return bool(bubbles(page).all_inner_texts() == texts_of_server(conversation))


@pytest.mark.parametrize("number", range(max(1, RUNS // 5)))
def test_nothing_branches_twice_whenever_the_connection_breaks(
    live_server: Any, settings: Any, api: Any, new_page: Pages, conversation: Conversation, number: int
) -> None:
    settings.ROOT_URLCONF = "tests.support.chat_pages"
    talk(conversation, "one", "two", "three")
    with cutting_proxy(live_server.url) as proxy:
        page = new_page(base_url=proxy.address, viewport=WIDE, reduced_motion="reduce")
        page.context.add_cookies([{"name": "sessionid", "value": api.cookies["sessionid"].value, "url": proxy.address}])
        page.goto(f"/plain/{conversation.pk}/")
        page.locator("chatmemory-chat[data-ready]").wait_for()
        for step in range(5):
            trouble = Trouble(f"{number} {step}")
            cuts = iter(trouble.cuts)
            has_begun = False

            def cut(method: str, path: str, cuts: Iterator[Cut] = cuts) -> Cut:
                nonlocal has_begun
                has_begun = has_begun or method == "POST"
                return next(cuts, WHOLE) if path.startswith("/api/") and has_begun else WHOLE

            before = Branch.objects.filter(version__gt=0).count()
            words = conversation.messages.history().count()
            act = trouble.act if page.locator(".chatmemory-pager").count() else "edit"
            buttons = page.locator(
                {"edit": ".is-edit", "again": ".is-answer-again"}.get(act, ".chatmemory-pager :enabled")
            )
            button = buttons.nth(int(trouble.place * buttons.count()))
            proxy.cut = cut
            button.click()
            if act == "edit":
                page.get_by_label("Edit message").fill(f"question {step}")
                page.get_by_label("Edit message").press("Enter")
            wait_until(partial(has_settled, page, conversation, before), f"it does not end: {trouble}")
            proxy.cut = lambda method, path: WHOLE
            assert Branch.objects.filter(version__gt=0).count() == before + 1, trouble
            more = {"edit": 2, "again": 1, "switch": 0}[act]
            assert conversation.messages.history().count() == words + more, trouble
            is_of_server(page, conversation)
