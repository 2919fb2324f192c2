"""What the tests of turns share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from chatmemory.models import Conversation
from tests.support.assistants import choose
from tests.support.factories import ConversationFactory


@pytest.fixture(autouse=True)
def _echo() -> Iterator[None]:
    """The model that repeats, unless a test chooses another."""
    choose(None)
    yield
    choose(None)


@pytest.fixture
def conversation(user: Any) -> Conversation:
    """A conversation of the user's, whose window has room for four messages."""
    made: Conversation = ConversationFactory.create(owner=user, window="messages", limit=4)
    return made
