"""The tag ``chatmemory_chat``: who may see what, and what a project may lack."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import ImproperlyConfigured
from django.http import Http404, HttpRequest
from django.template import Context, Template
from django.test import Client, RequestFactory
from django.urls import path
from django.utils import translation

from chatmemory.models import Conversation
from tests.support.factories import ConversationFactory, UserFactory

urlpatterns = [path("accounts/login/", lambda request: None, name="login")]  # type: ignore[arg-type,return-value]


@pytest.fixture
def conversation(user: Any) -> Conversation:
    made: Conversation = ConversationFactory(owner=user, title="Tea <b>")
    return made


def draw(user: Any, conversation: Any, arguments: str = "") -> str:
    request = RequestFactory().get("/")
    request.user = user
    template = Template("{% load chatmemory %}{% chatmemory_chat conversation " + arguments + " %}")
    return template.render(Context({"request": request, "conversation": conversation}))


class TestPage:
    def test_it_has_the_chat_and_what_the_chat_needs(self, user: Any, conversation: Conversation) -> None:
        page = draw(user, conversation)
        assert f'data-address="/api/conversations/{conversation.pk}/"' in page
        assert "/static/chatmemory/chat/chat.js" in page
        assert "Tea &lt;b&gt;" in page
        assert "retained" not in page

    def test_the_memory_is_shown_on_demand(self, user: Any, conversation: Conversation) -> None:
        assert 'data-part="retained"' in draw(user, conversation, "memory=True")

    @pytest.mark.parametrize("arguments", ["", "memory=True"])
    def test_several_may_be_on_a_page_for_nothing_has_an_id(
        self, user: Any, conversation: Conversation, arguments: str
    ) -> None:
        assert not re.search(r"\sid=", draw(user, conversation, arguments))

    def test_nothing_is_inline(self, user: Any, conversation: Conversation) -> None:
        page = draw(user, conversation, "memory=True")
        assert not re.search(r"<style|\sstyle=|\son\w+=", page)
        assert not re.search(r'<script(?![^>]*\s(src=|type="application/json"))', page)

    @pytest.mark.parametrize(("language", "send"), [("en", "Send"), ("zh-hans", "发送"), ("ja", "送信")])
    def test_it_speaks_the_language(self, user: Any, conversation: Conversation, language: str, send: str) -> None:
        with translation.override(language):
            page = draw(user, conversation)
        assert f">{send}</button>" in page
        assert f'data-language="{language}"' in page

    def test_a_csrf_cookie_of_another_name(self, user: Any, conversation: Conversation, settings: Any) -> None:
        settings.CSRF_COOKIE_NAME, settings.CSRF_HEADER_NAME = "tea", "HTTP_X_TEA_TOKEN"
        page = draw(user, conversation)
        assert 'data-csrf-cookie="tea"' in page
        assert 'data-csrf-header="X-TEA-TOKEN"' in page

    def test_where_one_signs_in(self, user: Any, conversation: Conversation, settings: Any) -> None:
        settings.LOGIN_URL = "/nowhere/"
        assert 'data-sign-in=""' in draw(user, conversation)
        settings.LOGIN_URL = "/admin/login/"
        assert 'data-sign-in="/admin/login/"' in draw(user, conversation)
        settings.LOGIN_URL = "https://example.com/sign-in"
        assert 'data-sign-in="https://example.com/sign-in"' in draw(user, conversation)

    def test_a_project_overrides_a_template(
        self, user: Any, conversation: Conversation, settings: Any, tmp_path: Any
    ) -> None:
        folder = tmp_path / "chatmemory" / "chat"
        folder.mkdir(parents=True)
        (folder / "welcome.html").write_text("<p>Ask me about {{ conversation.title }}</p>")
        settings.TEMPLATES = [{**settings.TEMPLATES[0], "DIRS": [tmp_path]}]
        assert "Ask me about Tea" in draw(user, conversation)


class TestAccess:
    def test_another_users_conversation_is_not_there(self, conversation: Conversation) -> None:
        for other in (UserFactory(), UserFactory(is_superuser=True, is_staff=True), AnonymousUser()):
            with pytest.raises(Http404):
                draw(other, conversation)

    def test_a_conversation_of_nobody_is_not_there(self, user: Any) -> None:
        for other in (user, AnonymousUser()):
            with pytest.raises(Http404):
                draw(other, ConversationFactory(owner=None))

    def test_a_view_answers_404(self, settings: Any, conversation: Conversation) -> None:
        settings.ROOT_URLCONF = "tests.support.chat_pages"
        client = Client()
        assert client.get(f"/plain/{conversation.pk}/").status_code == 404
        client.force_login(conversation.owner)  # type: ignore[arg-type]
        assert client.get(f"/plain/{conversation.pk}/").status_code == 200


class TestMistakes:
    def test_no_assistant(self, user: Any, conversation: Conversation, settings: Any) -> None:
        settings.CHATMEMORY = {**settings.CHATMEMORY, "ASSISTANT": None}
        with pytest.raises(ImproperlyConfigured, match=r'CHATMEMORY\["ASSISTANT"\]'):
            draw(user, conversation)

    def test_no_api(self, user: Any, conversation: Conversation, settings: Any) -> None:
        settings.ROOT_URLCONF = __name__
        with pytest.raises(ImproperlyConfigured, match=r'include\("chatmemory\.urls"\)'):
            draw(user, conversation)

    def test_no_request(self, conversation: Conversation) -> None:
        template = Template("{% load chatmemory %}{% chatmemory_chat conversation %}")
        with pytest.raises(ImproperlyConfigured, match=r"context_processors\.request"):
            template.render(Context({"conversation": conversation}))

    @pytest.mark.parametrize("conversation", ["", None, "support-42"])
    def test_no_conversation(self, user: Any, conversation: Any) -> None:
        with pytest.raises(TypeError, match="needs a Conversation, but got"):
            draw(user, conversation)

    def test_a_conversation_that_is_not_saved(self, user: Any) -> None:
        with pytest.raises(TypeError, match="is saved"):
            draw(user, Conversation(owner=user))

    def test_nobody_signs_in_at_all(self, conversation: Conversation) -> None:
        template = Template("{% load chatmemory %}{% chatmemory_chat conversation %}")
        with pytest.raises(Http404):
            template.render(Context({"conversation": conversation, "request": HttpRequest()}))
