"""The tree of a conversation, judged by the repository of assistant-ui."""

# ruff: noqa: F811 - fixtures that are imported

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from django.test import Client

from chatmemory import AiMessage, UserMessage
from tests.support.ai_sdk import Judge, judge, node_modules  # noqa: F401
from tests.support.api import url
from tests.support.factories import ConversationFactory

pytestmark = [pytest.mark.npm, pytest.mark.django_db]

TREES = 10


def test_a_page_has_the_same_branches(judge: Judge, api: Client, user: Any) -> None:
    for seed in range(TREES):
        chance = Random(seed)
        conversation = ConversationFactory.create(owner=user, window="messages", limit=8)
        conversation.memory.add(UserMessage("0"), AiMessage("0"))
        for step in range(20):
            position = chance.choice(conversation.messages.history().values_list("position", flat=True))
            chance.choice(
                [
                    lambda: conversation.memory.add(UserMessage(f"{step}"), AiMessage(f"{step}")),  # noqa: B023
                    lambda: conversation.rewind(before=position),  # noqa: B023
                    lambda: conversation.switch(position),  # noqa: B023
                ]
            )()
        tree = api.get(url(conversation, "tree/")).json()
        found = judge.ask("repository", **tree)
        shown = api.get(url(conversation, "turns/")).json()["messages"]
        assert found["path"] == [message["id"] for message in shown], seed
        assert found["exported"]["headId"] == tree["headId"]
        parents = {item["message"]["id"]: item["parentId"] for item in tree["messages"]}
        assert {item["message"]["id"]: item["parentId"] for item in found["exported"]["messages"]} == parents
        for id, siblings in found["siblings"].items():
            assert siblings == [other for other, parent in parents.items() if parent == parents[id]], (seed, id)
