"""A long conversation opens in the admin with as much work of the database as a short one."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from chatmemory.models import Conversation
from tests.support.long_histories import conversation_of, sqlite_steps

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(connection.vendor != "sqlite", reason="only SQLite says how many steps a query took"),
]


@pytest.mark.parametrize("query", ["", "?view=history", "?position={middle}", "?position=0"])
def test_a_long_conversation_costs_the_database_what_a_short_one_does(admin_client: Any, query: str) -> None:
    def open_page(conversation: Conversation) -> None:
        place = query.format(middle=conversation.next_position // 2)
        assert admin_client.get(f"/admin/chatmemory/conversation/{conversation.pk}/change/{place}").status_code == 200

    short, long = (conversation_of(size) for size in (1_000, 20_000))
    for conversation in (short, long):
        conversation.refresh_from_db()
    assert sqlite_steps(lambda: open_page(long)) < 2 * sqlite_steps(lambda: open_page(short))
