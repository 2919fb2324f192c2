"""Errors in the language that a browser asks for, in answers and in streams. The matrix has each of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polib
import pytest
from asgiref.sync import async_to_sync
from django.conf import settings as project
from django.test import AsyncClient, Client
from django.utils import translation

from chatmemory.models import Conversation
from chatmemory.rest.openapi import openapi_document
from tests.support.api import post, url
from tests.support.assistants import Speaker, choose
from tests.support.factories import ConversationFactory
from tests.support.turns import STREAM, Gate, ask, chunks_in, chunks_of, stream, turn_under_way
from tests.tools.write_openapi import FILE, openapi_text

pytestmark = pytest.mark.usefixtures("by_browser")


@pytest.fixture
def conversation(user: Any) -> Conversation:
    made: Conversation = ConversationFactory.create(owner=user, window="messages", limit=4)
    return made


def fail(messages: Any) -> Iterator[Any]:
    yield "Half an "
    raise ValueError("the model's own words")


@pytest.mark.parametrize(
    ("language", "problem"),
    [
        ("ja", "5文字あります。保存できるのは最大3文字です"),
        ("zh-hans", "有 5 个字符；最多存储 3 个"),
        ("zh-CN,zh;q=0.9,en;q=0.8", "有 5 个字符；最多存储 3 个"),
        ("en", "has 5 characters; at most 3 are stored"),
        ("sw", "has 5 characters; at most 3 are stored"),
    ],
)
def test_a_message_that_is_too_long(
    api: Client, conversation: Conversation, settings: Any, language: str, problem: str
) -> None:
    """Only ``detail`` is for people: all others are for programs, and the same in each language."""
    settings.CHATMEMORY = {**settings.CHATMEMORY, "MAX_MESSAGE_CHARS": 3}
    answer = post(api, url(conversation, "messages/"), {"type": "AI", "text": "Hello"}, accept_language=language)
    assert answer.json() == {
        "type": "urn:chatmemory:problem:invalid",
        "title": "Bad Request",
        "status": 400,
        "code": "invalid",
        "detail": problem,
        "params": {},
        "errors": [{"place": "", "code": "max_length", "detail": problem, "params": {"count": 5, "most": 3}}],
    }
    assert "Accept-Language" in answer["Vary"]


def test_what_only_programmers_meet_is_english(api: Client, conversation: Conversation) -> None:
    answer = post(api, url(conversation, "messages/"), {"type": "AI", "text": 5}, accept_language="ja").json()
    assert answer["detail"] == "text: expected a string, got a number"


OF_THE_SITE = {
    "nested more than %(most)s levels deep": "%(most)s段より深い入れ子です",
    "%(place)s: %(problem)s": "%(place)sについて、%(problem)s",
    "expected one of %(choices)s, got %(got)s": "%(got)sではなく、%(choices)sのどれかです",
    "%(problem)s. This looks like LangChain4j's format: leave out ?format=openai": "%(problem)s。LangChain4jの形式です",
}


@pytest.mark.parametrize(
    ("path", "body", "place", "detail", "problem"),
    [
        (
            "/api/conversations/",
            '{"metadata": {"deep": ' + "[" * 31 + "]" * 31 + "}}",
            "metadata",
            f"metadata.deep{'[0]' * 30}について、30段より深い入れ子です",
            "nested more than 30 levels deep",
        ),
        (
            "messages/?format=openai",
            {"type": "AI"},
            "role",
            "nothingではなく、system, developer, user, assistant, toolのどれかです。LangChain4jの形式です",
            "expected one of system, developer, user, assistant, tool, got nothing",
        ),
    ],
)
def test_an_error_within_an_error_is_translated_with_it(
    api: Client,
    conversation: Conversation,
    settings: Any,
    tmp_path: Path,
    path: str,
    body: Any,
    place: str,
    detail: str,
    problem: str,
) -> None:
    """A site may translate what this app leaves in English."""
    catalogue = polib.POFile()
    catalogue.metadata = {"Content-Type": "text/plain; charset=utf-8"}
    catalogue.extend(polib.POEntry(msgid=text, msgstr=translated) for text, translated in OF_THE_SITE.items())
    folder = tmp_path / "ja" / "LC_MESSAGES"
    folder.mkdir(parents=True)
    catalogue.save_as_mofile(str(folder / "django.mo"))
    settings.LOCALE_PATHS = [tmp_path]
    address = path if path.startswith("/") else url(conversation, path)
    [error] = post(api, address, body, accept_language="ja").json()["errors"]
    assert (error["place"], error["detail"], error["params"]["problem"]) == (place, detail, problem)


@pytest.mark.django_db(transaction=True)
def test_a_stream_that_fails(api: Client, conversation: Conversation) -> None:
    """The turn runs in a thread of its own, which knows the language of the request."""
    choose(Speaker(fail))
    for language, sentence in (
        (
            "ja",
            "モデルでエラーが起きたため、まだ回答がありません。送信済みのメッセージは残っています。もう一度お試しください。",
        ),
        ("zh-hans", "模型出错，因此还没有回答。已发送的消息会保留。请重试。"),
        ("en", "The model failed, so there is no answer yet. What was said is kept. Try again."),
    ):
        chunks = chunks_of(stream(api, conversation, "Hello", accept_language=language))
        assert chunks[-1] == {"type": "error", "errorText": sentence}
        assert ask(api, conversation, "Hello", accept_language=language).json()["detail"] == sentence


@pytest.mark.django_db(transaction=True)
def test_a_stream_that_fails_under_asgi(user: Any, conversation: Conversation) -> None:
    choose(Speaker(fail))

    async def read() -> bytes:
        client = AsyncClient()
        await client.aforce_login(user)
        headers = {"accept": STREAM, "accept-language": "ja"}
        address, body = url(conversation, "turns/"), {"message": "Hello"}
        response: Any = await client.post(address, body, headers=headers, content_type="application/json")
        return b"".join([part async for part in response.streaming_content])

    assert "モデルでエラーが起きた" in chunks_in([async_to_sync(read)()])[-1]["errorText"]


@pytest.mark.django_db(transaction=True)
def test_a_stream_that_is_followed(api: Client, conversation: Conversation) -> None:
    """It keeps its language, whatever others ask for meanwhile."""
    gate = Gate()
    with turn_under_way(api, conversation, "Hello", gate):
        address = url(conversation, "turns/stream/")
        parts = iter(api.get(address, headers={"accept-language": "ja"}).streaming_content)
        beginning = next(parts)
        assert api.delete(url(conversation), headers={"accept-language": "en"}).status_code == 204
        assert chunks_in([beginning, *parts])[-1]["errorText"] == "この会話は完全に削除されました。"


def test_a_site_in_one_language(api: Client, conversation: Conversation, settings: Any) -> None:
    """Without the middleware the site's own language holds, whatever the browser asks for."""
    settings.MIDDLEWARE = project.MIDDLEWARE[:-1]
    settings.LANGUAGE_CODE = "ja"
    translation.deactivate()
    answer = ask(api, conversation, None, accept_language="en").json()
    assert answer["detail"].startswith("回答できる発言が")


@pytest.mark.slow
def test_the_description_of_the_api_stays_english(api: Client) -> None:
    with translation.override("ja"):
        assert openapi_text() == FILE.read_text(encoding="utf-8")
        assert openapi_document()["info"]["title"]
