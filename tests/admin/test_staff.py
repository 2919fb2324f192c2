"""Every page of the admin with many sets of permissions: the words of tests/rest/test_staff.py, by the same rule."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from chatmemory import UserMessage
from chatmemory.models import Conversation, Message
from tests.support.factories import ConversationFactory, UserFactory
from tests.support.planted import HIDDEN, METADATA, NOBODY_SAID, PERMISSIONS, TITLE, member, planted, said_in, subsets

pytestmark = pytest.mark.django_db

QUERIES = (
    "",
    "?version=1&download=langchain4j",
    "?1-window=messages&1-limit=1",
    "?position=1&whole=1",
    "?go=first-evicted",
)
LISTS = {Conversation: "/admin/chatmemory/conversation/", Message: "/admin/chatmemory/message/"}


def pages(conversation: Conversation) -> list[str]:
    """Every address of this app in the admin, taken from its URL conf."""
    found = [reverse("admin:index"), reverse("admin:app_list", args=["chatmemory"])]
    for model, key in ((Conversation, conversation.pk), (Message, conversation.messages.get(position=1).pk)):
        for pattern in admin.site.get_model_admin(model).get_urls():
            if pattern.name:  # the nameless one redirects from an old address
                arguments = [key] if "object_id" in pattern.pattern.converters else []
                found.append(reverse(f"admin:{pattern.name}", args=arguments))
    return found


def signed_in(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


def row_of(model: Any, conversation: Conversation) -> Any:
    """A row of a model that belongs to a conversation, or the conversation itself."""
    if model is Conversation:
        return Conversation.objects.get(pk=conversation.pk)
    return model.objects.filter(conversation=conversation).first() or model.objects.create(conversation=conversation)


def page(conversation: Conversation, name: str = "change") -> str:
    return reverse(f"admin:chatmemory_conversation_{name}", args=[conversation.pk])


@pytest.mark.slow
def test_words_are_on_pages_for_those_who_may_read_only() -> None:
    theirs = planted()
    found = pages(theirs)
    assert len(found) > 15
    for permissions in subsets():
        if ("add_conversation" in permissions) != ("write_message_text" in permissions):
            continue  # for neither is there a page
        # Who may read is shown every word without asking for more.
        asks_more = {*permissions} >= {"view_conversation", "delete_conversation"} and not {*permissions} & {
            "add_conversation",
            "read_message_text",
        }
        if len({*permissions} - {"write_message_text"}) % 2 and not asks_more:
            continue  # any four of the five are there in every combination without these
        client = signed_in(member((*permissions, "view_message")))
        sees = bool({"view_conversation", "change_conversation"} & {*permissions})
        queries = QUERIES if asks_more else QUERIES[:1]
        said = set().union(*(said_in(client.get(each + query)) for each in found for query in queries))
        if "read_message_text" not in permissions:
            assert not said & HIDDEN, permissions
        elif sees:
            assert said >= HIDDEN, permissions  # metadata are in the export
        else:
            assert not said & METADATA, permissions
        assert (TITLE in said) == (sees or "delete_conversation" in permissions), permissions


@pytest.mark.slow
@pytest.mark.parametrize("model", [Conversation, Message])
@pytest.mark.parametrize("parameter", ["q", "metadata__has_key", "text__contains", "messages__text__contains"])
def test_a_word_that_was_said_is_answered_like_one_that_nobody_said(model: Any, parameter: str) -> None:
    planted()
    client = signed_in(member((*(set(PERMISSIONS) - {"read_message_text"}), "view_message")))
    nowhere = client.get(LISTS[model], {parameter: NOBODY_SAID})
    for word in HIDDEN:
        answer = client.get(LISTS[model], {parameter: word})
        assert answer.status_code == nowhere.status_code
        assert same(answer, word) == same(nowhere, NOBODY_SAID)


def chosen(client: Client, term: str) -> list[str]:
    """What a field to choose a conversation in offers."""
    field = {"app_label": "chatmemory", "model_name": "message", "field_name": "conversation"}
    return [each["id"] for each in client.get("/admin/autocomplete/", {**field, "term": term}).json()["results"]]


def test_a_field_to_choose_a_conversation_in_finds_by_words_for_those_who_may_read_only() -> None:
    theirs = planted()
    blind, reads = (signed_in(member(set(PERMISSIONS) - {without})) for without in ("read_message_text", ""))
    for word in HIDDEN - METADATA - {"plantedAttribute", "plantedArgument", "plantedThinking"}:
        assert chosen(blind, word) == []
        assert chosen(reads, word) == [str(theirs.pk)]
        assert LogEntry.objects.latest("pk").change_message.endswith(f"term={word}")
    assert chosen(blind, TITLE) == [str(theirs.pk)]


def same(answer: Any, word: str) -> str:
    """The page without the word that was asked for, and without tokens that are new each time."""
    text = re.sub(r'name="csrfmiddlewaretoken" value="\w+"', "", answer.content.decode())
    return text.replace(word, "")


class TestTheRecord:
    @pytest.fixture
    def theirs(self) -> Conversation:
        return planted()

    @pytest.fixture
    def user(self) -> Any:
        return member((*PERMISSIONS, "view_message"))

    def entries(self) -> list[tuple[Any, ...]]:
        return list(LogEntry.objects.values_list("user_id", "object_id", "change_message"))

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("name", "query", "says"),
        [
            ("change", "", "Read what its messages say."),
            ("memory", "", "Read the memory at version 2."),
            ("memory", "?message=1", "Read the memory at version 1."),
            ("memory", "?version=1&download=openai", "Exported the memory at version 1 for OpenAI."),
            ("window", "?1-window=messages&1-limit=1", "Read what its messages say."),
            ("export_jsonl", "", "Exported as JSON lines."),
            ("export_openai", "", "Exported for OpenAI."),
        ],
    )
    def test_says_who_read_what(self, user: Any, theirs: Conversation, name: str, query: str, says: str) -> None:
        client = signed_in(user)
        assert client.head(page(theirs, name) + query).status_code == 200
        assert self.entries() == []
        answer = client.get(page(theirs, name) + query, headers={"Accept-Language": "ja"})
        assert said_in(answer) & HIDDEN
        assert self.entries() == [(user.pk, str(theirs.pk), says)]

    @pytest.mark.parametrize("model", [Conversation, Message])
    def test_says_what_was_searched(self, user: Any, theirs: Conversation, model: Any) -> None:
        signed_in(user).get(LISTS[model], {"q": "tea & cake"})
        assert self.entries() == [(user.pk, None, "Listed or searched what messages say: ?q=tea+%26+cake")]

    @pytest.mark.parametrize("method", ["HEAD", "POST"])
    @pytest.mark.parametrize("model", [Conversation, Message])
    def test_says_it_of_every_method(self, user: Any, theirs: Conversation, model: Any, method: str) -> None:
        assert signed_in(user).generic(method, f"{LISTS[model]}?q=tea").status_code == 200
        assert self.entries() == [(user.pk, None, "Listed or searched what messages say: ?q=tea")]

    @pytest.mark.slow
    def test_no_page_with_text_goes_without_an_entry(self, user: Any, theirs: Conversation) -> None:
        client = signed_in(user)
        for address in pages(theirs):
            for query in QUERIES:
                LogEntry.objects.all().delete()
                said = said_in(client.get(address + query)) & HIDDEN
                assert bool(self.entries()) >= bool(said), address + query

    @pytest.mark.slow
    def test_says_nothing_of_those_who_read_no_words(self, theirs: Conversation) -> None:
        client = signed_in(member((*(set(PERMISSIONS) - {"read_message_text"}), "view_message")))
        for address in pages(theirs):
            for query in (*QUERIES, "?q=tea"):
                client.get(address + query)
        assert self.entries() == []

    def test_says_nothing_of_a_conversation_without_messages(self, user: Any) -> None:
        signed_in(user).get(page(ConversationFactory()))
        assert self.entries() == []


@pytest.mark.slow
def test_no_error_quotes_a_message_to_those_who_may_not_read() -> None:
    theirs = planted()
    Message.objects.filter(position=4).update(payload='{"contents": [{"type": "plantedBroken"}]}')
    address = f"{page(theirs, 'window')}?1-window=messages&1-limit=1"
    for permissions in (PERMISSIONS, set(PERMISSIONS) - {"read_message_text"}):
        shown = signed_in(member(permissions)).get(address).content.decode()
        assert "a message cannot be read" in shown
        assert "plantedBroken" not in shown


class TestTenants:
    @pytest.fixture(params=["acme", "repeated"], autouse=True)
    def rule(self, settings: Any, request: Any) -> None:
        settings.CHATMEMORY = {"STAFF_CONVERSATIONS": f"tests.support.tenants.{request.param}"}

    @pytest.fixture
    def client(self) -> Client:
        return signed_in(member(is_superuser=True))

    @pytest.mark.slow
    def test_no_page_tells_of_what_is_not_theirs(self, client: Client) -> None:
        theirs = planted()
        assert chosen(client, "planted") == []
        for address in pages(theirs):
            for query in (*QUERIES, "?q=planted", f"?owner={theirs.owner_id}"):
                answer = client.get(address + query)
                assert not said_in(answer), address + query
                assert theirs.owner.username not in answer.content.decode()
                if "/conversation/" in address and str(theirs.pk) in address:
                    assert answer.status_code in {302, 404}

    @pytest.mark.slow
    @pytest.mark.urls("tests.admin.test_permissions")
    @pytest.mark.parametrize("name", ["messages-only", "conversations-only", "tenant"])
    def test_no_other_site_of_the_admin_tells_of_it(self, client: Client, name: str) -> None:
        theirs = planted()
        for address in (
            "",
            "conversation/",
            "message/",
            f"conversation/{theirs.pk}/change/",
            "conversation/?q=planted",
        ):
            assert not said_in(client.get(f"/{name}/chatmemory/{address}")), address

    def test_no_act_reaches_it(self, client: Client) -> None:
        theirs = planted()
        before = Conversation.objects.values().get(), list(Message.objects.values())
        for name, data in (
            ("window", {"1-window": "messages", "1-limit": "1", "seen": f"2 messages 4 {theirs.retained_tokens}"}),
            ("pin", {"position": "2"}),
            ("clear_tool_results", {"keep": "0"}),
            ("clear", {}),
            ("delete", {"post": "yes"}),
        ):
            assert client.post(page(theirs, name), data).status_code in {302, 404}
        for action in ("clear_memories", "delete_selected", "export_selected"):
            data = {"action": action, "_selected_action": [str(theirs.pk)], "confirmed": "yes", "select_across": "1"}
            assert not said_in(client.post(LISTS[Conversation], data))
        assert (Conversation.objects.values().get(), list(Message.objects.values())) == before
        assert not LogEntry.objects.filter(object_id=str(theirs.pk)).exists()

    def test_no_permission_is_given_for_it(self, client: Client, rf: Any) -> None:
        """What pages of Django and of projects ask before they show, change or delete a row of ours."""
        theirs, ours = planted(), ConversationFactory(owner=UserFactory(username="acme-1"))
        ours.memory.add(UserMessage("x"))
        request = rf.get("/")
        request.user = member(is_superuser=True)
        asked = set()
        for model, model_admin in admin.site._registry.items():
            if model is not Conversation and "conversation" not in {field.name for field in model._meta.fields}:
                continue
            for name, method in inspect.getmembers(model_admin, inspect.ismethod):
                if re.fullmatch("has_.*_permission", name) and "obj" in inspect.signature(method).parameters:
                    asked.add((model._meta.label, name))
                    of_both = [row_of(model, conversation) for conversation in (ours, theirs)]
                    reached, other = (method(request, obj) for obj in of_both)
                    assert not other, (model, name)
                    assert reached == method(request), (model, name)
        assert len(asked) > 12, asked

    def test_a_list_asks_no_more_for_more_rows(self, client: Client) -> None:
        statements = []
        for number in range(2):
            for conversation in ConversationFactory.create_batch(4, owner=UserFactory(username=f"acme-{number}")):
                conversation.memory.add(UserMessage("x"))
            with CaptureQueriesContext(connection) as captured:
                assert client.get(LISTS[Conversation]).context["cl"].result_count == 4 * (number + 1)
            statements.append(len(captured))
        assert statements[0] == statements[1]

    @pytest.mark.slow
    def test_lists_and_figures_are_of_what_is_theirs(self, client: Client) -> None:
        planted()
        ours = ConversationFactory(owner=UserFactory(username="acme-1"), title="Ours")
        ours.memory.add(UserMessage("one"), UserMessage("two"))
        dashboard = client.get("/admin/chatmemory/").context["dashboard"]
        assert sum(day.messages for day in dashboard.steps) == 2
        assert [found for found, _gauge in dashboard.fullest] == [ours]
        assert client.get(LISTS[Conversation]).context["cl"].result_count == 1
        assert client.get(LISTS[Message]).context["cl"].result_count == 2
        assert client.get(page(ours)).status_code == 200
