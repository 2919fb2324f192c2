"""The description of the API, held against the API."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.test import Client, override_settings
from django.urls import URLPattern, include, path
from django.utils import translation
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.settings import patched_settings
from drf_spectacular.validation import validate_schema
from jsonschema import Draft202012Validator, FormatChecker

from chatmemory.rest.openapi import openapi_document
from chatmemory.urls import urlpatterns
from tests.support.paths import ROOT
from tests.tools.write_openapi import FILE, openapi_text

DOCUMENT = openapi_document()
ROUTES = [pattern for pattern in urlpatterns if pattern.name not in {"root", "schema", "docs"}]
OPERATIONS = {
    operation["operationId"]: operation for methods in DOCUMENT["paths"].values() for operation in methods.values()
}


def test_the_committed_file_is_what_the_code_gives() -> None:
    assert FILE.read_text(encoding="utf-8") == openapi_text(), "run: python -m tests.tools.write_openapi"


@pytest.mark.slow
@pytest.mark.parametrize(
    "names",
    [
        {"OAS_VERSION": "3.1.0"},
        {"COMPONENT_SPLIT_REQUEST": True, "COMPONENT_NO_READ_ONLY_REQUIRED": True},
        {"ENUM_GENERATE_CHOICE_DESCRIPTION": False, "DISABLE_DOCSTRING_DESCRIPTIONS": True},
        {"ENFORCE_NON_BLANK_FIELDS": True, "GENERIC_ADDITIONAL_PROPERTIES": None},
    ],
    ids=lambda names: "+".join(names),
)
def test_the_settings_of_the_projects_own_document_change_nothing(names: dict[str, Any]) -> None:
    with patched_settings(names):
        assert openapi_document() == DOCUMENT


@pytest.mark.slow
@pytest.mark.parametrize("language", ["ja", "zh-hans"])
def test_it_is_in_english(language: str) -> None:
    with translation.override(language):
        assert openapi_document() == DOCUMENT


@pytest.mark.slow
def test_a_projects_own_document_has_it_too_and_changes_nothing() -> None:
    for _ in range(2):
        document = SchemaGenerator(patterns=[path("api/", include("chatmemory.urls"))]).get_schema(public=True)
        assert list(document["paths"]) == sorted(f"/api{path}" for path in DOCUMENT["paths"])
        assert DOCUMENT["components"]["schemas"].keys() <= document["components"]["schemas"].keys()
    assert openapi_document() == DOCUMENT


@pytest.mark.slow
def test_threads_do_not_mix() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            documents = list(threads.map(lambda _: openapi_document(), range(8)))
    finally:
        sys.setswitchinterval(interval)
    assert all(document == DOCUMENT for document in documents)


@pytest.mark.slow
def test_the_document_is_openapi_and_made_without_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    GENERATOR_STATS.reset()
    document = openapi_document()
    assert not GENERATOR_STATS
    assert capsys.readouterr().err == ""
    assert document["openapi"].startswith("3.1.")
    validate_schema(document)
    for schema in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("pattern", ROUTES, ids=lambda pattern: pattern.name)
def test_every_route_is_described_with_every_method(pattern: URLPattern) -> None:
    names = iter(pattern.pattern.converters)
    parts = str(pattern.pattern).split("/")
    path = "/" + "/".join(f"{{{next(names)}}}" if part.startswith("<") else part for part in parts)
    assert set(DOCUMENT["paths"][path]) == set(pattern.callback.actions) - {"head"}  # type: ignore[attr-defined]


def test_nothing_but_these_routes_is_described() -> None:
    assert len(DOCUMENT["paths"]) == len(ROUTES)


def deref(part: Any) -> Any:
    if "$ref" not in part:
        return part
    _, *keys = part["$ref"].split("/")
    found = DOCUMENT
    for key in keys:
        found = found[key]
    return found


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(operation["requestBody"], id=name)
        for name, operation in OPERATIONS.items()
        if "requestBody" in operation
    ],
)
def test_every_body_has_an_example_that_is_valid(body: dict[str, Any]) -> None:
    for content in body["content"].values():
        validator = Draft202012Validator(
            {**content["schema"], "components": DOCUMENT["components"]}, format_checker=FormatChecker()
        )
        assert content["examples"]
        for example in content["examples"].values():
            validator.validate(example["value"])


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_everything_is_explained(operation: dict[str, Any]) -> None:
    assert operation["summary"]
    assert all(parameter["description"] for parameter in operation["parameters"])
    assert all(deref(response)["description"] for response in operation["responses"].values())
    assert operation["security"]


@pytest.mark.slow
def test_a_text_of_which_nothing_is_left_is_not_described_as_valid() -> None:
    model = openapi_document()["components"]["schemas"]["NewConversation"]["properties"]["model"]
    characters = [chr(code) for code in range(sys.maxunicode + 1)]
    assert [each for each in characters if bool(re.search(model["pattern"], each)) != bool(each.strip())] == []


def test_links_lead_to_operations() -> None:
    links = [
        link for each in OPERATIONS.values() for r in each["responses"].values() for link in r.get("links", {}).values()
    ]
    assert len(links) > 12
    for link in links:
        known = {parameter["name"] for parameter in OPERATIONS[link["operationId"]]["parameters"]}
        assert set(link["parameters"]) <= known


def test_what_was_made_leads_to_all_calls_on_it() -> None:
    made = OPERATIONS["createConversation"]["responses"]["201"]["links"]
    one = {"/conversations/{conversation_id}/", "/stores/{memory_id}/"}
    calls = {
        operation["operationId"]
        for path, methods in DOCUMENT["paths"].items()
        if path.count("{") == 1 and path.startswith(tuple(one))
        for operation in methods.values()
    }
    assert set(made) == calls


@pytest.mark.parametrize("pattern", ROUTES, ids=lambda pattern: pattern.name)
def test_a_call_is_described_as_it_is_declared(pattern: URLPattern) -> None:
    for action in set(pattern.callback.actions.values()):  # type: ignore[attr-defined]
        method = getattr(pattern.callback.cls, action)  # type: ignore[attr-defined]
        declared, described = method.call, OPERATIONS[method.call.id]
        assert described["summary"] == method.__doc__.splitlines()[0].removesuffix(".")
        assert ("requestBody" in described) == (declared.body is not None)
        names = {parameter["name"] for parameter in described["parameters"]}
        assert names >= {"owner", *declared.parameters}
        for header, status in ("If-Match", "412"), ("Idempotency-Key", "422"), ("If-None-Match", "304"):
            found = (header in names, status in described["responses"])
            assert found == ((header in declared.headers,) * 2), header


@pytest.mark.parametrize("name", OPERATIONS)
def test_no_body_has_fields_that_are_not_described(name: str) -> None:
    """But for that of ``useChat``, which sends more than is read."""
    body = OPERATIONS[name].get("requestBody")
    if body is None:
        return
    schema = deref(body["content"]["application/json"]["schema"])
    loose = [
        each
        for each in map(deref, schema.get("anyOf", [schema]))
        if each.get("type") == "object" and each.get("additionalProperties") is not False
    ]
    assert [each["required"] for each in loose] == ([["messages"]] if name == "takeTurn" else [])


@pytest.mark.slow
def test_the_schema_is_served_with_the_place_of_the_api(api: Client) -> None:
    answer = api.get("/api/schema/")
    assert answer["Content-Type"] == "application/json"
    assert answer.json() == json.loads(FILE.read_text(encoding="utf-8"))
    assert answer.json()["servers"] == [{"url": "/api"}]
    assert api.get("/api/schema/", headers={"Accept": "application/vnd.oai.openapi"}).content.startswith(
        b"openapi: 3.1"
    )


def test_the_page_loads_nothing_from_elsewhere(api: Client) -> None:
    page = api.get("/api/docs/").content.decode()
    assert "../schema/" in page
    assert "/static/drf_spectacular_sidecar/swagger-ui-dist/swagger-ui-bundle.js" in page
    assert "https://" not in page


def test_nothing_on_the_page_is_inline(api: Client) -> None:
    page = api.get("/api/docs/").content.decode()
    assert re.findall(r"<style|\sstyle=|\son\w+=", page) == []
    scripts = re.findall(r"<script([^>]*)>", page)
    assert len(scripts) == 3
    assert all("src=" in each or 'type="application/json"' in each for each in scripts)


def test_the_root_lists_every_call_and_leads_to_the_page(api: Client) -> None:
    root = api.get("/api/").json()
    assert root["documentation"] == {"url": "http://testserver/api/docs/"}
    calls = {(call["method"].lower(), call["url"].removeprefix("http://testserver/api")) for call in root["calls"]}
    assert calls == {(method, path) for path, methods in DOCUMENT["paths"].items() for method in methods}
    assert {
        "method": "GET",
        "url": "http://testserver/api/conversations/",
        "summary": "List your conversations.",
    } in root["calls"]


@pytest.mark.slow
@pytest.mark.django_db
def test_both_are_behind_the_permissions_of_the_project(client: Client) -> None:
    answer = client.get("/api/schema/")
    assert (answer.status_code, answer["Content-Type"]) == (403, "application/problem+json")
    assert answer.json()["status"] == 403
    assert client.get("/api/docs/").status_code == 403
    assert client.get("/api/").status_code == 403
    with override_settings(CHATMEMORY={"USERS": "all", "PERMISSION_CLASSES": ["rest_framework.permissions.AllowAny"]}):
        assert client.get("/api/schema/").status_code == 200
        assert client.get("/api/docs/").status_code == 200


WITHOUT = """
import sys
{hide}
import django
from django.conf import settings
from tests.settings import base as own

