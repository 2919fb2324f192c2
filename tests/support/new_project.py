"""A project that ``startproject`` made, with the built wheel: import the fixtures ``new_project``, ``project_site``."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.csp import POLICY
from tests.support.paths import ROOT

__all__ = ["PASSWORD", "NewProject", "make_environment", "new_project", "project_site", "running"]

PASSWORD = "only-for-this-test"

SETTINGS = """
INSTALLED_APPS += ["chatmemory", "rest_framework", "django_filters"]
CHATMEMORY = {"ASSISTANT": "shop.assistants.assistant", "WINDOW": {"window": "messages", "limit": 4}}
MIDDLEWARE.insert(0, "shop.policy.strict")
TEMPLATES[0]["DIRS"] = [BASE_DIR / "templates"]
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = BASE_DIR / "collected"
"""

ASSISTANTS = r'''
import itertools
import time
from pathlib import Path

from chatmemory import AiMessage, ToolExecutionRequest, ToolExecutionResultMessage
from chatmemory.assistant import Assistant, ChatModel

ANSWER = """It is **on its way**:

| Order | State |
| --- | --- |
| {} | *packed* |

```python
print("soon")
```
"""


class Clerk(ChatModel):
    def chat(self, messages, tools):
        *_, answer = self.stream(messages, tools)
        return answer

    def stream(self, messages, tools):
        last = messages[-1]
        if isinstance(last, ToolExecutionResultMessage):
            text = ANSWER.format(last.text)
        elif "order" in last.contents[0].text:
            yield AiMessage(None, [ToolExecutionRequest("call-1", "look_up_order", '{"number": "7"}')])
            return
        elif "count" in last.contents[0].text:
            text = "```\n1, 2\n```\n\n"
            yield text
            enough = Path(__file__).with_name("enough")
            for number in itertools.takewhile(lambda number: not enough.exists(), range(3, 600)):
                time.sleep(0.1)
                yield f"{number} "
                text += f"{number} "
            yield AiMessage(f"{text}Done.")
            return
        else:
            text = f"You said: {last.contents[0].text}"
        for start in range(0, len(text), 7):
            yield text[start : start + 7]
        yield AiMessage(text)


def look_up_order(number: str) -> str:
    """Say where an order is."""
    return f"number {number}"


assistant = Assistant(Clerk(), tools=[look_up_order])
'''

POLICY_MIDDLEWARE = f"""
POLICY = {POLICY!r}


def strict(get_response):
    def middleware(request):
        response = get_response(request)
        response["Content-Security-Policy"] = POLICY
        return response

    return middleware
"""

VIEWS = """
from django.contrib.auth.decorators import login_required
from django.shortcuts import get_object_or_404, render

from chatmemory.models import Conversation


@login_required
def chat(request, pk=None):
    if pk is None:
        conversation, _ = Conversation.objects.get_or_create(owner=request.user, memory_id="shop")
    else:
        conversation = get_object_or_404(Conversation, owner=request.user, pk=pk)
    return render(request, "chat.html", {"conversation": conversation})
"""

URLS = """
from django.contrib.auth.views import LoginView
from django.urls import include

from shop import views

urlpatterns += [
    path("accounts/login/", LoginView.as_view(template_name="admin/login.html")),
    path("api/", include("chatmemory.urls")),
    path("", views.chat),
    path("<uuid:pk>/", views.chat, name="chat"),
]
"""

TEMPLATE = """{% load chatmemory static %}<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <meta name="color-scheme" content="light dark">
  <title>Tea</title>
  <link rel="stylesheet" href="{% static 'shop.css' %}">
</head>
<body>
  <main>
    <h1>Tea</h1>
    {% chatmemory_conversations url_name="chat" %}
    {% chatmemory_chat conversation memory=True %}
  </main>
