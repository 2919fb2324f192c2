"""A turn that nobody can run is not held."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.test import Client

from chatmemory.models import Conversation
from tests.support.factories import ConversationFactory
from tests.support.turns import ask, stream

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_thread_that_cannot_start_leaves_the_conversation_free(
    api: Client, user: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation = ConversationFactory.create(owner=user)

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            stream(api, conversation, "Hello", idempotency_key="1")
    assert Conversation.objects.get(pk=conversation.pk).turn_until is None
    assert ask(api, conversation, "Hello", idempotency_key="1").json()["answer"]["text"] == "You said: Hello"
    assert [row.text for row in conversation.messages.history()] == ["Hello", "You said: Hello"]
