"""What the list of conversations is told of its page."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.template import Context, engines
from django.test import RequestFactory

from chatmemory.models import Conversation
from chatmemory.templatetags.chatmemory import chatmemory_conversations

NIL = "00000000-0000-0000-0000-000000000000"


@pytest.fixture(autouse=True)
def pages(settings: Any) -> None:
    settings.ROOT_URLCONF = "tests.support.chat_pages"


def context_of(path: str = "/", current: Any = None, **options: Any) -> dict[str, Any]:
    return chatmemory_conversations(Context({"request": RequestFactory().get(path)}), current, **options)


def test_the_address_of_a_page_is_that_of_the_name() -> None:
    assert context_of("/anywhere/", url_name="chat")["page"] == f"/chat/{NIL}/"


def test_the_address_of_a_page_is_that_of_this_page() -> None:
    key = uuid4()
    assert context_of(f"/of/{key}/talk/", key)["page"] == f"/of/{NIL}/talk/"
    assert context_of("/talk/", key)["page"] == f"?conversation={NIL}"
    assert context_of("/talk/")["page"] == f"?conversation={NIL}"


def test_the_address_of_a_page_leads_to_no_other_site() -> None:
    key = uuid4()
    request = RequestFactory().get("/")
    request.path = f"//elsewhere.example/{key}/"  # as a project with a route for any path may get it
    assert chatmemory_conversations(Context({"request": request}), key)["page"] == f"/elsewhere.example/{NIL}/"


def test_the_current_one_is_the_variable_of_the_page_or_what_is_given() -> None:
    one, other = Conversation(), Conversation()
    page = Context({"request": RequestFactory().get("/"), "conversation": one})
    assert chatmemory_conversations(page)["current"] == str(one.pk)
    assert chatmemory_conversations(page, other)["current"] == str(other.pk)
    assert chatmemory_conversations(page, other.pk)["current"] == str(other.pk)
    assert context_of()["current"] == ""


def test_titles_and_addresses_are_escaped() -> None:
    template = engines["django"].from_string("{% load chatmemory %}{% chatmemory_conversations current=current %}")
    drawn = template.render({"current": '"><script>'}, RequestFactory().get("/"))
    assert 'data-current="&quot;&gt;&lt;script&gt;"' in drawn


def test_what_is_missing_is_named(settings: Any) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"context_processors\.request"):
        chatmemory_conversations(Context({}))
    with pytest.raises(ImproperlyConfigured, match="no page 'nowhere'"):
        context_of(url_name="nowhere")
    settings.ROOT_URLCONF = "tests.chat.test_conversations"
    with pytest.raises(ImproperlyConfigured, match=r'include\("chatmemory\.urls"\)'):
        context_of()


urlpatterns: list[Any] = []
"""A project without the API."""
