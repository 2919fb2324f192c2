"""The tags in a project that ``startproject`` made, from the built wheel and under a strict content security policy."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.support.browser import (  # noqa: F401
    Pages,
    axe_violations,
    browser_thread,
    chromium,
    expect,
    new_page,
    wait_until,
)
from tests.support.new_project import PASSWORD, NewProject, new_project, project_site  # noqa: F401

pytestmark = pytest.mark.browser

# As a project in production has it.
PRODUCTION = """
from shop.settings import *

STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.ManifestStaticFilesStorage"},
}
"""


# The button says so for two seconds; the test may be slower.
NOTE_COPIED = """() => {
    const button = () => document.querySelector("[data-part='answering'] .chatmemory-copy");
    const note = () => { window.hasCopied ||= button()?.textContent === "Copied"; };
    new MutationObserver(note).observe(document.body, { childList: true, characterData: true, subtree: true });
}"""

# A server that is slow to make a conversation, until go() is called.
SLOW = """() => {
    const send = window.fetch;
    const waiting = () => new Promise(go => { window.go = go; document.body.dataset.waits = ""; });
    window.fetch = async (...given) => {
        if (given[1]?.method === "POST") await waiting();
        return send(...given);
    };
}"""


def signed_in(page: Any, site: str) -> Any:
    page.goto(site)
    page.get_by_label("Username").fill("ann")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    ready(page)
    return page


def ready(page: Any) -> None:
    page.locator("chatmemory-chat[data-ready]").wait_for()
    page.locator("chatmemory-conversations[data-ready]").wait_for()


def start(page: Any) -> None:
    """Start a new chat."""
    here = page.url
    page.get_by_role("button", name="New chat").click()
    page.wait_for_url(lambda url: url != here)
    ready(page)


def say(page: Any, text: str, answer: str) -> None:
    box = page.get_by_label("Message", exact=True)
    box.fill(text)
    box.press("Enter")
    expect(page.locator("[data-part='history'] [data-type='ai']").last).to_contain_text(answer)
    page.get_by_role("button", name="Send").wait_for()


def test_a_chat_in_a_new_project(project_site: str, new_page: Pages) -> None:  # noqa: F811
    page = signed_in(new_page(viewport={"width": 1200, "height": 900}), project_site)
    say(page, "<b>Hello</b>", "You said: <b>Hello</b>")
    say(page, "Where is my order?", "It is on its way")
    answer = page.locator("[data-part='history'] [data-type='ai']").last
    expect(answer.locator("strong")).to_have_text("on its way")
    expect(answer.get_by_role("cell", name="number 7")).to_be_visible()
    expect(answer.get_by_role("button", name="Copy", exact=True)).to_be_visible()
    assert answer.locator(".chatmemory-table").evaluate("box => box.scrollWidth <= box.clientWidth")
    # A window of four messages: what the model gets no longer is marked, and a reload shows the same.
    say(page, "Hello again", "You said: Hello again")
    forgotten = page.locator("[data-part='history'] .is-gone", has_text="<b>Hello</b>").first
    expect(forgotten).to_contain_text("Forgotten")
    page.reload()
    ready(page)
    expect(forgotten).to_contain_text("Forgotten")

    start(page)
    expect(page.locator("chatmemory-conversations li")).to_have_count(2)
    say(page, "Anything new?", "You said: Anything new?")
    assert new_page.problems == []


def test_what_is_said_after_new_chat_is_said_there(project_site: str, new_page: Pages) -> None:  # noqa: F811
    page = signed_in(new_page(), project_site)
    here = page.url
    page.evaluate(SLOW)
    page.get_by_role("button", name="New chat").click()
    page.locator("body[data-waits]").wait_for()
    box = page.get_by_label("Message", exact=True)
    box.fill("For the new one")
    box.press("Enter")
    page.evaluate("go()")
    page.wait_for_url(lambda url: url != here)
    expect(page.locator("[data-part='history']")).to_contain_text("You said: For the new one")
    page.goto(here)
    ready(page)
    expect(page.locator("[data-part='history']").get_by_text("For the new one")).to_have_count(0)
    assert new_page.problems == []


def test_code_is_copied_while_the_answer_grows(
    project_site: str,  # noqa: F811
    new_project: NewProject,  # noqa: F811
    new_page: Pages,  # noqa: F811
) -> None:
    page = signed_in(new_page(permissions=["clipboard-read", "clipboard-write"]), project_site)
    page.get_by_label("Message", exact=True).fill("Please count.")
    page.get_by_role("button", name="Send").click()
    growing = page.locator("[data-part='answering']")
    expect(growing).to_contain_text("3 4 5")
    page.evaluate(NOTE_COPIED)
    # Held for a while, as a hand does: the button must be the same one at the end.
    growing.get_by_role("button", name="Copy").click(delay=300)
    wait_until(page, "() => window.hasCopied")
    expect(growing).to_contain_text("20 21")
    assert page.evaluate("navigator.clipboard.readText()") == "1, 2"
    (new_project.folder / "shop/enough").touch()
    expect(page.locator("[data-part='history']")).to_contain_text("Done.")
    assert new_page.problems == []


@pytest.mark.parametrize("width", [360, 1200])
def test_axe_finds_nothing_and_nothing_scrolls_sideways(
    project_site: str,  # noqa: F811
    new_page: Pages,  # noqa: F811
    width: int,
) -> None:
    look = {"viewport": {"width": width, "height": 800}, "reduced_motion": "reduce"}
    page = signed_in(new_page(bypass_csp=True, **look), project_site)
    start(page)
    say(page, "x" * 200, "You said: xxx")
    say(page, "Where is my order?", "It is on its way")
    say(page, "And another order?", "It is on its way")
    assert axe_violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") == width
    if width == 360:
        page.get_by_role("tab", name="Memory").click()
        assert axe_violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") == width
    page.get_by_role("button", name="Erase", exact=False).first.click()
    page.get_by_role("dialog").wait_for()
    assert axe_violations(page) == []


def test_a_page_loads_one_script_which_is_collected_under_a_hashed_name(
    new_project: NewProject,  # noqa: F811
    project_site: str,  # noqa: F811
    new_page: Pages,  # noqa: F811
) -> None:
    page = new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    start(signed_in(page, project_site))
    scripts = [url for url in asked if "/chatmemory/" in url and url.endswith(".js")]
    assert set(scripts) == {f"{project_site.rstrip('/')}/static/chatmemory/chat/chat.js"}

    (new_project.folder / "shop/production.py").write_text(PRODUCTION, encoding="utf-8")
    new_project.run("manage.py", "collectstatic", "--no-input", "--settings", "shop.production")
    names = {file.name for file in (new_project.folder / "collected/chatmemory/chat").glob("*.js")}
    [hashed] = names - {"chat.js"}
    assert re.fullmatch(r"chat\.[0-9a-f]{12}\.js", hashed)


def test_the_project_passes_its_checks_and_the_wheel_has_the_licences(new_project: NewProject) -> None:  # noqa: F811
    assert "no issues" in new_project.run("manage.py", "check")
    shown = new_project.run(
        "-c",
        "import chatmemory; from importlib.metadata import files; print(chatmemory.__file__);"
        "print([str(file) for file in files('django-chatmemory') if file.name == 'NOTICE'])",
    )
    assert str(new_project.python.parent.parent) in shown
    assert "licenses/chatmemory/javascript/chat/vendor/NOTICE" in shown
