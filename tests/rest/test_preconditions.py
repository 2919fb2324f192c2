"""ETags, If-None-Match and If-Match."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from chatmemory import UserMessage
from chatmemory.assistant.conversation_lease import ConversationLease
from chatmemory.models import Conversation
from chatmemory.personal_data import erase_user
from chatmemory.retention import purge_evicted
from tests.support.api import USER, patch, post, put, send, url, user_message
from tests.support.factories import ConversationFactory
from tests.support.planted import member


@pytest.fixture
def conversation(user: Any) -> Conversation:
    made = ConversationFactory(owner=user, window="messages", limit=5, memory_id="x")
    made.memory.add(UserMessage("u"))
    return made


def paths(conversation: Conversation) -> list[str]:
    return [url(conversation), url(conversation, "memory/"), "/api/stores/x/"]


def test_what_is_known_is_not_sent_again(api: Client, conversation: Conversation) -> None:
    for path in paths(conversation):
        tag = api.get(path)["ETag"]
        for header in (tag, f"W/{tag}", f'"other", {tag}', "*"):
            again = api.get(path, headers={"If-None-Match": header})
            assert (again.status_code, again.content, again["ETag"]) == (304, b"", tag)
        assert api.get(path, headers={"If-None-Match": '"other"'}).status_code == 200
        assert api.head(path)["ETag"] == tag


@pytest.mark.parametrize(
    "change",
    [
        lambda conversation: conversation.memory.add(UserMessage("v")),
        lambda conversation: conversation.memory.clear(),
        lambda conversation: conversation.memory.set_window(limit=4),
        lambda conversation: conversation.memory.set_window(model="gpt-4"),
        lambda conversation: conversation.memory.pin(0),
        lambda conversation: Conversation.objects.update(window="tokens"),
        lambda conversation: Conversation.objects.update(low_water=50),
        lambda conversation: Conversation.objects.update(keep_tool_results=0),
    ],
)
def test_a_change_of_the_memory_changes_its_tag(api: Client, conversation: Conversation, change: Any) -> None:
    before = [api.get(path)["ETag"] for path in paths(conversation)]
    change(conversation)
    after = [api.get(path)["ETag"] for path in paths(conversation)]
    assert not set(before) & set(after)


def test_a_change_of_the_title_changes_the_conversations_tag_only(api: Client, conversation: Conversation) -> None:
    own, memory, store = (api.get(path)["ETag"] for path in paths(conversation))
    assert patch(api, url(conversation), {"title": "New"})["ETag"] == api.get(url(conversation))["ETag"] != own
    assert [api.get(path)["ETag"] for path in paths(conversation)[1:]] == [memory, store]


def test_each_view_of_a_memory_has_its_own_tag(api: Client, conversation: Conversation) -> None:
    conversation.memory.add(UserMessage("v"))
    queries = ("", "?at=1", "?at=2", "?at_message=0", "?format=openai", "?at=1&format=openai")
    tags = {query: api.get(url(conversation, f"memory/{query}"))["ETag"] for query in queries}
    assert tags["?at=1"] == tags["?at_message=0"]
    assert tags[""] == tags["?at=2"]
    assert len(set(tags.values())) == 4


def requests(conversation: Conversation) -> list[tuple[str, str, Any]]:
    return [
        ("POST", url(conversation, "messages/"), user_message("new")),
        ("PUT", url(conversation, "memory/"), {"messages": [user_message("new")]}),
        ("PUT", "/api/stores/x/", [user_message("new")]),
        ("PATCH", url(conversation), {"title": "New"}),
        ("DELETE", url(conversation, "memory/"), {}),
        ("DELETE", "/api/stores/x/", {}),
        ("DELETE", url(conversation), {}),
    ]


@pytest.mark.parametrize("index", range(7))
@pytest.mark.parametrize("moved", [False, True])
def test_if_match_refuses_when_the_version_moved(
    api: Client, conversation: Conversation, index: int, moved: bool
) -> None:
    method, path, body = requests(conversation)[index]
    resource = path.replace("messages/", "memory/") if method == "POST" else path
    tag = api.get(resource)["ETag"]
    version = api.get(url(conversation)).json()["version"]
    if moved:
        conversation.memory.add(UserMessage("meanwhile"))
    before = list(conversation.messages.values())
    for header in (tag, f'"{version}"', f"W/{tag}", f'"0", {tag}'):
        answer = send(api, method, path, body, if_match=header)
        if not moved:
            assert answer.status_code in {200, 201, 204}, header
            return
        assert answer.status_code == 412
        assert answer.json()["version"] == version + 1
        assert list(conversation.messages.values()) == before
    assert send(api, method, path, body, if_match="*").status_code in {200, 201, 204}


def test_the_tag_of_a_refusal_is_good_for_the_next_try(api: Client, conversation: Conversation) -> None:
    for method, path, body in requests(conversation):
        refused = send(api, method, path, body, if_match='"99"')
        assert refused.status_code == 412
        answer = send(api, method, path, body, if_match=refused.json()["etag"])
        assert answer.status_code in {200, 201, 204}, (method, path)


def test_a_title_changed_meanwhile_is_not_overwritten(api: Client, conversation: Conversation) -> None:
    tag = api.get(url(conversation))["ETag"]
    assert patch(api, url(conversation), {"title": "First"}, if_match=tag).status_code == 200
    assert patch(api, url(conversation), {"title": "Second"}, if_match=tag).status_code == 412
    assert post(api, url(conversation, "messages/"), USER, if_match=tag).status_code == 201
    assert api.get(url(conversation)).json()["title"] == "First"


def test_a_turn_that_is_under_way_is_no_change(api: Client, conversation: Conversation) -> None:
    before = [api.get(path)["ETag"] for path in paths(conversation)]
    turn = ConversationLease.of(conversation.memory, timeout=60)
    assert turn is not None
    assert turn.try_take()
    turn.renew()
    assert [api.get(path)["ETag"] for path in paths(conversation)] == before
    assert patch(api, url(conversation), {"title": "New"}, if_match=before[0]).status_code == 200
    turn.renew()
    tag = api.get(url(conversation))["ETag"]
    turn.release()
    assert send(api, "DELETE", url(conversation), {}, if_match=tag).status_code == 204


@pytest.mark.parametrize("query", ["?at=1", "?at=1&format=openai"])
def test_what_was_purged_is_not_shown_again(api: Client, conversation: Conversation, query: str) -> None:
    conversation.memory.add(UserMessage("v"))
    conversation.memory.set_window(limit=1)
    seen = api.get(url(conversation, f"memory/{query}"))
    assert len(seen.json()["messages"]) == 1
    assert sum(step.messages for step in purge_evicted(timezone.now())) == 1
    again = api.get(url(conversation, f"memory/{query}"), headers={"If-None-Match": seen["ETag"]})
    assert (again.status_code, again.json()["messages"]) == (200, [])


@pytest.mark.parametrize("how", ["erase", "anonymise"])
def test_what_was_erased_is_not_shown_again(client: Client, user: Any, conversation: Conversation, how: str) -> None:
    conversation.memory.add(UserMessage("v"))
    client.force_login(member())
    addresses = [f"{url(conversation, part)}owner=*" for part in ("?", "memory/?", "memory/?at=1&")]
    seen = [client.get(each) for each in addresses]
    erase_user(user, how=how)
    for address, answer in zip(addresses, seen, strict=True):
        again = client.get(address, headers={"If-None-Match": answer["ETag"]})
        assert again.status_code == (404 if how == "erase" else 200)


def test_without_if_match_adds_never_conflict(api: Client, conversation: Conversation) -> None:
    for number in range(3):
        assert post(api, url(conversation, "messages/"), user_message(str(number))).status_code == 201


@pytest.mark.parametrize("header", ["1", "", "x", "\xff"])
def test_a_header_without_a_tag_is_an_error(api: Client, conversation: Conversation, header: str) -> None:
    answer = put(api, "/api/stores/x/", [], if_match=header)
    assert (answer.status_code, answer.json()["errors"][0]["place"]) == (400, "If-Match")


def test_if_it_must_be_there_or_must_not(api: Client, conversation: Conversation) -> None:
    assert put(api, "/api/stores/new/", [USER], if_match="*").status_code == 412
    assert put(api, "/api/stores/x/", [], if_none_match="*").status_code == 412
    assert put(api, "/api/stores/x/", [USER], if_match="*").status_code == 204
    assert put(api, "/api/stores/new/", [USER], if_none_match="*").status_code == 204
    assert put(api, "/api/stores/new/", [], if_none_match="*").status_code == 412


def test_a_write_answers_with_the_tag_of_what_it_made(api: Client, conversation: Conversation) -> None:
    memory = url(conversation, "memory/")
    assert post(api, url(conversation, "messages/"), USER)["ETag"] == api.get(memory)["ETag"]
    assert put(api, memory, {"messages": [USER]})["ETag"] == api.get(memory)["ETag"]
    assert put(api, "/api/stores/x/", [USER])["ETag"] == api.get("/api/stores/x/")["ETag"]


def test_a_store_that_is_not_there_is_at_version_zero(api: Client) -> None:
    assert put(api, "/api/stores/new/", [USER], if_match='"1"').status_code == 412
    assert not Conversation.objects.exists()
    tag = api.get("/api/stores/new/")["ETag"]
    assert put(api, "/api/stores/new/", [USER], if_match=tag).status_code == 204
    assert put(api, "/api/stores/new/", [], if_match=tag).status_code == 412
    assert api.get("/api/stores/new/").json() == [USER]
