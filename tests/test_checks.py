"""The system checks of a project's apps and databases, and what they say before anything else can fail."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from anthropic import Anthropic
from django.apps import apps
from django.core.checks import run_checks
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.test import Client, override_settings
from google.genai import Client as GeminiClient
from openai import AsyncOpenAI

from chatmemory import AiMessage
from chatmemory.assistant import Assistant, ChatModelSummarizer
from chatmemory.assistant.anthropic import AnthropicChatModel
from chatmemory.assistant.gemini import GeminiChatModel
from chatmemory.assistant.openai import OpenAiChatModel

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


@pytest.mark.slow
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
    assert error.msg == f"{label} is in the database 'elsewhere', but auth.User is in 'default'."
    assert "DATABASE_ROUTERS" in error.hint


def answer(messages: Any, tools: Any) -> AiMessage:
    return AiMessage("Hello")


def summarize(messages: Any, previous: Any) -> str:
    return "All of it"


with_function = Assistant(answer)
with_openai = Assistant(OpenAiChatModel("gpt-5"))
with_anthropic = Assistant(AnthropicChatModel("claude-opus-4-5"))
with_gemini = Assistant(GeminiChatModel("gemini-2.5-flash"))
summarizer = ChatModelSummarizer(OpenAiChatModel("gpt-5"))
with_summarizer = Assistant(answer, summarizer=summarizer)
with_summarizing_function = Assistant(answer, summarizer=summarize)
with_openai_client = Assistant(OpenAiChatModel("gpt-5", async_client=AsyncOpenAI(api_key="k")))
with_anthropic_client = Assistant(AnthropicChatModel("claude-opus-4-5", client=Anthropic(api_key="k")))
with_gemini_client = Assistant(GeminiChatModel("gemini-2.5-flash", client=GeminiClient(api_key="k")))


def of_request(request: Any) -> Assistant:
    raise AssertionError("a check has no request")


class OfRequest(Assistant):
    """An assistant that is made for each request, so that the class is the function which returns one."""

    def __init__(self, request: Any) -> None:
        super().__init__(OpenAiChatModel("gpt-5"))


KEYS = {
    "with_openai": ["OPENAI_API_KEY", "OPENAI_ADMIN_KEY"],
    "with_summarizer": ["OPENAI_API_KEY", "OPENAI_ADMIN_KEY"],
    "with_anthropic": ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE"],
    "with_gemini": ["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"],
}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """An environment without keys, and without files of a user who has signed in."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in list(os.environ):
        if name.startswith(("ANTHROPIC_", "GEMINI_", "GOOGLE_", "OPENAI_")):
            monkeypatch.delenv(name)
    return monkeypatch


def named(name: str) -> str:
    return f"{__name__}.{name}"


@pytest.mark.parametrize(("name", "key"), [(name, key) for name, keys in KEYS.items() for key in keys])
def test_a_missing_key_is_told_before_the_first_turn(
    settings: Any, environment: pytest.MonkeyPatch, name: str, key: str
) -> None:
    settings.CHATMEMORY = {"ASSISTANT": named(name), "WINDOW": {"compact_at": 80}, "SUMMARIZER": named("summarize")}
    environment.setenv(key, "")
    [warning] = found()
    assert warning.id == "chatmemory.W034"
    place = f"CHATMEMORY['ASSISTANT'], '{named(name)}'"
    assert warning.msg == f"{place}, has no API key: the environment variable {KEYS[name][0]} is not set."
    assert KEYS[name][0] in warning.hint
    environment.setenv(key, "secret")
    assert found() == []


def test_a_profile_on_disk_is_in_place_of_a_key(settings: Any, tmp_path: Path) -> None:
    settings.CHATMEMORY = {"ASSISTANT": named("with_anthropic")}
    assert [warning.id for warning in found()] == ["chatmemory.W034"]
    profile = tmp_path / ".config" / "anthropic" / "configs" / "default.json"
    profile.parent.mkdir(parents=True)
    profile.write_text('{"authentication": {"type": "user_oauth"}}')
    profile.chmod(0o600)
    assert found() == []


def test_the_summarizer_of_a_project_needs_a_key_too(settings: Any, environment: pytest.MonkeyPatch) -> None:
    settings.CHATMEMORY = {"SUMMARIZER": named("summarizer"), "WINDOW": {"compact_at": 80}}
    [warning] = found()
    assert (warning.id, "CHATMEMORY['SUMMARIZER']" in warning.msg) == ("chatmemory.W034", True)
    environment.setenv("OPENAI_API_KEY", "secret")
    assert found() == []


@pytest.mark.parametrize(
    "name",
    ["with_function", "with_openai_client", "with_anthropic_client", "with_gemini_client", "of_request", "OfRequest"],
)
def test_no_key_is_missing_where_none_is_read(settings: Any, name: str) -> None:
    settings.CHATMEMORY = {"ASSISTANT": named(name)}
    assert found() == []


