"""The demo's own translations: complete, and as compiled as they are written."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings as project
from django.test import Client

from chatmemory.models import Conversation
from tests.support.demo_chat import conversation, demo_chat  # noqa: F401
from tests.support.paths import ROOT
from tests.test_translations import LOCALES, compiled, entries, marked_in_python, marked_in_template

DEMO = ROOT / "demo_project"


@pytest.mark.parametrize("locale", LOCALES.values())
def test_every_string_of_the_demo_is_translated(locale: str) -> None:
    marked = {key for path in DEMO.rglob("*.py") for key in marked_in_python(path.read_text(encoding="utf-8"))}
    marked |= {
        key
        for path in (ROOT / "templates").rglob("*.html")
        for key in marked_in_template(path.read_text(encoding="utf-8"))
    }
    folder = DEMO / "locale" / locale / "LC_MESSAGES"
    written = entries(folder / "django.po")
    assert {entry.key for entry in written[1:]} == marked
    catalog, count = compiled(folder / "django.mo")
    assert count == len(written), "run compilemessages"
    for entry in written[1:]:
        assert entry.translations[0].strip(), entry
        assert catalog.gettext(entry.texts["msgid"]) == entry.translations[0], entry


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
    settings.LOCALE_PATHS = [DEMO / "locale"]
    settings.MIDDLEWARE = [*project.MIDDLEWARE, "django.middleware.locale.LocaleMiddleware"]
    page = api.get(f"/chat/{conversation.pk}/", headers={"accept-language": language}).content.decode()
    assert f'<html lang="{language}">' in page
    assert [word for word in words if word not in page] == []
    assert "New chat" not in page
