"""README.md, copied word by word into a new project, as somebody has it who has never heard of the app."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from tests.support.browser import (  # noqa: F401
    Pages,
    axe_violations,
    browser_thread,
    chromium,
    expect,
    new_page,
)
from tests.support.chat_completions import chat_completions
from tests.support.new_project import PASSWORD, NewProject, make_environment, running
from tests.support.paths import ROOT

pytestmark = pytest.mark.browser

BLOCK = re.compile(r"^```(?:python|html)\n(?:# |<!-- )([\w/]+\.(?:py|html))(?: -->)?\n(.*?)^```$", re.M | re.S)
"""A block that is a file, with its path and the rest."""


@pytest.fixture(scope="module")
def readme() -> str:
    return (ROOT / "README.md").read_text("utf-8")


@pytest.fixture(scope="module")
def project(readme: str, tmp_path_factory: pytest.TempPathFactory) -> NewProject:
    """The project that the README describes."""
    made = make_environment(tmp_path_factory.mktemp("readme"))
    assert "django-admin startproject shop .\n" in readme
    made.run("-m", "django", "startproject", "shop", ".")
    assert write_files(readme, made) == 6
    made.run("manage.py", "migrate", "--verbosity", "0")
    return made


def write_files(page: str, project: NewProject) -> int:
    """Write the files that a page has, and return how many they are."""
    files = BLOCK.findall(page)
    for name, text in files:
        path = project.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a" if path.name == "settings.py" else "w", encoding="utf-8") as file:
            file.write(text)
    return len(files)


@pytest.fixture(scope="module")
def site(project: NewProject) -> Iterator[str]:
    """Its address, with a superuser and a user who is no staff."""
    superuser = {"DJANGO_SUPERUSER_PASSWORD": PASSWORD, "DJANGO_SUPERUSER_EMAIL": "x@example.com"}
    replace(project, more=superuser).run("manage.py", "createsuperuser", "--no-input", "--username", "boss")
    make_user = f"from django.contrib.auth.models import User; User.objects.create_user('ann', password={PASSWORD!r})"
    project.run("manage.py", "shell", "--command", make_user)
    with serving(project) as site:
        yield site


@contextmanager
def serving(project: NewProject) -> Iterator[str]:
    with chat_completions() as (address, _):
        model = {"OPENAI_BASE_URL": address, "OPENAI_API_KEY": "none"}
        with running(replace(project, more=model)) as site:
            yield site


def log_in(page: Any, address: str, name: str) -> None:
    page.goto(address)
    page.get_by_label("Username").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()


def test_the_ten_lines_work_in_a_shell(project: NewProject, readme: str) -> None:
    [lines] = re.findall(r"^```python\n(from chatmemory import .*?)^```$", readme, re.M | re.S)
    printed = project.run(
        "manage.py", "shell", "--command", f"{lines}\nprint(len(messages), request[-1], len(history))"
    )
    assert printed.splitlines()[-1] == "4 {'role': 'user', 'content': 'What is my name?'} 4"


@pytest.mark.parametrize("width", [390, 1200])
def test_a_user_who_is_no_staff_chats(site: str, new_page: Pages, width: int) -> None:  # noqa: F811
    page = new_page(viewport={"width": width, "height": 800}, reduced_motion="reduce")
    page.goto(f"{site}/chat/")
    assert axe_violations(page) == []
    log_in(page, f"{site}/chat/", "ann")
    page.locator("chatmemory-chat[data-ready]").wait_for()
    page.get_by_label("Message", exact=True).fill("Hello")
    page.get_by_role("button", name="Send").click()
    expect(page.locator("[data-part='history'] [data-type='ai']").last).to_contain_text("messages.")
    assert page.get_by_role("tab", name="Memory").is_visible() == (width == 390)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert axe_violations(page) == []


def test_the_superuser_sees_the_conversation(site: str, new_page: Pages) -> None:  # noqa: F811
    page = new_page()
    log_in(page, f"{site}/admin/", "boss")
    page.get_by_role("link", name="Conversations").first.click()
    expect(page.get_by_role("heading", name="Select conversation to view")).to_be_visible()


@pytest.mark.usefixtures("site")  # its users; and it was looked at before its files are replaced
@pytest.mark.parametrize("width", [390, 1200])
def test_the_page_of_the_widget_adds_a_list(project: NewProject, new_page: Pages, width: int) -> None:  # noqa: F811
    assert write_files((ROOT / "docs" / "chat.md").read_text("utf-8"), project) == 3
    with serving(project) as site:
        page = new_page(viewport={"width": width, "height": 800}, reduced_motion="reduce")
        log_in(page, f"{site}/chat/", "ann")
        page.locator("chatmemory-chat[data-ready]").wait_for()
        first = page.url
        opener = page.get_by_role("button", name="Conversations", exact=True)
        assert opener.is_visible() == (width == 390)
        if width == 390:
            opener.click()
        page.get_by_role("button", name="New chat").click()
        page.wait_for_url(lambda url: url != first)
        page.locator("chatmemory-chat[data-ready]").wait_for()
        if width == 390:
            opener.click()
        conversations = page.locator("chatmemory-conversations").get_by_role("link")
        expect(conversations.nth(1)).to_be_visible()
        assert axe_violations(page) == []
        page.keyboard.press("Escape")
        list_box, chat_box = (page.locator(f"chatmemory-{name}").bounding_box() for name in ("conversations", "chat"))
        assert list_box["y"] < chat_box["y"] or list_box["x"] + list_box["width"] < chat_box["x"]
        page.get_by_label("Message", exact=True).fill("Hello")
        page.get_by_role("button", name="Send").click()
        expect(page.locator("[data-part='history'] [data-type='ai']").last).to_contain_text("messages.")
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert axe_violations(page) == []
