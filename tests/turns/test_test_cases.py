"""Tests that projects write of their own assistants: what Django's test cases and clients allow."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model
from django.test import AsyncClient, SimpleTestCase, TestCase, TransactionTestCase

from chatmemory.models import Conversation
from tests.database.test_async import run
from tests.support.api import url
from tests.support.assistants import assistant
from tests.support.factories import ConversationFactory, UserFactory
from tests.support.turns import ask, chunks_in, chunks_of, said, stream, texts_of

JSON = {"content_type": "application/json"}


class WithConversation(SimpleTestCase):
    """A user with a conversation."""

    user: Any
    conversation: Conversation

    def setUp(self) -> None:
        self.user = get_user_model().objects.create(username="klaus")
        self.conversation = Conversation.objects.create(owner=self.user)


async def talk(case: Any) -> None:
    """Take turns as JSON and as a stream, stop, and look at what is stored."""
    client = AsyncClient()
    await client.aforce_login(case.user)
    address = url(case.conversation, "turns/")
    accept = {"accept": "application/json"}
    answer = await client.post(address, {"message": "Hello"}, headers=accept, **JSON)  # type: ignore[arg-type]
    assert answer.json()["answer"]["text"] == "You said: Hello"
    for key in ("1", "1"):
        headers = {"accept": "text/event-stream", "Idempotency-Key": key}
        response: Any = await client.post(address, {"message": "order 7"}, headers=headers, **JSON)  # type: ignore[arg-type]
        chunks = chunks_in([part async for part in response.streaming_content])
        assert "order 7 of klaus" in texts_of(chunks)
    assert (await client.delete(address)).status_code == 204
    assert (await client.get(f"{address}stream/")).status_code == 204
    shown = (await client.get(address)).json()["messages"]
    assert [one["id"] for one in shown] == ["0", "answer-0", "2", "answer-2"]


class InTransaction(WithConversation, TestCase):
    """The usual test case, each of whose tests is one transaction that is rolled back."""

    def setUp(self) -> None:
        super().setUp()
        self.client.force_login(self.user)

    def test_json(self) -> None:
        assert ask(self.client, self.conversation, "Hello").json()["answer"]["text"] == "You said: Hello"

    def test_stream(self) -> None:
        assert texts_of(chunks_of(stream(self.client, self.conversation, "Hello"))) == "You said: Hello"
        assert said(self.conversation) == ["Hello", "You said: Hello"]

    def test_stream_with_a_key(self) -> None:
        for _ in range(2):
            answer = stream(self.client, self.conversation, "Hello", idempotency_key="k")
            assert texts_of(chunks_of(answer)) == "You said: Hello"

    def test_errors_leave_the_transaction_usable(self) -> None:
        assert ask(self.client, self.conversation, "").status_code == 400
        assert ask(self.client, self.conversation, None).status_code == 409
        assert ask(self.client, self.conversation, "Hello").status_code == 200

    def test_the_assistant_itself(self) -> None:
        mine = assistant(None)
        assert mine.chat(self.conversation, "Hello").text == "You said: Hello"
        assert "".join(piece for piece in mine.stream(self.conversation, "Bye") if isinstance(piece, str))

    @pytest.mark.slow
    async def test_the_async_client(self) -> None:
        await talk(self)

    async def test_the_assistant_itself_in_async_code(self) -> None:
        mine = assistant(None)
        assert "order 7 of klaus" in str((await mine.achat(self.conversation, "order 7")).text)
        pieces = [piece async for piece in mine.astream(self.conversation, "Bye") if isinstance(piece, str)]
        assert "".join(pieces) == "You said: Bye"


class WithTransactions(WithConversation, TransactionTestCase):
    """The test case for what needs several connections."""

    @pytest.mark.slow
    async def test_the_async_client(self) -> None:
        await talk(self)

    async def test_the_assistant_itself(self) -> None:
        answer = await assistant(None).achat(self.conversation, "Hello")
        assert answer.text == "You said: Hello"
        assert await sync_to_async(said)(self.conversation) == ["Hello", "You said: Hello"]


@pytest.mark.django_db(transaction=True)
def test_a_coroutine_in_a_loop_of_its_own_as_pytest_asyncio_runs_it(settings: Any) -> None:
    settings.MIDDLEWARE = settings.MIDDLEWARE[1:]  # as most projects, without any that is only sync
    klaus = UserFactory(username="klaus")
    run(talk(SimpleNamespace(user=klaus, conversation=ConversationFactory(owner=klaus))))
    assert Conversation.objects.get().turn_until is None


@pytest.mark.django_db
def test_a_function_with_the_fixture_db_is_a_test_case(api: Any, conversation: Conversation) -> None:
    assert texts_of(chunks_of(stream(api, conversation, "Hello"))) == "You said: Hello"
