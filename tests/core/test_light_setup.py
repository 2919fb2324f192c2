"""What ``django.setup()`` imports of this app, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.paths import ROOT

SETUP = """
import json, sys
from django.conf import settings

apps = ["admin", "auth", "contenttypes", "sessions", "messages"]
settings.configure(
    INSTALLED_APPS=[*(f"django.contrib.{app}" for app in apps), "rest_framework", "django_filters", "chatmemory"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
)
import django

django.setup()
print(json.dumps(sorted(sys.modules)))
"""

WITHOUT_REST = """
import django
from django.conf import settings

apps = ["admin", "auth", "contenttypes", "sessions", "messages"]
contexts = ["django.template.context_processors.request"]
contexts += [f"django.contrib.{app}.context_processors.{app}" for app in ("auth", "messages")]
settings.configure(
    SECRET_KEY="only for this test",
    ROOT_URLCONF="__main__",
    ALLOWED_HOSTS=["testserver"],
    STATIC_URL="/static/",
    INSTALLED_APPS=[*(f"django.contrib.{app}" for app in apps), "chatmemory"],
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
    ],
    TEMPLATES=[
        {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "APP_DIRS": True,
            "OPTIONS": {"context_processors": contexts},
        }
    ],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
)
django.setup()

from django.contrib import admin
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.urls import path

from chatmemory import UserMessage
from chatmemory.models import Conversation

urlpatterns = [path("admin/", admin.site.urls)]
call_command("check")
call_command("migrate", verbosity=0)
conversation = Conversation.objects.create()
conversation.memory.add(UserMessage("Hello, anybody?"))
client = Client()
client.force_login(User.objects.create_superuser("boss"))
print(client.get(f"/admin/chatmemory/conversation/{conversation.pk}/change/").content.decode())
"""

OURS = {
    *(
        "addresses",
        "admin",
        "apps",
        "branches",
        "capabilities",
        "checks",
        "conf",
        "core",
        "database",
        "models",
        "signals",
        "staff",
    ),
}
"""The modules and folders that a process needs before its first request."""

FORMATS = {"media", "registry", "schemas"}
"""Of ``chatmemory.formats``: names, and links to media. The rest is imported with the first message of a format."""


@pytest.mark.slow
def test_setup_imports_no_format_no_model_no_importer_and_no_tokeniser() -> None:
    imported = json.loads(printed(SETUP))
    parts = [name.split(".") for name in imported if name.startswith("chatmemory.")]
    assert {part[1] for part in parts} <= OURS | {"formats"}
    assert {part[2] for part in parts if part[1] == "formats" and len(part) > 2} <= FORMATS
    assert {part[2] for part in parts if part[1] == "branches" and len(part) > 2} == {"capability", "methods"}
    assert not [name for name in imported if name.startswith(("chatmemory.database.op", "chatmemory.admin.views.ch"))]
    heavy = {"anthropic", "google", "langchain_core", "openai", "pydantic", "regex", "requests", "tiktoken"}
    assert heavy.isdisjoint(name.split(".")[0] for name in imported)
    assert not [name for name in imported if name.split(".")[0] == "rest_framework" and name.count(".") > 1]


@pytest.mark.slow
def test_the_app_works_in_a_project_without_rest_framework() -> None:
    assert "Hello, anybody?" in printed(WITHOUT_REST)


def printed(program: str) -> str:
    """What a program prints in a process of its own."""
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120).stdout
