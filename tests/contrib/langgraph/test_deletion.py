"""Checkpoints deleted with what they belong to, and no others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db.models.signals import post_delete
from langgraph.checkpoint.base import empty_checkpoint

from chatmemory.contrib.langgraph.models import ChannelValue, Checkpoint, Namespace, Write
from chatmemory.contrib.langgraph.saver import DjangoSaver
from chatmemory.models import Conversation
from chatmemory.personal_data import erase_user
from tests.support.factories import UserFactory

pytestmark = pytest.mark.django_db(transaction=True)

TABLES: list[Any] = [Namespace, Checkpoint, ChannelValue, Write]


@pytest.fixture(params=["nobody", "every deletion", Checkpoint, Namespace])
def _heard(request: pytest.FixtureRequest) -> Iterator[None]:
    """A project hears of what is deleted; Django deletes that by other statements, and in another order."""
    if request.param == "nobody":
        yield
        return
    heard: list[Any] = []

    def hear(instance: Any, **signal: Any) -> None:
        heard.append(instance)

    sender = None if request.param == "every deletion" else request.param
    post_delete.connect(hear, sender)
    yield
    post_delete.disconnect(hear, sender)
    assert heard


@pytest.fixture
def owner() -> Any:
    """A user with two graphs in the thread "t", beside whom another user has the same."""
    users = UserFactory(), UserFactory()
    for user in users:
        saver = DjangoSaver(user)
        for graph in ("", "sub:1"):
            checkpoint = empty_checkpoint()
            checkpoint["channel_values"] = {"messages": ["tea"]}
            checkpoint["channel_versions"] = {"messages": "1"}
            config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": graph}}
            named = saver.put(config, checkpoint, {}, {"messages": "1"})
            saver.put_writes(named, [("messages", "more")], "task")
    return users[0]


@pytest.mark.usefixtures("_heard")
@pytest.mark.parametrize(
    "act",
    [
        pytest.param(lambda owner: DjangoSaver(owner).delete_thread("t"), id="the thread"),
        pytest.param(lambda owner: Conversation.objects.get(owner=owner).delete(), id="the conversation"),
        pytest.param(lambda owner: Conversation.objects.filter(owner=owner).delete(), id="conversations"),
        pytest.param(lambda owner: owner.delete(), id="the user"),
        pytest.param(lambda owner: erase_user(owner, how="anonymise"), id="the user's words"),
    ],
)
def test_with(owner: Any, act: Callable[[Any], Any]) -> None:
    assert [table.objects.count() for table in TABLES] == [4, 4, 4, 4]
    act(owner)
    assert [table.objects.count() for table in TABLES] == [2, 2, 2, 2]
