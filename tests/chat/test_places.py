"""The tags find the REST API wherever a project has it: below namespaces, and below arguments of addresses."""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

import pytest
from django.contrib import admin
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.template import engines
from django.test import Client, RequestFactory
from django.urls import include, path, re_path
from django.utils.module_loading import import_string
from rest_framework.views import APIView

from chatmemory import UserMessage
from chatmemory.models import Conversation
from tests.support.api import post
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db

API = include("chatmemory.urls")
CHAT = "{% chatmemory_chat conversation %}"
LIST = "{% chatmemory_conversations %}"


def page(body: str) -> Any:
    def view(request: HttpRequest, pk: Any = None, **kwargs: Any) -> HttpResponse:
        shown = {} if pk is None else {"conversation": get_object_or_404(Conversation, pk=pk)}
        return HttpResponse(engines["django"].from_string("{% load chatmemory %}" + body).render(shown, request))

    return view


@pytest.fixture
def project(settings: Any) -> Any:
    """Makes a project with these URLs, in addition to a page ``chat/<pk>/``, whose body is the first argument."""

    def choose(body: str, *urls: Any) -> None:
        module = ModuleType("urls_of_a_project")
        module.urlpatterns = [path("chat/<uuid:pk>/", page(body), name="chat"), *urls]  # type: ignore[attr-defined]
        settings.ROOT_URLCONF = module

    return choose


@pytest.fixture
def conversation(user: Any) -> Conversation:
    made: Conversation = ConversationFactory.create(owner=user)
    made.memory.add(UserMessage("Hi"))
    return made


def addresses(client: Client, address: str) -> list[str]:
    """The addresses of the API on a page, all of which answer."""
    response = client.get(address)
    assert response.status_code == 200
    found = re.findall('data-(?:address|url)="([^"]+)"', response.content.decode())
    assert found
    assert {client.get(each).status_code for each in found} == {200}
    return found


@pytest.mark.parametrize("body", [CHAT, LIST])
@pytest.mark.parametrize(
    ("url", "start"),
    [
        (path("v1/", include(([path("api/", API)], "v1"))), "/v1/api/"),
        (path("a/", include(([path("b/", include(([path("api/", API)], "inner")))], "outer"))), "/a/b/api/"),
        (path("api/", include("chatmemory.urls", namespace="memory")), "/api/"),
        (path("api/", include(("chatmemory.urls", "other"))), "/api/"),
    ],
)
def test_below_namespaces(
    api: Client, conversation: Conversation, project: Any, body: str, url: Any, start: str
) -> None:
    project(body, url)
    assert addresses(api, f"/chat/{conversation.pk}/")[0].startswith(f"{start}conversations/")


def test_of_several_the_one_beside_the_page_is_used(api: Client, conversation: Conversation, project: Any) -> None:
    def version(name: str, body: str = CHAT) -> Any:
        return path(f"{name}/", include(([path("api/", API), path("chat/<uuid:pk>/", page(body))], name)))

    project(CHAT, version("v1"), version("v2"), version("v3", '{% chatmemory_chat conversation api="v1:chatmemory" %}'))
    for place, used in (("", "v1"), ("v1/", "v1"), ("v2/", "v2"), ("v3/", "v1")):
        found = addresses(api, f"/{place}chat/{conversation.pk}/")
        assert found[0].startswith(f"/{used}/api/"), place


TENANT = "<slug:tenant>/api/"


@pytest.mark.parametrize("url", [path(TENANT, API), re_path("^(?P<tenant>[a-z]+)/api/", API)])
@pytest.mark.parametrize("body", [CHAT, LIST, '{% chatmemory_conversations url_name="room" %}'])
def test_below_arguments_of_the_page(
    api: Client, conversation: Conversation, project: Any, body: str, url: Any
) -> None:
    project(CHAT, url, path("<slug:tenant>/room/<uuid:pk>/", page(body), name="room"))
    assert addresses(api, f"/acme/room/{conversation.pk}/")[0].startswith("/acme/api/conversations/")
    if body != CHAT:
        shown = api.get(f"/acme/room/{conversation.pk}/").content.decode()
        assert "/acme/room/00000000-0000-0000-0000-000000000000/" in shown


def test_arguments_are_passed_to_the_tag(api: Client, conversation: Conversation, project: Any) -> None:
    project('{% chatmemory_chat conversation tenant="acme" %}', path(TENANT, API))
    assert addresses(api, f"/chat/{conversation.pk}/")[0].startswith("/acme/api/conversations/")


@pytest.mark.parametrize(
    ("body", "url", "said"),
    [
        (CHAT, path("admin/", admin.site.urls), r'add path\("api/", include\("chatmemory\.urls"\)\)'),
        (CHAT, path(TENANT, API), r"chatmemory_chat needs tenant: .*\{% chatmemory_chat … tenant=… %\}"),
        (LIST, path(TENANT, API), r"chatmemory_conversations needs tenant: "),
        ('{% chatmemory_chat conversation tenant="a/b" %}', path(TENANT, API), "cannot make an address"),
        ("{% chatmemory_chat conversation tenat=1 %}", path("api/", API), "unexpected argument 'tenat'"),
        (
            '{% chatmemory_chat conversation api="v2" %}',
            path("api/", API),
            "namespace 'v2'; expected one of: chatmemory",
        ),
    ],
)
def test_errors_say_what_is_so(
    api: Client, conversation: Conversation, project: Any, body: str, url: Any, said: str
) -> None:
    project(body, url)
    with pytest.raises(ImproperlyConfigured, match=said):
        api.get(f"/chat/{conversation.pk}/")


def test_a_request_that_was_not_resolved_is_enough(user: Any, conversation: Conversation) -> None:
    request = RequestFactory().get("/")
    request.user = user
    template = engines["django"].from_string("{% load chatmemory %}" + CHAT)
    assert f"/api/conversations/{conversation.pk}/" in template.render({"conversation": conversation}, request)


@pytest.mark.parametrize("versioning", ["NamespaceVersioning", "URLPathVersioning", None])
def test_links_in_responses_stay_in_the_same_place(
    api: Client, project: Any, conversation: Conversation, monkeypatch: pytest.MonkeyPatch, versioning: str | None
) -> None:
    if versioning == "URLPathVersioning":
        start, url = "/acme/v1/api/", path("<slug:tenant>/<version>/api/", API)
    else:
        start, url = "/acme/v1/api/", path("<slug:tenant>/v1/", include(([path("api/", API)], "v1")))
    project(CHAT, url)
    if versioning is not None:  # REST framework reads the setting only when it is imported
        monkeypatch.setattr(APIView, "versioning_class", import_string(f"rest_framework.versioning.{versioning}"))
    made = post(api, f"{start}conversations/", {"memory_id": "x"})
    assert made["Location"].partition("testserver")[2] == f"{start}conversations/{made.json()['id']}/"
    taken = post(api, f"{start}conversations/", {"memory_id": "x"}).json()
    assert taken["conversation"] == made["Location"]
    assert api.get(made["Location"]).status_code == 200
    listed = api.get(f"{start}conversations/?page_size=1").json()
    assert listed["next"].startswith(f"http://testserver{start}conversations/?")
    assert api.get(listed["next"]).status_code == 200
    assert post(api, f"{start}conversations/{conversation.pk}/fork/", {"at": 0}).status_code == 201
    called = api.get(start).json()["calls"]
    assert called[0]["url"] == f"http://testserver{start}conversations/"
