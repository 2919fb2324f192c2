"""Branches over REST: go back, edit, switch, fork, siblings, and the current branch."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from django.db import transaction
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chatmemory import AiMessage, SystemMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory.branches.tree import read_siblings, read_tree
from chatmemory.formats.ai_sdk import plain_to_ai_sdk, to_ai_sdk
from chatmemory.models import Conversation, Message
from tests.rest.test_staff import signed_in
from tests.support import budget
from tests.support.api import patch, post, put, url
from tests.support.factories import ConversationFactory
from tests.support.planted import member

pytestmark = pytest.mark.django_db


@pytest.fixture
def conversation(user: Any) -> Conversation:
    """Two questions, with their answers, at the positions 0 to 3."""
    made: Conversation = ConversationFactory.create(owner=user, window="messages", limit=20)
    made.memory.add(UserMessage("One"), AiMessage("A"), UserMessage("Two"), AiMessage("B"))
    return made


def positions(api: Client, conversation: Conversation, query: str = "") -> list[int]:
    return [item["position"] for item in api.get(url(conversation, f"messages/{query}")).json()["results"]]


def siblings(api: Client, conversation: Conversation) -> dict[int, Any]:
    items = api.get(url(conversation, "messages/")).json()["results"]
    return {item["position"]: item["siblings"] for item in items}


def user_message(text: str) -> dict[str, Any]:
    return {"type": "USER", "contents": [{"type": "TEXT", "text": text}]}


@pytest.mark.parametrize("call", ["rewind/", "edit/", "switch/", "fork/", "tree/"])
def test_only_an_item_of_the_tree_is_put_and_deleted(api: Client, conversation: Conversation, call: str) -> None:
    for method in (api.put, api.delete):
        assert method(url(conversation, call), "{}", content_type="application/json").status_code == 405


class TestGoingBack:
    def test_rewind(self, api: Client, conversation: Conversation) -> None:
        answer = post(api, url(conversation, "rewind/"), {"before": 2})
        assert answer.status_code == 200, answer.content
        assert [(item["position"], item["reason"]) for item in answer.json()["evicted"]] == [
            (2, "rewound"),
            (3, "rewound"),
        ]
        assert positions(api, conversation) == [0, 1, 2, 3]
        assert positions(api, conversation, "?branch=current") == [0, 1]

    def test_edit_and_switch(self, api: Client, conversation: Conversation) -> None:
        answer = post(api, url(conversation, "edit/"), {"position": 2, "message": user_message("Three")})
        assert answer.status_code == 200, answer.content
        assert [item["text"] for item in answer.json()["added"]] == ["Three"]
        assert positions(api, conversation, "?branch=current") == [0, 1, 4]
        assert siblings(api, conversation) == {0: None, 1: None, 2: [2, 4], 3: None, 4: [2, 4]}
        answer = post(api, url(conversation, "switch/"), {"position": 2})
        assert answer.status_code == 200, answer.content
        assert positions(api, conversation, "?branch=current") == [0, 1, 2, 3]


@pytest.mark.slow
@settings(max_examples=budget.examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=12))
def test_siblings_are_those_of_the_whole_tree(conversation: Conversation, steps: list[tuple[bool, int]]) -> None:
    with transaction.atomic():
        for goes_back, number in steps:
            said = list(conversation.messages.history().values_list("position", flat=True))
            if goes_back and said:
                conversation.rewind(before=said[number % len(said)])
            else:
                kinds = [UserMessage(f"{number}"), AiMessage(f"{number}"), SystemMessage(f"{number % 3}")]
                conversation.memory.add(kinds[number % 3])
        whole = read_tree(conversation)
        expected = {position: whole.siblings(position) for position in whole.parents}
        assert read_siblings(conversation) == {key: each for key, each in expected.items() if len(each) > 1}
        transaction.set_rollback(True)
    conversation.refresh_from_db()


def tree(api: Client, conversation: Conversation) -> Any:
    """Return the head, and the ID, parent and last text of each message."""
    answer = api.get(url(conversation, "tree/"))
    assert answer.status_code == 200, answer.content
    conversation.refresh_from_db()
    assert answer.json()["version"] == conversation.version
    items = answer.json()["messages"]
    return answer.json()["headId"], [
        (item["message"]["id"], item["parentId"], item["message"]["parts"][-1].get("text")) for item in items
    ]


def ui(text: str, id: str, role: str = "user") -> dict[str, Any]:
    return {"id": id, "role": role, "parts": [{"type": "text", "text": text}]}


def put_message(api: Client, conversation: Conversation, parent: str | None, message: dict[str, Any]) -> Any:
    return put(api, url(conversation, f"tree/{message['id']}/"), {"parentId": parent, "message": message})


FIRST = [("0", None, "One"), ("answer-0", "0", "A"), ("2", "answer-0", "Two"), ("answer-2", "2", "B")]


class TestTree:
    @pytest.mark.parametrize("message", [UserMessage("Hi"), AiMessage("Hi")])
    def test_plain_messages_are_written_like_others(self, message: Any) -> None:
        [written] = to_ai_sdk([message])
        assert plain_to_ai_sdk(message.type, "Hi", written["id"]) == written

    def test_branches(self, api: Client, conversation: Conversation) -> None:
        assert tree(api, conversation) == ("answer-2", FIRST)
        conversation.rewind(before=3)
        conversation.memory.add(AiMessage("C"))
        conversation.edit(0, UserMessage("Zero"))
        more = [("answer-2-4", "2", "C"), ("5", None, "Zero")]
        assert tree(api, conversation) == ("5", [*FIRST, *more])

    def test_a_call_and_its_result_are_one_message(self, api: Client, conversation: Conversation) -> None:
        request = ToolExecutionRequest("1", "look")
        conversation.memory.add(
            UserMessage("Look"),
            AiMessage(None, [request]),
            ToolExecutionResultMessage("1", "look", "x"),
            AiMessage("C"),
        )
        conversation.rewind(before=7)
        conversation.memory.add(AiMessage("D"))
        more = [("4", "answer-2", "Look"), ("answer-4", "4", None), ("answer-4-7", "answer-4", "C")]
        assert tree(api, conversation) == ("answer-4-8", [*FIRST, *more, ("answer-4-8", "answer-4", "D")])

    def test_put_of_a_stored_message_changes_nothing(self, api: Client, conversation: Conversation) -> None:
        for parent, message in (
            (None, ui("One", "0")),
            ("0", ui("Something else", "answer-0", "assistant")),
            ("answer-0", ui("Two", "2")),
        ):
            answer = put_message(api, conversation, parent, message)
            assert (answer.status_code, answer.json()["message"]["id"]) == (200, message["id"])
        assert put_message(api, conversation, "2", ui("Lost", "answer-2-9", "assistant")).status_code == 204
        assert tree(api, conversation) == ("answer-2", FIRST)

    @pytest.mark.slow
    def test_put_of_a_new_message_adds_it_behind_its_parent(self, api: Client, conversation: Conversation) -> None:
        for _repeated in range(2):
            for parent, id, role in (("answer-2", "a", "user"), ("answer-0", "b", "user"), (None, "c", "user")):
                answer = put_message(api, conversation, parent, ui(id, id, role))
                assert answer.status_code == (200 if _repeated else 201), answer.content
        more = [("4", "answer-2", "a"), ("5", "answer-0", "b"), ("6", None, "c")]
        assert tree(api, conversation) == ("6", [*FIRST, *more])
        put_message(api, conversation, "c", ui("d", "d", "assistant"))
        assert tree(api, conversation) == ("answer-6", [*FIRST, *more, ("answer-6", "6", "d")])
        assert put_message(api, conversation, "nothing", ui("e", "e")).status_code == 400

    def test_put_of_another_text_is_an_edit(self, api: Client, conversation: Conversation) -> None:
        for status in (201, 200):
            assert put_message(api, conversation, "answer-0", ui("Three", "2")).status_code == status
        assert tree(api, conversation) == ("4", [*FIRST, ("4", "answer-0", "Three")])

    def test_delete_goes_back_and_erases_nothing(self, api: Client, conversation: Conversation) -> None:
        for id in ("2", "2", "answer-2", "nothing"):
            assert api.delete(url(conversation, f"tree/{id}/")).status_code == 204
        assert tree(api, conversation) == ("answer-0", FIRST)


class TestForkingOnce:
    def test_a_repeated_key_gives_the_original_copy(self, api: Client, conversation: Conversation) -> None:
        path = url(conversation, "fork/")
        first = post(api, path, {"at": 3, "title": "T"}, idempotency_key="k")
        patch(api, f"/api/conversations/{first.json()['id']}/", {"title": "Changed"})
        again = post(api, path, {"title": "T", "at": 3}, idempotency_key="k")
        assert (again.status_code, again.json()) == (201, first.json())
        assert Conversation.objects.filter(forked_from=conversation.pk).count() == 1

    def test_a_key_is_of_one_request(self, api: Client, conversation: Conversation) -> None:
        another = conversation.fork(at=3)
        post(api, url(conversation, "fork/"), {"at": 3}, idempotency_key="k")
        for path, body in (
            (url(conversation, "fork/"), {"at": 1}),
            (url(another, "fork/"), {"at": 3}),
            ("/api/conversations/", {}),
        ):
            answer = post(api, path, body, idempotency_key="k")
            assert (answer.status_code, answer.json()["code"]) == (422, "idempotency_key_reused"), path
        assert Conversation.objects.count() == 3

    def test_without_a_key_and_with_other_keys_there_are_more_copies(
        self, api: Client, conversation: Conversation
    ) -> None:
        for key in ({}, {}, {"idempotency_key": "a"}, {"idempotency_key": "b"}):
            assert post(api, url(conversation, "fork/"), {"at": 3}, **key).status_code == 201
        assert Conversation.objects.count() == 5

    def test_a_refused_fork_does_not_use_up_its_key(self, api: Client, conversation: Conversation) -> None:
        path = url(conversation, "fork/")
        assert post(api, path, {"at": 9}, idempotency_key="k").status_code == 400
        assert post(api, path, {"at": 3}, idempotency_key="k").status_code == 201

    def test_staff_copy_what_belongs_to_nobody_once(self) -> None:
        nobodys = ConversationFactory(owner=None)
        nobodys.memory.add(UserMessage("Hi"))
        staff = signed_in(member())
        path = url(nobodys, "fork/?owner=*")
        first, again = (post(staff, path, {"at": 0}, idempotency_key="k") for _ in range(2))
        assert (first.status_code, again.json()) == (201, first.json())
        assert Conversation.objects.filter(owner=None).count() == 2


class TestBounds:
    """What is too much to copy or to read at once is refused before it is done."""

    def test_messages(self, api: Client, conversation: Conversation, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("chatmemory.branches.rest._MOST_MESSAGES", 3)
        item = {"parentId": None, "message": {"id": "a", "role": "user", "parts": [{"type": "text", "text": "Hi"}]}}
        before = list(Message.objects.values())
        refused = [
            post(api, url(conversation, "fork/"), {"at": 3}),
            api.get(url(conversation, "tree/")),
            put(api, url(conversation, "tree/a/"), item),
            api.delete(url(conversation, "tree/2/")),
        ]
        for answer in refused:
            assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
        assert refused[0].json()["detail"].startswith("At most 3 messages with ")
        assert "Fork at an earlier message" in refused[0].json()["detail"]
        assert list(Message.objects.values()) == before
        assert post(api, url(conversation, "fork/"), {"at": 2}).status_code == 201

    def test_characters(self, api: Client, user: Any, settings: Any) -> None:
        settings.CHATMEMORY = {**settings.CHATMEMORY, "MAX_MEMORY_CHARS": 100}
        conversation = ConversationFactory(owner=user)
        conversation.memory.add(*[UserMessage("x" * 30) for _ in range(4)])
        for call in (
            lambda: post(api, url(conversation, "fork/"), {"at": 3}),
            lambda: api.get(url(conversation, "tree/")),
        ):
            assert call().status_code == 413
        assert post(api, url(conversation, "fork/"), {"at": 2}).status_code == 201

    def test_no_refusal_tells_how_long_hidden_text_is(self, api: Client, user: Any, settings: Any) -> None:
        settings.CHATMEMORY = {**settings.CHATMEMORY, "MAX_MEMORY_CHARS": 100}
        told = []
        for length in (101, 150):
            conversation = ConversationFactory(owner=user, pk=UUID(int=7), memory_id="m")
            conversation.memory.add(SystemMessage("x" * length), UserMessage("Hi"))
            told.append(post(api, url(conversation, "fork/"), {"at": 1}).json())
            conversation.memory.erase()
        assert told[0] == told[1]
        assert told[0]["status"] == 413
