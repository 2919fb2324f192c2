"""The data is looked after while others write to it."""

from __future__ import annotations

import io
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connections
from django.db.models import F
from django.utils import timezone

from chatmemory import UserMessage
from chatmemory.models import Conversation, Message
from chatmemory.recounting import recount
from chatmemory.retention import purge_evicted
from chatmemory.verification import Finding, verify
from tests.support.factories import ConversationFactory

_MESSAGES = 40


def say(conversation: Conversation) -> None:
    try:
        for number in range(_MESSAGES):
            conversation.memory.add(UserMessage(f"안녕하세요 {number}"))
    finally:
        connections.close_all()


def look_after(writing: list[Future[None]]) -> list[Finding]:
    """All three in turn, until nobody writes any more."""
    found, models = [], ["gpt-4", "gpt-4o"]
    tomorrow = timezone.now() + timedelta(days=1)
    while True:
        over = all(one.done() for one in writing)
        found += verify(repair=True)
        assert all(not step.problem for step in recount(model=models[0], batch_size=3))
        assert all(step.messages for step in purge_evicted(tomorrow, batch_size=3))
        models.reverse()
        if over:
            return found


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_nothing_is_found_and_nothing_is_lost() -> None:
    conversation = ConversationFactory(window="messages", limit=5)
    # Two objects, each of which knows what it wrote last.
    writers = [Conversation.objects.get(pk=conversation.pk) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        writing = [pool.submit(say, writer) for writer in writers]
        found = look_after(writing)
        for one in writing:
            one.result()
    assert found == []
    assert list(verify()) == []
    conversation.refresh_from_db()
    assert (conversation.message_count, conversation.retained_count) == (2 * _MESSAGES, 5)
    assert conversation.messages.count() == 5
    last = conversation.messages.retained().last()
    assert last is not None
    assert last.position == 2 * _MESSAGES - 1


class WritesToDefault:
    """As a project beside a primary and its replicas has it."""

    def db_for_write(self, model: Any, **hints: Any) -> str:
        return "default"


@pytest.mark.django_db(databases=["default", "other"])
class TestAnotherDatabaseThanTheRouters:
    """A copy of the same data, say, that came out of a backup."""

    @pytest.fixture
    def copies(self, settings: Any) -> tuple[Conversation, Conversation]:
        here = ConversationFactory(window="messages", limit=2, model="gpt-4o")
        owner = copy(here.owner)
        owner.save(using="other", force_insert=True)
        there = copy(here)
        there._state = copy(there._state)
        there._state.adding = True
        there.save(using="other", force_insert=True)
        for one in (here, there):
            one.memory.add(*[UserMessage("안녕하세요")] * 3)
        settings.DATABASE_ROUTERS = [WritesToDefault()]
        return here, there

    @staticmethod
    def state(database: str) -> list[dict[str, Any]]:
        rows = Conversation.objects.using(database).values()
        return [*rows, *Message.objects.using(database).order_by("position").values()]

    @pytest.mark.parametrize(
        "command",
        [
            ["chatmemory_verify", "--repair"],
            ["chatmemory_recount", "--model", "gpt-4"],
            ["chatmemory_purge", "--older-than", "1"],
            ["chatmemory_purge", "--older-than", "1", "--evicted-only"],
            ["chatmemory_user", "erase", "{}", "--no-input"],
        ],
        ids=lambda command: command[0],
    )
    @pytest.mark.parametrize("how", ["erase", "anonymise"])
    def test_only_that_one_changes(
        self, copies: tuple[Conversation, Conversation], command: list[str], how: str, settings: Any
    ) -> None:
        settings.CHATMEMORY = {"ERASE_USER": how}
        ago = timezone.now() - timedelta(days=2)
        for database in ("default", "other"):
            rows = Conversation.objects.using(database)
            rows.update(created_at=ago, updated_at=ago, retained_tokens=F("retained_tokens") + 1)
            Message.objects.using(database).filter(evicted_in__isnull=False).update(evicted_at=ago)
        here, there = self.state("default"), self.state("other")
        args = [part.format(copies[0].owner.username) for part in command]
        call_command(*args, "--database", "other", stdout=io.StringIO(), stderr=io.StringIO())
        assert self.state("default") == here
        assert self.state("other") != there
