"""What tests are made of."""

from __future__ import annotations

from typing import Any

import factory
from django.contrib.auth import get_user_model

from chatmemory.models import Conversation

__all__ = ["ConversationFactory", "UserFactory", "give"]


class UserFactory(factory.django.DjangoModelFactory):
    """A user who can do nothing special."""

    username = factory.Sequence(lambda number: f"user{number}")

    class Meta:
        model = get_user_model()


def give(conversation: Any, owner: Any) -> None:
    """Give a conversation, by its primary key, to another user."""
    row = Conversation.objects.get(pk=conversation)
    row.owner = owner
    row.save()


class ConversationFactory(factory.django.DjangoModelFactory):
    """An empty conversation, of a window wide enough for every test that does not say otherwise."""

    owner = factory.SubFactory(UserFactory)
    memory_id = factory.Sequence(lambda number: f"memory-{number}")
    title = factory.Sequence(lambda number: f"Conversation {number}")
    window = "tokens"
    limit = 100_000

    class Meta:
        model = Conversation