@pytest.mark.parametrize(
    ("given", "fine"),
    [
        ({"WINDOW": {"limit": 2_000_001}}, {"WINDOW": {"limit": 2_000_000}}),
        ({"MAX_LIMIT": 3_999}, {"MAX_LIMIT": 4_000}),
        ({"WINDOW": {"window": "messages"}, "MAX_LIMIT": 19}, {"WINDOW": {"window": "messages"}, "MAX_LIMIT": 20}),
    ],
    ids=str,
)
def test_a_limit_that_rest_refuses_is_no_default(settings: Any, given: Any, fine: Any) -> None:
    settings.CHATMEMORY = given
    [error] = found()
    assert error.id == "chatmemory.E033"
    assert f"is {given.get('WINDOW', {}).get('limit', fine.get('MAX_LIMIT'))}, more than" in error.msg
    assert "the limit in WINDOW" in error.hint
    settings.CHATMEMORY = fine
    assert found() == []


@pytest.mark.parametrize("given", [[], ()], ids=str)
def test_nobodys_permission_is_checked_only_on_purpose(settings: Any, given: Any) -> None:
    settings.CHATMEMORY = {"PERMISSION_CLASSES": given}
    [warning] = found()
    assert warning.id == "chatmemory.W035"
    assert '["rest_framework.permissions.AllowAny"]' in warning.hint
    settings.CHATMEMORY = {"PERMISSION_CLASSES": ["rest_framework.permissions.AllowAny"]}
    assert found() == []


@pytest.mark.parametrize(
    ("given", "ids"),
    [
        ({"WINDOW": {"compact_at": 80}}, ["W036"]),
        ({"WINDOW": {"compact_at": 80}, "ASSISTANT": "with_function"}, ["W036"]),
        ({"WINDOW": {"compact_at": 80}, "ASSISTANT": "with_summarizing_function"}, []),
        ({"WINDOW": {"compact_at": 80}, "SUMMARIZER": "summarize"}, []),
        ({"WINDOW": {"compact_at": 80}, "ASSISTANT": "of_request"}, []),  # nobody knows what it returns
        ({"WINDOW": {"compact_at": 80}, "ASSISTANT": "OfRequest"}, []),
        ({"SUMMARIZER": "summarize"}, ["W037"]),
        ({"ASSISTANT": "with_summarizing_function"}, ["W037"]),
        ({"ASSISTANT": "with_function"}, []),
        ({"ASSISTANT": "of_request"}, []),
    ],
    ids=str,
)
def test_summaries_need_a_summarizer_and_a_mark(settings: Any, given: Any, ids: list[str]) -> None:
    settings.CHATMEMORY = {key: named(value) if isinstance(value, str) else value for key, value in given.items()}
    warnings = found()
    assert [warning.id for warning in warnings] == [f"chatmemory.{id}" for id in ids]
    assert all("Set " in warning.hint for warning in warnings)


def test_what_cannot_be_imported_is_one_error(settings: Any) -> None:
    settings.CHATMEMORY = {"ASSISTANT": "nobody.knows", "WINDOW": {"compact_at": 80}, "PERMISSION_CLASSES": []}
    assert [error.id for error in found()] == ["chatmemory.E032"]


@pytest.mark.parametrize("command", ["makemigrations", "migrate"])
@pytest.mark.parametrize("key", ["ASSISTANT", "STAFF_CONVERSATIONS", "SUMMARIZER"])
def test_a_path_that_leads_nowhere_stops_commands_before_they_change_anything(
    settings: Any, command: str, key: str
) -> None:
    settings.CHATMEMORY = {key: "shop.nobody.wrote_it"}
    with pytest.raises(SystemCheckError, match=f"'{key}'.*'shop' raises ModuleNotFoundError: No module named 'shop'"):
        call_command(command, skip_checks=False)


def test_an_import_alone_gives_chatmemory_no_tables() -> None:
    """``makemigrations`` and ``flush`` would take the models of an app that is not installed for chatmemory's."""
    for name in ("citus", "langgraph", "pydantic_ai"):
        importlib.import_module(f"chatmemory.contrib.{name}.models")
    assert {model.__module__.split(".")[1] for model in apps.get_app_config("chatmemory").get_models()} == {"models"}


TOKEN, SESSION = (f"rest_framework.authentication.{kind}Authentication" for kind in ("Token", "Session"))


@pytest.mark.parametrize(
    ("classes", "template", "ids"),
    [
        ([TOKEN], "{% chatmemory_chat conversation %}", ["chatmemory.W045"]),
        ([], "{%chatmemory_conversations%}", ["chatmemory.W045"]),
        ([TOKEN, SESSION], "{% chatmemory_chat conversation %}", []),
        ([TOKEN], "chatmemory_chat", []),
    ],
)
def test_a_chat_needs_an_api_that_reads_sessions(
    settings: Any, tmp_path: Path, classes: list[str], template: str, ids: list[str]
) -> None:
    (tmp_path / "page.html").write_text(template)
    settings.TEMPLATES = [{**settings.TEMPLATES[0], "DIRS": [tmp_path]}]
    settings.REST_FRAMEWORK = {"DEFAULT_AUTHENTICATION_CLASSES": classes}
    warnings = found()
    assert [warning.id for warning in warnings] == ids
    assert all(str(tmp_path / "page.html") in warning.msg and SESSION in warning.hint for warning in warnings)
    settings.ROOT_URLCONF = "tests.chat.test_panel"  # without the API
    assert found() == []
