"""The API in projects that are set up in other ways."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.test import Client
from django.urls import include, path
from django.utils import timezone
from rest_framework import authentication
from rest_framework.exceptions import APIException
from rest_framework.settings import api_settings

from chatmemory import UserMessage
from chatmemory.models import Conversation
from chatmemory.urls import urlpatterns as routes
from tests.support.api import USER, patch, post, put, send, url
from tests.support.factories import ConversationFactory

urlpatterns = [
    path("api/", include("chatmemory.urls")),
    path("<slug:tenant>/memory/", include("chatmemory.urls", namespace="by-tenant")),
    path("nested/", include(([path("v1/", include("chatmemory.urls"))], "nested"))),
]


@pytest.mark.slow
@pytest.mark.urls("tests.rest.test_projects")
@pytest.mark.parametrize("prefix", ["/api", "/acme/memory", "/nested/v1"])
def test_the_api_may_be_anywhere(api: Client, prefix: str) -> None:
    made = post(api, f"{prefix}/conversations/", {"memory_id": "x"})
    assert made["Location"] == f"http://testserver{prefix}/conversations/{made.json()['id']}/"
    base = made["Location"]
    assert post(api, f"{base}messages/", USER).status_code == 201
    for part in ("", "messages/", "messages/0/", "memory/"):
        assert api.get(base + part).status_code == 200
    assert post(api, f"{base}memory/preview/", {}).status_code == 200
    assert put(api, f"{base}memory/", {"messages": []}).status_code == 200
    assert patch(api, base, {"title": "x"}).status_code == 200
    assert put(api, f"{prefix}/stores/x/", [USER]).status_code == 204
    assert api.get(f"{prefix}/stores/x/").json() == [USER]
    assert api.get(f"{prefix}/schema/").json()["servers"] == [{"url": prefix}]
    assert api.delete(f"{prefix}/stores/x/").status_code == 204
    assert api.delete(f"{base}memory/").status_code == 204
    assert api.delete(base).status_code == 204


def acts(api: Client, conversation: Conversation) -> list[tuple[str, int]]:
    """Every route with every method, and how it was answered."""
    values = {"conversation_id": conversation.pk, "position": 0, "message_id": 0, "memory_id": conversation.memory_id}
    found = []
    for route in routes:
        address = "/api/" + str(route.pattern)
        for name, converter in route.pattern.converters.items():
            kind = "str" if type(converter).__name__ == "StringConverter" else "chatmemory_memory_id"
            address = address.replace(f"<{kind}:{name}>", str(values[name]))
        for method in ("GET", "POST", "PUT", "PATCH"):
            body = [USER] if "stores" in address else {"messages": [USER]} if "messages" in address else {}
            found.append((f"{method} {address}", send(api, method, address, body).status_code))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", ["DjangoModelPermissions", "DjangoObjectPermissions"])
def test_model_permissions(api: Client, user: Any, settings: Any, grant: Any, name: str) -> None:
    settings.CHATMEMORY = {**settings.CHATMEMORY, "PERMISSION_CLASSES": [f"rest_framework.permissions.{name}"]}
    conversation = ConversationFactory(owner=user)
    conversation.memory.add(UserMessage("u"))
    assert {status for act, status in acts(api, conversation) if not act.startswith("GET")} <= {403, 405}
    grant("add", "change", "view")
    if name == "DjangoModelPermissions":
        assert {status for _, status in acts(api, conversation)} <= {200, 201, 204, 400, 405, 409}
    else:
        assert {status for _, status in acts(api, conversation)} <= {200, 201, 204, 400, 403, 404, 405, 409}


class Claims:
    """What stands for a user without asking the database, as with tokens that carry it."""

    is_authenticated = True
    is_staff = False

    def __init__(self, pk: Any) -> None:
        self.pk = pk


class ByHeader(authentication.BaseAuthentication):
    """Believes what it is told."""

    def authenticate(self, request: Any) -> Any:
        key = request.headers.get("X-User")
        return (Claims(key), None) if key else None


@pytest.fixture
def rest_framework(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets REST framework's settings, also those that its classes have read already."""

    def change(**changed: Any) -> None:
        settings.REST_FRAMEWORK = changed
        for route in routes:
            if "authentication_classes" in changed:
                monkeypatch.setattr(route.callback.cls, "authentication_classes", changed["authentication_classes"])

    return change