names = {{name: getattr(own, name) for name in dir(own) if name.isupper()}}
names["INSTALLED_APPS"] = [app for app in own.INSTALLED_APPS if not app.startswith("drf_spectacular")]
settings.configure(**names, ALLOWED_HOSTS=["testserver"])
django.setup()
from django.core.management import call_command
from chatmemory.urls import urlpatterns

call_command("check")
found = [pattern.name for pattern in urlpatterns]
assert "conversation-list" in found and "store" in found
assert not set(found) & {{"schema", "docs"}}

from django.contrib.auth import get_user_model
from rest_framework.test import APIRequestFactory, force_authenticate
from chatmemory.rest.root import ApiRootView

request = APIRequestFactory().get("/api/")
force_authenticate(request, get_user_model()(username="ann"))
root = ApiRootView.as_view()(request).data
assert root["documentation"]["needs"]["package"] == "django-chatmemory[openapi]"
assert "http://testserver/api/conversations/" in [call["url"] for call in root["calls"]]
assert not [name for name in sys.modules if name.startswith("drf_spectacular.")]
"""


@pytest.mark.slow
@pytest.mark.parametrize("hide", ["", "sys.modules['drf_spectacular'] = None"], ids=["installed", "not installed"])
def test_without_the_app_the_rest_works(hide: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT.format(hide=hide)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