</body>
</html>
"""

# axe takes a page for white that names no background.
STYLES = "html { background: Canvas; color: CanvasText; }"


@dataclass(frozen=True)
class NewProject:
    """A project in a virtual environment that has the wheel, and of this environment all but the wheel's source."""

    python: Path
    folder: Path
    more: dict[str, str] = field(default_factory=dict)
    """Variables of the environment, beside those of the tests."""

    @property
    def environment(self) -> dict[str, str]:
        left_out = ("PYTHONPATH", "DJANGO_SETTINGS_MODULE", "CHATMEMORY_TEST_DATABASE")
        return {name: value for name, value in os.environ.items() if name not in left_out} | self.more

    def run(self, *arguments: str) -> str:
        """Run Python in the project's folder, and return what it prints.

        Raises:
            AssertionError: it failed; the text is what it printed.
        """
        done = subprocess.run(
            [self.python, *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def make_environment(folder: Path) -> NewProject:
    """Build the wheel, and install it into a new virtual environment beside an empty folder for a project."""
    wheels = folder / "wheels"
    build = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(wheels), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, timeout=300)
    [wheel] = wheels.iterdir()

    venv.create(folder / "venv", with_pip=False)
    [packages] = (folder / "venv").glob("lib/python*/site-packages")
    # What the wheel needs is there already. A path in a .pth file does not bring in the .pth files that are there, and
    # so no editable install of the source.
    (packages / "needed.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    with zipfile.ZipFile(wheel) as files:  # what pip does with a wheel that is all Python
        files.extractall(packages)
    python = folder / "venv/bin/python"
    # The scripts of what is there already start its Python.
    admin = python.with_name("django-admin")
    admin.write_text(f'#!/bin/sh\nexec "{python}" -m django "$@"\n', encoding="utf-8")
    admin.chmod(0o755)
    site = folder / "site"
    site.mkdir()
    return NewProject(python, site)


@pytest.fixture(scope="module")
def new_project(tmp_path_factory: pytest.TempPathFactory) -> NewProject:
    """A project with one assistant, one address, and one page with both tags, whose user, ann, is no staff."""
    project = make_environment(tmp_path_factory.mktemp("new-project"))
    site = project.folder
    project.run("-m", "django", "startproject", "shop", ".")
    for name, text in {"assistants": ASSISTANTS, "policy": POLICY_MIDDLEWARE, "views": VIEWS}.items():
        (site / f"shop/{name}.py").write_text(text, encoding="utf-8")
    for name, text in {"settings": SETTINGS, "urls": URLS}.items():
        with (site / f"shop/{name}.py").open("a", encoding="utf-8") as file:
            file.write(text)
    for path, text in {"templates/chat.html": TEMPLATE, "static/shop.css": STYLES}.items():
        (site / path).parent.mkdir()
        (site / path).write_text(text, encoding="utf-8")
    project.run("manage.py", "migrate", "--verbosity", "0")
    make_user = f"from django.contrib.auth.models import User; User.objects.create_user('ann', password={PASSWORD!r})"
    project.run("manage.py", "shell", "--command", make_user)
    return project


@pytest.fixture(scope="module")
def project_site(new_project: NewProject) -> Iterator[str]:
    """The address of the project while ``runserver`` serves it."""
    with running(new_project) as address:
        yield address


@contextmanager
def running(project: NewProject) -> Iterator[str]:
    """Serve a project by ``runserver``; give its address."""
    log = project.folder / "log"
    with log.open("w") as file:
        server = subprocess.Popen(
            [project.python, "-u", "manage.py", "runserver", "--noreload", "127.0.0.1:0"],
            cwd=project.folder,
            env=project.environment,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            # A shell that runs the tests in the background has SIGINT ignored, and children inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
    assert server.stdout is not None
    try:
        started = next(filter(None, (re.search(r"http://127\.0\.0\.1:\d+", line) for line in server.stdout)), None)
        assert started is not None, log.read_text(encoding="utf-8")
        yield started[0]
    finally:
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=120)