def test_a_user_who_is_no_row(user: Any, client: Client, rest_framework: Any, db: None) -> None:
    rest_framework(authentication_classes=[ByHeader])
    made = send(client, "POST", "/api/conversations/", {"memory_id": "x"}, x_user=str(user.pk))
    assert made.status_code == 201
    assert Conversation.objects.get().owner == user
    assert client.get("/api/conversations/", headers={"X-User": str(user.pk)}).json()["results"] == [made.json()]
    assert put(client, "/api/stores/x/", [USER], x_user=str(user.pk)).status_code == 204
    assert client.get("/api/conversations/", headers={"X-User": "0"}).status_code == 404


@pytest.mark.parametrize("changed", [{"UNAUTHENTICATED_USER": None}, {}])
def test_nobody(client: Client, settings: Any, rest_framework: Any, changed: Any, db: None) -> None:
    rest_framework(**changed)
    settings.CHATMEMORY = {"USERS": "all", "PERMISSION_CLASSES": ["rest_framework.permissions.AllowAny"]}
    assert client.get("/api/conversations/").json()["results"] == []
    assert post(client, "/api/conversations/", {}).status_code == 403
    assert client.get("/api/conversations/?owner=1").status_code == 404


class PlanExpired:
    """A rule of the project, as Django's own code would say it."""

    def has_permission(self, request: Any, view: Any) -> bool:
        raise PermissionDenied("Your plan has expired.")


def test_djangos_own_refusals_are_problems_too(api: Client, settings: Any) -> None:
    settings.CHATMEMORY = {"USERS": "all", "PERMISSION_CLASSES": ["tests.rest.test_projects.PlanExpired"]}
    answer = api.get("/api/conversations/")
    assert answer["Content-Type"] == "application/problem+json"
    assert answer.json() == {
        "type": "about:blank",
        "title": "Forbidden",
        "status": 403,
        "code": "permission_denied",
        "detail": "Your plan has expired.",
        "params": {},
    }


class PaymentDue(APIException):
    """An error of the project's, with a type and members of its own."""

    status_code = 402
    default_detail = "Pay for 100% of it."
    default_code = "payment_due"
    type = "urn:shop:payment-due"
    members = {"price": 5}


class UnpaidPlan:
    def has_permission(self, request: Any, view: Any) -> bool:
        raise PaymentDue({} if request.query_params else None)


@pytest.mark.parametrize("query", ["", "?owner=1"])
def test_the_type_and_the_members_of_a_projects_error(api: Client, settings: Any, query: str) -> None:
    settings.CHATMEMORY = {"USERS": "all", "PERMISSION_CLASSES": ["tests.rest.test_projects.UnpaidPlan"]}
    assert api.get(f"/api/conversations/{query}").json() == {
        "type": "urn:shop:payment-due",
        "title": "Payment Required",
        "status": 402,
        "code": "payment_due",
        "detail": "Pay for 100% of it.",
        "params": {},
        "price": 5,
    }


def test_formats_and_names_of_the_projects_choice(api: Client, rest_framework: Any) -> None:
    rest_framework(DATETIME_FORMAT=None, NON_FIELD_ERRORS_KEY="__all__", ORDERING_PARAM="sort")
    assert api_settings.DATETIME_FORMAT is None
    first = post(api, "/api/conversations/", {}, idempotency_key="k")
    assert (first.status_code, post(api, "/api/conversations/", {}, idempotency_key="k").json()) == (201, first.json())
    assert post(api, "/api/conversations/", []).json()["errors"][0]["place"] == ""
    assert api.get("/api/conversations/?ordering=created_at").status_code == 200


def test_without_time_zones(api: Client, user: Any, settings: Any) -> None:
    settings.USE_TZ = False
    conversation = ConversationFactory(owner=user)
    conversation.memory.add(UserMessage("u"))
    before = (timezone.now() - timedelta(hours=1)).astimezone().isoformat()
    for address in ("/api/conversations/", url(conversation, "messages/")):
        assert len(api.get(address, {"created_after": before}).json()["results"]) == 1
        assert len(api.get(address, {"created_before": before}).json()["results"]) == 0
    ConversationFactory(owner=user)
    page = api.get("/api/conversations/?page_size=1").json()
    assert len(api.get(page["next"]).json()["results"]) == 1


def test_the_projects_renderers_are_for_its_own_shapes(api: Client) -> None:
    formats = {renderer.format for route in routes[:7] for renderer in route.callback.cls.renderer_classes}
    assert formats == {"json", "api"}
    assert api.get("/api/conversations/").headers["Content-Type"] == "application/json"
