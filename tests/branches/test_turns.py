"""Turns that go back: edits and other answers, by this API's fields and by what ``useChat`` sends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from chatmemory import AiMessage
from chatmemory.models import Conversation
from tests.support.api import post, url
from tests.support.assistants import Speaker, choose
from tests.support.factories import ConversationFactory
from tests.support.turns import chunks_of, texts_of, ui_message

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _numbered() -> Iterator[None]:
    """A model that numbers its answers."""
    answers = iter(range(1, 1000))
    choose(Speaker(lambda messages: [AiMessage(f"{next(answers)}: {messages[-1].text}")]))
    yield
    choose(None)


@pytest.fixture
def conversation(user: Any) -> Conversation:
    made: Conversation = ConversationFactory.create(owner=user, window="messages", limit=20)
    return made


def take(api: Client, conversation: Conversation, body: dict[str, Any], **headers: str) -> Any:
    answer = post(api, url(conversation, "turns/"), body, accept="application/json", **headers)
    assert answer.status_code == 200, answer.content
    return answer.json()


def page(api: Client, conversation: Conversation) -> list[tuple[str, str]]:
    """Return the IDs and texts that ``useChat`` loads."""
    messages = api.get(url(conversation, "turns/")).json()["messages"]
    return [(message["id"], message["parts"][-1]["text"]) for message in messages]


class TestOwnFields:
    @pytest.mark.slow
    def test_edit_and_regenerate(self, api: Client, conversation: Conversation) -> None:
        take(api, conversation, {"message": "One"})
        take(api, conversation, {"message": "Two"})
        take(api, conversation, {"message": "Three", "edit": 2}, idempotency_key="a")
        take(api, conversation, {"message": "Three", "edit": 2}, idempotency_key="a")
        assert page(api, conversation) == [
            ("0", "One"),
            ("answer-0", "1: One"),
            ("4", "Three"),
            ("answer-4", "3: Three"),
        ]
        take(api, conversation, {"regenerate": None}, idempotency_key="b")
        take(api, conversation, {"regenerate": None}, idempotency_key="b")
        assert page(api, conversation)[2:] == [("4", "Three"), ("answer-4-6", "4: Three")]
        take(api, conversation, {"regenerate": 1})
        assert page(api, conversation) == [("0", "One"), ("answer-0-7", "5: One")]

    def test_invalid_ones(self, api: Client, conversation: Conversation) -> None:
        take(api, conversation, {"message": "One"})
        for body, place in (
            ({"edit": 0}, "message"),
            ({"edit": 1, "message": "Two"}, "edit"),
            ({"edit": 9, "message": "Two"}, "edit"),
            ({"edit": "0", "message": "Two"}, "edit"),
            ({"regenerate": 9}, "regenerate"),
            ({"regenerate": True}, "regenerate"),
            ({"regenerate": 0, "message": "Two"}, "message"),
            ({"regenerate": None, "edit": 0}, "edit"),
        ):
            answer = post(api, url(conversation, "turns/"), body, accept="application/json")
            assert answer.status_code == 400, (body, answer.content)
            assert answer.json()["errors"][0]["place"] == place, body
        assert page(api, conversation) == [("0", "One"), ("answer-0", "1: One")]

    def test_nothing_to_regenerate(self, api: Client, conversation: Conversation) -> None:
        answer = post(api, url(conversation, "turns/"), {"regenerate": None}, accept="application/json")
        assert (answer.status_code, answer.json()["code"]) == (409, "nothing_said")

    def test_without_a_history(self, api: Client, conversation: Conversation, settings: Any) -> None:
        settings.CHATMEMORY = {**settings.CHATMEMORY, "KEEP_HISTORY": False}
        take(api, conversation, {"message": "One"})
        for body in ({"regenerate": None}, {"edit": 0, "message": "Two"}):
            answer = post(api, url(conversation, "turns/"), body, accept="application/json")
            assert (answer.status_code, answer.json()["code"]) == (409, "history_not_kept")
        assert page(api, conversation) == [("0", "One"), ("answer-0", "1: One")]

    def test_a_failed_model(self, api: Client, conversation: Conversation) -> None:
        """The conversation stands at the question, which the next request answers."""
        take(api, conversation, {"message": "One"})

        def fail(messages: Any) -> Any:
            raise OSError("away")

        choose(Speaker(fail))
        body = {"regenerate": None}
        answer = post(api, url(conversation, "turns/"), body, accept="application/json", idempotency_key="a")
        assert answer.status_code == 502
        assert page(api, conversation) == [("0", "One")]
        choose(None)
        take(api, conversation, body, idempotency_key="a")
        [_question, (id, _text)] = page(api, conversation)
        assert id == "answer-0-2"

    def test_a_repeat_after_other_turns(self, api: Client, conversation: Conversation) -> None:
        take(api, conversation, {"message": "One"})
        first = take(api, conversation, {"regenerate": None}, idempotency_key="a")
        take(api, conversation, {"message": "Two"})
        again = take(api, conversation, {"regenerate": None}, idempotency_key="a")
        assert again["answer"] == first["answer"]
        assert page(api, conversation)[2:] == [("3", "Two"), ("answer-3", "3: Two")]


class TestUseChat:
    def send(self, api: Client, conversation: Conversation, *messages: Any, **body: Any) -> Any:
        body = {"id": "chat", "trigger": "regenerate-message", "messages": [*messages], **body}
        return chunks_of(post(api, url(conversation, "turns/"), body, accept="*/*"))

    @pytest.mark.slow
    def test_another_answer(self, api: Client, conversation: Conversation) -> None:
        for text in ("One", "Two"):
            take(api, conversation, {"message": text})
        loaded = api.get(url(conversation, "turns/")).json()["messages"]
        assert self.send(api, conversation, *loaded[:3])[0]["messageId"] == "answer-2-4"
        assert page(api, conversation)[2:] == [("2", "Two"), ("answer-2-4", "3: Two")]
        assert self.send(api, conversation, loaded[0], messageId="answer-0")[0]["messageId"] == "answer-0-5"
        assert page(api, conversation) == [("0", "One"), ("answer-0-5", "4: One")]

    def test_a_repeat_that_names_the_answer(self, api: Client, conversation: Conversation) -> None:
        take(api, conversation, {"message": "One"})
        for _repeated in range(2):
            chunks = self.send(api, conversation, ui_message("One", "0"), messageId="answer-0")
            assert (chunks[0]["messageId"], texts_of(chunks)) == ("answer-0-2", "2: One")
        chunks = self.send(api, conversation, ui_message("One", "0"), messageId="answer-0-2")
        assert chunks[0]["messageId"] == "answer-0-3"

    @pytest.mark.slow
    def test_a_repeat_that_tells_the_version(self, api: Client, conversation: Conversation) -> None:
        take(api, conversation, {"message": "One"})
        version = api.get(url(conversation, "turns/")).json()["version"]
        for _repeated in range(2):
            assert self.send(api, conversation, ui_message("One", "0"), version=version)[0]["messageId"] == "answer-0-2"
        assert self.send(api, conversation, ui_message("One", "0"))[0]["messageId"] == "answer-0-3"

    def test_what_never_arrived_is_said(self, api: Client, conversation: Conversation) -> None:
        """``regenerate()`` is how pages try again."""
        for _repeated in range(2):
            chunks = self.send(api, conversation, ui_message("One", "a"), version=0)
            assert (chunks[0]["messageId"], texts_of(chunks)) == ("answer-0", "1: One")
        chunks = self.send(api, conversation, ui_message("Two", "a"))  # an edit
        assert (chunks[0]["messageId"], texts_of(chunks)) == ("answer-2", "2: Two")

    def test_an_edited_message_keeps_its_id(self, api: Client, conversation: Conversation) -> None:
        take(api, conversation, {"message": "One"})
        take(api, conversation, {"message": "Two", "edit": 0})
        assert self.send(api, conversation, ui_message("Two", "0"))[0]["messageId"] == "answer-2-4"
        assert self.send(api, conversation, ui_message("One", "0"))[0]["messageId"] == "answer-0-5"

    @pytest.mark.slow
    def test_a_message_with_its_parent(self, api: Client, conversation: Conversation) -> None:
        """As a page of assistant-ui says it, whose users switch between branches there."""
        for text in ("One", "Two"):
            take(api, conversation, {"message": text})
        for _repeated in range(2):
            body = {"trigger": "submit-message", "parentId": "answer-0"}
            assert self.send(api, conversation, ui_message("Three", "a"), **body)[0]["messageId"] == "answer-4"
        self.send(api, conversation, ui_message("Four", "b"), trigger="submit-message", parentId="answer-2")
        assert [id for id, _text in page(api, conversation)] == ["0", "answer-0", "2", "answer-2", "8", "answer-8"]
        self.send(api, conversation, ui_message("Five", "c"), trigger="submit-message", parentId=None)
        assert [id for id, _text in page(api, conversation)] == ["10", "answer-10"]
