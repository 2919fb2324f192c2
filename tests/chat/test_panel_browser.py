"""The tag ``chatmemory_chat`` in a page of one's own, in a real browser and under a strict content security policy."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from chatmemory import AiMessage, ChatMessage, UserMessage
from chatmemory.assistant import Thinking
from chatmemory.models import Conversation
from tests.support.assistants import Speaker, choose
from tests.support.browser import (  # noqa: F401
    Pages,
    axe_violations,
    browser_thread,
    chromium,
    expect,
    new_page,
    no_double_click,
)
from tests.support.factories import ConversationFactory

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

WIDE = {"width": 1280, "height": 800}
PHONE = {"width": 360, "height": 740}

ANSWER = "**Bold** and:\n\n```python\nprint(1)\n```"


@pytest.fixture
def conversation(user: Any) -> Conversation:
    made: Conversation = ConversationFactory(owner=user, title="", window="messages", limit=4)
    return made


@pytest.fixture
def open_page(live_server: Any, settings: Any, api: Any, new_page: Pages) -> Callable[..., Any]:  # noqa: F811
    """Opens a page with a chat, as a user who is signed in."""
    settings.ROOT_URLCONF = "tests.support.chat_pages"

    def open_(path: str, **options: Any) -> Any:
        page = new_page(base_url=live_server.url, **{"viewport": WIDE, **options})
        session = {"name": "sessionid", "value": api.cookies["sessionid"].value, "url": live_server.url}
        page.context.add_cookies([session])
        page.goto(path)
        page.locator("chatmemory-chat[data-ready]").first.wait_for()
        return page

    return open_


@pytest.fixture
def speak() -> Iterator[Callable[..., None]]:
    """Lets the model say these pieces from now on; it waits for an event before the last one."""

    def speak_(*pieces: Any, wait_for: threading.Event | None = None, thinking: str | None = None) -> None:
        def answer(messages: Sequence[ChatMessage]) -> Iterator[Any]:
            yield from pieces[:-1]
            assert wait_for is None or wait_for.wait(300)
            yield pieces[-1]
            yield AiMessage("".join(piece for piece in pieces if isinstance(piece, str)), thinking=thinking)

        choose(Speaker(answer))

    yield speak_
    choose(None)


def say(page: Any, text: str) -> None:
    page.get_by_label("Message", exact=True).fill(text)
    page.get_by_label("Message", exact=True).press("Enter")


def bubbles(page: Any) -> Any:
    return page.locator("[data-part='history'] .chatmemory-bubble")


def answered(page: Any, count: int) -> None:
    expect(bubbles(page)).to_have_count(count)
    page.get_by_role("button", name="Send").wait_for()


def part(page: Any, name: str) -> Any:
    return page.locator(f"[data-part='{name}']")


def said(conversation: Conversation) -> list[str]:
    return [row.text for row in conversation.messages.history()]


def test_one_line_of_a_template_is_a_chat(
    open_page: Callable[..., Any],
    conversation: Conversation,
    new_page: Pages,  # noqa: F811
) -> None:
    page = open_page(f"/plain/{conversation.pk}/")
    expect(page.get_by_text("Nothing was said yet.")).to_be_visible()
    say(page, "Hello")
    answered(page, 2)
    expect(bubbles(page)).to_have_text(["Hello", "You said: Hello"])
    expect(part(page, "status")).to_have_text("Model: You said: Hello")
    expect(part(page, "retained")).to_have_count(0)
    say(page, "order 7")
    answered(page, 4)
    expect(page.locator(".chatmemory-tool")).to_contain_text("order 7 of")
    page.reload()
    expect(bubbles(page)).to_have_count(4)
    expect(page.get_by_text("Forgotten = evicted")).to_be_visible()
    assert new_page.problems == []


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_axe_finds_nothing(
    open_page: Callable[..., Any],
    conversation: Conversation,
    speak: Callable[..., None],
    viewport: dict[str, int],
) -> None:
    look = {"viewport": viewport, "bypass_csp": True, "reduced_motion": "reduce"}
    page = open_page(f"/panel/{conversation.pk}/", **look)
    assert axe_violations(page) == []
    say(page, "order 0")
    answered(page, 2)
    speak(ANSWER, thinking="Let me see.")
    say(page, "Show me")
    answered(page, 4)
    expect(page.locator(".is-leaving")).to_have_count(0)
    assert page.evaluate("document.documentElement.scrollWidth") == viewport["width"]
    assert axe_violations(page) == []
    page.get_by_role("button", name="Raw text").click()
    page.route("**/turns/", lambda route: route.abort())
    say(page, "Once more")
    expect(part(page, "answering")).to_have_text("Connection lost. Reconnecting…")
    assert axe_violations(page) == []
    page.route("**/turns/", lambda route: route.fulfill(status=500))
    page.get_by_role("alert").wait_for()
    assert axe_violations(page) == []
    if viewport is PHONE:
        page.get_by_role("tab", name="Memory").click()
        assert page.evaluate("document.documentElement.scrollWidth") == viewport["width"]
        assert axe_violations(page) == []


def test_a_chat_on_a_page_that_came_over_plain_http(open_page: Callable[..., Any], conversation: Conversation) -> None:
    page = open_page(f"/plain/{conversation.pk}/")
    page.evaluate("delete Crypto.prototype.randomUUID")  # browsers offer it only over HTTPS and on this machine
    say(page, "Hello")
    answered(page, 2)
    expect(bubbles(page)).to_have_text(["Hello", "You said: Hello"])


def test_a_window_that_was_made_smaller_can_be_made_larger_again(open_page: Callable[..., Any], user: Any) -> None:
    large = ConversationFactory(owner=user, window="tokens", limit=4000)
    page = open_page(f"/panel/{large.pk}/")
    part(page, "limit").fill("1000")
    expect(part(page, "gauge-amount")).to_have_text("0 of 1,000 tokens")
    page.reload()
    page.locator("chatmemory-chat[data-ready]").wait_for()
    for limit in (2000, 4000, 8000):
        part(page, "limit").fill(str(limit))
        expect(part(page, "gauge-amount")).to_have_text(f"0 of {limit:,} tokens")


def test_the_list_renames_the_chat_beside_it(open_page: Callable[..., Any], conversation: Conversation) -> None:
    page = open_page(f"/both/{conversation.pk}/")
    title = page.locator("chatmemory-chat [data-part='title']")
    expect(title).to_have_text("Chat")
    for new, shown in (("Tea <b>", "Tea <b>"), ("", "Chat")):
        page.locator("[data-part='rename']").click()
        page.get_by_label("Title").fill(new)
        page.get_by_label("Title").press("Enter")
        expect(title).to_have_text(shown)


def test_two_chats_on_a_page_do_not_meet(open_page: Callable[..., Any], user: Any) -> None:
    first, second = (ConversationFactory(owner=user, title=title, window="messages", limit=4) for title in "AB")
    page = open_page("/panels/")
    chats = page.locator("chatmemory-chat")
    expect(page.locator("chatmemory-chat[data-ready]")).to_have_count(2)
    box = chats.nth(1).get_by_label("Message", exact=True)
    box.fill("Hello")
    box.press("Enter")
    expect(chats.nth(1).locator("[data-part='history'] .chatmemory-bubble")).to_have_count(2)
    chats.nth(1).get_by_role("radio", name="Tokens").check()
    expect(chats.nth(1).locator("[data-part='gauge-amount']")).to_contain_text("tokens")
    expect(chats.nth(0).get_by_role("radio", name="Messages")).to_be_checked()
    expect(chats.nth(0).locator("[data-part='gauge-amount']")).to_have_text("0 of 4 messages")
    expect(chats.nth(0).locator(".chatmemory-bubble")).to_have_count(0)
    assert (said(first), said(second)) == ([], ["Hello", "You said: Hello"])
    names = page.evaluate("[...document.querySelectorAll('chatmemory-chat [id]')].map((each) => each.id)")
    assert len(set(names)) == len(names)


def test_a_chat_that_comes_later_works_as_well(open_page: Callable[..., Any], conversation: Conversation) -> None:
    page = open_page(f"/plain/{conversation.pk}/")
    page.evaluate("""() => {
        const chat = document.querySelector("chatmemory-chat");
        const copy = chat.cloneNode(true);
        delete copy.dataset.ready;
        chat.replaceWith(copy);
    }""")
    page.locator("chatmemory-chat[data-ready]").wait_for()
    say(page, "Hello")
    answered(page, 2)


def test_a_project_chooses_the_colours(open_page: Callable[..., Any], conversation: Conversation) -> None:
    page = open_page(f"/plain/{conversation.pk}/", bypass_csp=True, color_scheme="dark")
    panel = "getComputedStyle(document.querySelector('.chatmemory-panel')).backgroundColor"
    dark = page.evaluate(panel)
    page.add_style_tag(content=":root { --chatmemory-accent: rgb(1, 2, 3); --chatmemory-color-scheme: light; }")
    assert page.evaluate(panel) != dark
    send = page.get_by_role("button", name="Send")
    assert send.evaluate("button => getComputedStyle(button).backgroundColor") == "rgb(1, 2, 3)"


def test_a_page_that_comes_back_follows_the_answer(
    open_page: Callable[..., Any], conversation: Conversation, speak: Callable[..., None]
) -> None:
    go_on = threading.Event()
    speak("Once ", "upon a time", wait_for=go_on)
    page = open_page(f"/panel/{conversation.pk}/")
    say(page, "Tell me a story")
    expect(part(page, "answering")).to_contain_text("Once")
    page.reload()
    page.get_by_role("button", name="Stop").wait_for()
    expect(part(page, "answering")).to_have_text("Answering …")
    expect(bubbles(page)).to_have_count(1)
    go_on.set()
    answered(page, 2)
    expect(bubbles(page).last).to_have_text("Once upon a time")
    expect(part(page, "turn-notice")).to_be_hidden()
    assert said(conversation) == ["Tell me a story", "Once upon a time"]


def test_two_pages_at_once(
    open_page: Callable[..., Any], conversation: Conversation, speak: Callable[..., None]
) -> None:
    go_on = threading.Event()
    speak("Once ", "upon a time", wait_for=go_on)
    other = open_page(f"/plain/{conversation.pk}/")
    page = open_page(f"/plain/{conversation.pk}/")
    say(page, "Tell me a story")
    expect(part(page, "answering")).to_contain_text("Once")
    say(other, "Me, too")
    expect(part(other, "turn-notice")).to_contain_text("Another answer is being made")
    expect(other.get_by_role("alert")).to_have_count(0)
    expect(other.get_by_label("Message", exact=True)).to_have_value("Me, too")
    go_on.set()
    answered(page, 2)
    other.get_by_role("button", name="Try again").click()
    answered(other, 4)
    expect(other.get_by_label("Message", exact=True)).to_have_value("")
    assert said(conversation) == ["Tell me a story", "Once upon a time", "Me, too", "Once upon a time"]


def test_an_answer_is_stopped_before_its_first_word_and_asked_for_again(
    open_page: Callable[..., Any], conversation: Conversation, speak: Callable[..., None]
) -> None:
    go_on = threading.Event()
    speak(Thinking("A story?"), "Once upon a time", wait_for=go_on)
    page = open_page(f"/plain/{conversation.pk}/")
    say(page, "Tell me a story")
    expect(part(page, "answering")).to_contain_text("Thinking")
    no_double_click(page)
    page.get_by_role("button", name="Stop").click()
    expect(part(page, "turn-notice")).to_contain_text("Stopped.")
    expect(page.get_by_role("alert")).to_have_count(0)
    go_on.set()
    speak("Short.")
    page.get_by_role("button", name="Ask again").click()
    answered(page, 2)
    assert said(conversation) == ["Tell me a story", "Short."]


def test_the_raw_text_is_one_click_away(
    open_page: Callable[..., Any], conversation: Conversation, speak: Callable[..., None]
) -> None:
    speak("**Bo", "ld**")
    page = open_page(f"/plain/{conversation.pk}/")
    say(page, "**Hello**")
    answered(page, 2)
    expect(bubbles(page)).to_have_text(["**Hello**", "Bold"])
    expect(bubbles(page).last.locator("strong")).to_have_text("Bold")
    raw = page.get_by_role("button", name="Raw text")
    raw.click()
    expect(bubbles(page).last).to_have_text("**Bold**")
    expect(raw).to_have_attribute("aria-pressed", "true")
    raw.click()
    expect(bubbles(page).last.locator("strong")).to_have_text("Bold")
    speak("Plain.")
    say(page, "Again")
    answered(page, 4)
    expect(raw).to_have_count(1)


def test_what_the_model_thought_is_there_to_be_opened(
    open_page: Callable[..., Any], conversation: Conversation, speak: Callable[..., None]
) -> None:
    speak("42", thinking="Seven times six.")
    page = open_page(f"/plain/{conversation.pk}/")
    say(page, "6*7?")
    answered(page, 2)
    expect(page.get_by_text("Seven times six.")).to_be_hidden()
    page.get_by_text("What the model thought").click()
    expect(page.get_by_text("Seven times six.")).to_be_visible()


def test_a_title_that_comes_after_the_answer_is_shown(
    open_page: Callable[..., Any], conversation: Conversation
) -> None:
    page = open_page(f"/plain/{conversation.pk}/")
    expect(part(page, "title")).to_have_text("Chat")
    say(page, "Hello")
    answered(page, 2)
    Conversation.objects.filter(pk=conversation.pk).update(title="Of tea <b>")
    expect(part(page, "title")).to_have_text("Of tea <b>")


def test_a_model_that_fails_is_an_error_and_trying_again_is_the_same_turn(
    open_page: Callable[..., Any], conversation: Conversation, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(messages: Sequence[ChatMessage]) -> Iterator[Any]:
        yield "Twel"
        raise ConnectionError("secret host")

    choose(Speaker(fail))
    try:
        page = open_page(f"/plain/{conversation.pk}/")
        say(page, "What is 3*4?")
        alert = page.get_by_role("alert")
        expect(alert).to_contain_text("The model failed")
        expect(alert).not_to_contain_text("secret")
        expect(bubbles(page)).to_have_count(1)
        expect(page.get_by_label("Message", exact=True)).to_have_value("")
    finally:
        choose(None)
    page.get_by_role("button", name="Try again").click()
    answered(page, 2)
    assert said(conversation) == ["What is 3*4?", "You said: What is 3*4?"]


def test_a_page_in_another_language(
    open_page: Callable[..., Any],
    conversation: Conversation,
    settings: Any,
    new_page: Pages,  # noqa: F811
) -> None:
    settings.LANGUAGE_CODE = "ja"
    page = open_page(f"/panel/{conversation.pk}/")
    page.get_by_role("textbox").fill("Hello")
    page.get_by_role("button", name="送信").click()
    expect(bubbles(page)).to_have_count(2)
    expect(part(page, "gauge-amount")).to_have_text("2 / 4件")
    expect(part(page, "gauge-share")).to_have_text("使用率50%")
    assert new_page.problems == []


def test_a_question_that_was_never_answered_says_so(
    open_page: Callable[..., Any], conversation: Conversation, speak: Callable[..., None]
) -> None:
    conversation.memory.add(UserMessage("Tea?"), AiMessage("Tea."))
    conversation.memory.add(UserMessage("Coffee?"))
    page = open_page(f"/plain/{conversation.pk}/")
    expect(part(page, "turn-notice")).to_contain_text("Not answered.")
    say(page, "Cocoa?")
    answered(page, 5)
    expect(part(page, "turn-notice")).to_be_hidden()
    expect(page.locator(".chatmemory-said", has_text="Not answered.")).to_have_count(1)
    expect(page.locator(".chatmemory-said", has_text="Coffee?")).to_contain_text("Not answered.")
