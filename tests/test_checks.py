"""The system checks of a project's apps and databases, and what they say before anything else can fail."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from django.core.checks import run_checks
from django.test import Client, override_settings

# Checks of other apps ask every database what it can do.
pytestmark = pytest.mark.django_db(databases="__all__")

CHECK = """
import os
from django.core.management import execute_from_command_line
from tests.settings import base
base.CHATMEMORY = {given}
os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings.base"
execute_from_command_line(["manage.py", "check"])
"""


def found() -> list[Any]:
    return [error for error in run_checks() if error.id.startswith("chatmemory.")]


@pytest.mark.parametrize("given", ["[]", "None"])
def test_settings_that_are_no_dict_are_reported_by_the_check(given: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHECK.format(given=given)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "chatmemory.E001" in done.stderr
    assert f"CHATMEMORY is not a dict, but: {given}." in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["rest_framework", "django_filters"])
def test_an_app_that_pages_need(settings: Any, client: Client, admin_user: Any, name: str) -> None:
    assert found() == []
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app != name]
    [error] = found()
    assert error.id == "chatmemory.E024"
    assert f'Add "{name}" to INSTALLED_APPS' in error.hint
    client.raise_request_exception = False
    client.force_login(admin_user)
    assert client.get("/api/conversations/", headers={"accept": "text/html"}).status_code == 500
    with override_settings(REST_FRAMEWORK={"DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"]}):
        assert found() == []


@pytest.mark.parametrize("urls", ["", "tests.support.urls"])
def test_without_the_api_no_app_is_missing(settings: Any, urls: str) -> None:
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app != "rest_framework"]
    settings.ROOT_URLCONF = urls or "django.contrib.auth.urls"
    assert [error.id for error in found()] == (["chatmemory.E024"] if urls else [])


class Elsewhere:
    """A router that sends one model to a database of its own."""

    def __init__(self, label: str) -> None:
        self.label = label

    def db_for_write(self, model: Any, **hints: Any) -> str | None:
        return "elsewhere" if model._meta.label == self.label else None


@pytest.mark.parametrize("label", ["chatmemory.Conversation", "chatmemory.Message", "chatmemory_langgraph.Namespace"])
def test_one_database_has_the_users_and_all_tables(settings: Any, label: str) -> None:
    settings.DATABASE_ROUTERS = [Elsewhere(label)]
    [error] = found()
    assert error.id == "chatmemory.E025"
    assert error.msg == f"{label} is written to the database 'elsewhere', but auth.User to 'default'."
    assert "DATABASE_ROUTERS" in error.hint
