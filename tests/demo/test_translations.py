"""The demo in other languages."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings as project
from django.test import Client

from chatmemory.models import Conversation
from tests.support.demo_chat import conversation, demo_chat  # noqa: F401
from tests.support.translations import DEMO
from tests.support.turns import ask


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("zh-hans", ["新建聊天", "退出登录", "看模型如何遗忘", "模型现在看到的内容"]),
        ("ja", ["新しいチャット", "ログアウト", "モデルが忘れる様子を見る", "モデルに今見えている内容"]),
    ],
)
def test_the_page_speaks_the_language_of_the_browser(
    api: Client,
    settings: Any,
    conversation: Conversation,  # noqa: F811
    language: str,
    words: list[str],
) -> None:
    settings.LOCALE_PATHS = [DEMO.locale]
    settings.MIDDLEWARE = [*project.MIDDLEWARE, "django.middleware.locale.LocaleMiddleware"]
    page = api.get(f"/chat/{conversation.pk}/", headers={"accept-language": language}).content.decode()
    assert f'<html lang="{language}">' in page
    assert [word for word in words if word not in page] == []
    assert "New chat" not in page


@pytest.mark.usefixtures("sdks")
@pytest.mark.parametrize(
    ("language", "sentence"),
    [
        ("zh-hans", "api.anthropic.com 需要密钥。请设置 ANTHROPIC_API_KEY。"),
        ("ja", "api.anthropic.comにはキーが必要です。ANTHROPIC_API_KEYを設定してください。"),
        ("en", "api.anthropic.com needs a key. Set ANTHROPIC_API_KEY."),
    ],
)
def test_the_error_of_a_model_speaks_the_language(
    api: Client,
    settings: Any,
    conversation: Conversation,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    language: str,
    sentence: str,
) -> None:
    settings.LOCALE_PATHS = [DEMO.locale]
    settings.MIDDLEWARE = [*project.MIDDLEWARE, "django.middleware.locale.LocaleMiddleware"]
    monkeypatch.setenv("CHATMEMORY_DEMO_MODEL", "anthropic:tiny")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)
    answer = ask(api, conversation, "Hello", accept_language=language)
    assert (answer.status_code, answer.json()["detail"]) == (502, sentence)
