"""Turns in projects that are set up in other ways."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import include, path
from rest_framework.exceptions import PermissionDenied

from chatmemory import AiMessage
from chatmemory.assistant import Assistant
from chatmemory.models import Conversation
from tests.support.api import url
from tests.support.turns import ask, chunks_of, said, stream, texts_of

HELLO = Assistant(lambda messages, tools: AiMessage("Hello"))
NOTHING = None


def closed(request: Any) -> Assistant:
    """A project's own rule."""
    raise PermissionDenied("The assistant is asleep.")


def broken(request: Any) -> Assistant:
    """Return something else."""
    return HELLO.chat  # type: ignore[return-value]


def own_view(request: HttpRequest, pk: Any) -> HttpResponse:
    """A view of the project's own."""
    return HttpResponse(HELLO.chat(Conversation.objects.get(pk=pk), "Hi").text)


@transaction.non_atomic_requests
def cured_view(request: HttpRequest, pk: Any) -> HttpResponse:
    """The same, as the error says."""
    return own_view(request, pk)


urlpatterns = [
    path("api/", include("chatmemory.urls")),
    path("own/<uuid:pk>/", own_view),
    path("cured/<uuid:pk>/", cured_view),
]


def named(settings: Any, name: str | None) -> None:
    settings.CHATMEMORY = {**settings.CHATMEMORY, "ASSISTANT": name and f"tests.turns.test_projects.{name}"}


@pytest.mark.django_db
class TestAssistant:
    def test_it_may_be_an_object(self, api: Client, conversation: Conversation, settings: Any) -> None:
        named(settings, "HELLO")
        assert ask(api, conversation, "Hi").json()["answer"]["text"] == "Hello"

    def test_its_function_may_refuse(self, api: Client, conversation: Conversation, settings: Any) -> None:
        named(settings, "closed")
        for take in (ask, stream):
            answer = take(api, conversation, "Hi")
            assert (answer.status_code, answer.json()["detail"]) == (403, "The assistant is asleep.")
        assert said(conversation) == []

    @pytest.mark.parametrize(
        ("name", "problem"),
        [("broken", "must return an Assistant"), ("nowhere", "nowhere"), ("NOTHING", "NOTHING")],
    )
    def test_a_wrong_one_says_what_is_wrong(
        self, api: Client, conversation: Conversation, settings: Any, name: str, problem: str
    ) -> None:
        named(settings, name)
        for take in (ask, stream):
            with pytest.raises(ImproperlyConfigured, match=rf"CHATMEMORY\['ASSISTANT'\].*{problem}"):
                take(api, conversation, "Hi")
        assert said(conversation) == []

    def test_one_that_was_taken_away_is_not_found(self, api: Client, conversation: Conversation, settings: Any) -> None:
        named(settings, None)
        answer = ask(api, conversation, "Hi")
        assert (answer.status_code, "ASSISTANT" in answer.json()["detail"]) == (404, True)
        assert api.delete(url(conversation, "turns/")).status_code == 404

    @pytest.mark.slow
    def test_pages_for_a_browser(self, api: Client, conversation: Conversation) -> None:
        ask(api, conversation, "Hello")
        answer = api.get(url(conversation, "turns/"), headers={"accept": "text/html"})
        assert (answer.status_code, answer["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert b"You said: Hello" in answer.content


WITHOUT_ASSISTANT = """
import django
from django.conf import settings
from tests.settings import base as own

names = {name: getattr(own, name) for name in dir(own) if name.isupper()}
names["CHATMEMORY"] = {}
names["DATABASES"] = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
names["ALLOWED_HOSTS"] = ["*"]
settings.configure(**names)
django.setup()
from django.core.management import call_command

call_command("check")
call_command("migrate", verbosity=0)
from django.contrib.auth import get_user_model
from django.test import Client
from chatmemory.models import Conversation
from chatmemory.urls import urlpatterns

user = get_user_model().objects.create(username="s")
mine = Conversation.objects.create(owner=user)
client = Client()
client.force_login(user)
assert not [route.name for route in urlpatterns if "turn" in route.name]
assert client.get(f"/api/conversations/{mine.pk}/turns/").status_code == 404
document = client.get("/api/schema/").json()
assert not [path for path in document["paths"] if "turns" in path], document["paths"].keys()
assert "turns" not in [tag["name"] for tag in document["tags"]]
assert "takeTurn" not in str(document), "a link leads nowhere"
names = document["components"]["schemas"]
left = [name for name in names if "Turn" in name or name in {"UIMessages", "UseChatRequest"}]
assert not left, left
"""


@pytest.mark.slow
def test_without_an_assistant_there_are_no_routes() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_ASSISTANT], check=True)


@pytest.mark.urls("tests.turns.test_projects")
@pytest.mark.django_db(transaction=True)
class TestAtomicRequests:
    @pytest.fixture(autouse=True)
    def _atomic_requests(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)

    def test_turns_are_in_no_transaction(self, api: Client, conversation: Conversation) -> None:
        assert ask(api, conversation, "Hello").json()["answer"]["text"] == "You said: Hello"
        assert texts_of(chunks_of(stream(api, conversation, "Bye"))) == "You said: Bye"
        assert api.get(url(conversation, "turns/stream/")).status_code == 204

    def test_a_view_of_ones_own_is_told_the_cure(self, api: Client, conversation: Conversation) -> None:
        with pytest.raises(RuntimeError, match=r"transaction\.non_atomic_requests"):
            api.get(f"/own/{conversation.pk}/")
        assert said(conversation) == []
        assert api.get(f"/cured/{conversation.pk}/").content == b"Hello"
