"""The refusal of statements by a name alone, under which all other tests run where names are kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from chatmemory.database.idempotency import keys_of_owner, scope_of_owner
from chatmemory.models import Conversation, IdempotencyKey
from chatmemory.verification import verify
from tests.support.api import post
from tests.support.factories import ConversationFactory, UserFactory
from tests.support.kept_names import where_names_are_kept
from tests.support.statements_by_name import StatementByNameError, is_by_name

pytestmark = [pytest.mark.django_db, where_names_are_kept]


def by_name(owner: Any) -> Any:
    return Conversation.objects.owned_by(owner).filter(memory_id="a")


def by_key(owner: Any) -> Any:
    return IdempotencyKey.objects.filter(scope=scope_of_owner(owner), key="a")


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (by_name, True),
        (lambda owner: by_name(None), True),
        (lambda owner: by_name(owner).filter(memory_id__in=["a", "b"]), True),
        (lambda owner: Conversation.objects.filter(owner_key=str(owner.pk), memory_id="a"), True),
        (lambda owner: by_name(owner).filter(pk__in=Conversation.objects.filter(title="Tea")), True),
        (lambda owner: Conversation.objects.named(owner, "a"), False),
        (lambda owner: by_name(owner).filter(pk__in=[ConversationFactory().pk]), False),
        (lambda owner: Conversation.objects.owned_by(owner), False),
        (by_key, True),
        (lambda owner: keys_of_owner(owner, "a", "default"), False),
    ],
)
def test_a_name_alone_is_told_from_one_with_the_conversation(rows: Callable[[Any], Any], expected: bool) -> None:
    sql, _params = rows(UserFactory()).query.sql_with_params()
    assert is_by_name(sql) is expected


@pytest.mark.parametrize("owner", [None, "somebody"])
def test_the_product_is_refused_and_a_test_is_not(owner: str | None) -> None:
    user = owner and UserFactory()
    Conversation.objects.create(owner=user, memory_id="a")
    assert by_name(user).count() == 1
    with pytest.raises(StatementByNameError, match="a name alone"):
        list(verify(by_name(user)))


def test_a_list_of_one_owner_and_a_repeated_request_are_not_refused(api: Client, user: Any) -> None:
    for memory_id in ("a", "b"):
        Conversation.objects.create(memory_id=memory_id, owner=UserFactory())
        Conversation.objects.create(memory_id=memory_id, owner=user)
    [found] = api.get("/api/conversations/", {"memory_id": "a"}).json()["results"]
    assert found["id"] == str(Conversation.objects.named(user, "a").get().pk)
    first, again = (post(api, "/api/conversations/", {"title": "Tea"}, idempotency_key="a").json() for _ in range(2))
    assert first == again
