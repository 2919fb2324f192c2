"""The repair of names that lead nowhere, or elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from chatmemory.models import Conversation
from chatmemory.verification import verify
from tests.support.kept_names import led_to, where_names_are_kept

pytestmark = [pytest.mark.django_db(transaction=True), where_names_are_kept]


def break_(sql: str, *params: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)


@pytest.mark.parametrize(
    "wrong",
    [
        "DELETE FROM chatmemory_citus_name",
        "UPDATE chatmemory_citus_name SET conversation_id = '00000000-0000-0000-0000-000000000007'",
        "INSERT INTO chatmemory_citus_name VALUES ('x', '00000000-0000-0000-0000-000000000007')",
        "INSERT INTO chatmemory_citus_name SELECT 'x', conversation_id FROM chatmemory_citus_name",
    ],
)
def test_finds_wrong_names_and_mends_them(wrong: str) -> None:
    conversation = Conversation.objects.create(memory_id="a")
    break_(wrong)
    assert {(one.what, one.repaired) for one in verify()} == {("name", False)}
    assert {(one.what, one.repaired) for one in verify(repair=True)} == {("name", True)}
    assert list(verify()) == []
    assert led_to() == [conversation.pk]


def test_two_of_one_name_are_nobodys_to_mend() -> None:
    first, second = (Conversation.objects.create(memory_id=name) for name in "ab")
    break_("UPDATE chatmemory_conversation SET memory_id = 'a' WHERE id = %s", second.pk)
    found = [(one.conversation, one.repaired) for one in verify(repair=True)]
    assert (second.pk, False) in found
    assert Conversation.objects.named(None, "a").get() == first
