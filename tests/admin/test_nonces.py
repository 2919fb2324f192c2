"""Style sheets and scripts of the admin's pages under a content security policy that asks for nonces."""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Any

import django
import pytest
from django.test import Client

from chatmemory import UserMessage
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db


def nonce(request: Any) -> dict[str, str]:
    """What ``django.template.context_processors.csp`` puts into the context, from Django 6.0 on."""
    return {"csp_nonce": "n0nce"}


@pytest.fixture
def with_nonces(settings: Any) -> None:
    templates = deepcopy(settings.TEMPLATES)
    templates[0]["OPTIONS"]["context_processors"].append("tests.admin.test_nonces.nonce")
    settings.TEMPLATES = templates


def tags(client: Client) -> dict[str, list[str]]:
    """The tags of style sheets and scripts on each page."""
    conversation: Any = ConversationFactory()
    conversation.memory.add(UserMessage("x"))
    own = f"/admin/chatmemory/conversation/{conversation.pk}/"
    lists = ["/admin/chatmemory/", "/admin/chatmemory/conversation/", "/admin/chatmemory/message/"]
    return {
        address: re.findall(r"<(?:script|link)[^>]*>", client.get(address).content.decode())
        for address in [*lists, *(f"{own}{name}/" for name in ("change", "memory", "clear", "delete", "history"))]
    }


@pytest.mark.slow
@pytest.mark.usefixtures("with_nonces")
def test_each_has_the_nonce_where_djangos_own_have_it(admin_client: Client) -> None:
    expected = django.VERSION >= (6, 1)
    for address, found in tags(admin_client).items():
        assert any("chatmemory/admin/menus.js" in tag for tag in found), address
        assert any("chatmemory/admin/stock.css" in tag for tag in found), address
        assert [tag for tag in found if ('nonce="n0nce"' in tag) != expected] == [], address


@pytest.mark.slow
def test_none_has_one_without_such_a_policy(admin_client: Client) -> None:
    assert [tag for found in tags(admin_client).values() for tag in found if "nonce" in tag] == []
