"""What each hook does for the capability; tests/test_capabilities.py runs this with tests.settings.capability."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection
from django.template import Context, Template
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from chatmemory import AiMessage, MessageWindowChatMemory, SystemMessage, UserMessage
from chatmemory.assistant import Assistant, WindowTooSmallError
from chatmemory.capabilities import Capability, register
from chatmemory.formats.anthropic import to_anthropic
from chatmemory.models import Conversation
from chatmemory.personal_data import erase_user, export_user
from chatmemory.replaying import Question, RecallFigures, replay
from chatmemory.rest.openapi import openapi_document
from chatmemory.retention import purge_evicted
from chatmemory.stores import DjangoChatMemoryStore
from chatmemory.transfer.export import conversation_lines
from chatmemory.verification import verify
from tests.capability.capability import Reviews
from tests.capability.models import Review
from tests.support.assistants import Speaker
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def conversation(user: Any) -> Conversation:
    made: Conversation = ConversationFactory(owner=user)
    made.memory.add(UserMessage("What is a cat?"))
    made.memory.add(AiMessage("An animal."))
    return made


def reviews() -> list[tuple[int, bool | None]]:
    return list(Review.objects.order_by("position").values_list("position", "correct"))


class TestChanges:
    def test_each_answer_gets_a_review_in_its_transaction(self, conversation: Conversation) -> None:
        assert reviews() == [(1, None)]

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.parametrize("keep_history", [True, False])
    def test_an_error_undoes_the_change(self, settings: Any, conversation: Conversation, keep_history: bool) -> None:
        settings.CHATMEMORY = {**settings.CHATMEMORY, "KEEP_HISTORY": keep_history}
        Review.objects.create(conversation=conversation, position=2)  # in its place
        with pytest.raises(IntegrityError):
            conversation.memory.add(AiMessage("Or a whip."))
        assert Conversation.objects.get().message_count == conversation.messages.count() == 2

    @pytest.mark.django_db(transaction=True)
    def test_what_a_key_repeats_is_no_change(self, conversation: Conversation) -> None:
        for _ in range(2):
            conversation.memory.add(AiMessage("Or a whip."), idempotency_key="a")
        assert reviews() == [(1, None), (2, None)]

    @pytest.mark.django_db(transaction=True)
    def test_an_assistant_sends_what_it_adds(self, conversation: Conversation) -> None:
        asked: list[Any] = []

        def speak(messages: Any) -> Any:
            asked.append(list(messages))
            yield AiMessage("Better?")

        assistant = Assistant(Speaker(speak))
        assistant.chat(conversation, "Really?")
        Review.objects.update(correct=False)
        assistant.chat(conversation, "Try again.")
        before, after = asked
        assert not any(isinstance(message, SystemMessage) for message in before)
        assert after[0] == SystemMessage("2 answers were wrong.")
        assert after[1:] == conversation.memory.messages()[:-1]

    @pytest.mark.django_db(transaction=True)
    def test_an_assistant_knows_what_is_pinned_behind_what_it_adds(self, conversation: Conversation) -> None:
        for position in (0, 1):
            conversation.memory.pin(position)
        Review.objects.update(correct=False)
        requests: list[Any] = []

        def speak(messages: Any) -> Any:
            requests.append(to_anthropic(messages, cache=True))
            yield AiMessage("Better?")

        Assistant(Speaker(speak)).chat(conversation, "Really?")
        [request] = requests
        assert "were wrong" in request["system"][0]["text"]
        pinned = request["messages"][1]["content"]
        assert pinned == [{"type": "text", "text": "An animal.", "cache_control": {"type": "ephemeral"}}]

    @pytest.mark.django_db(transaction=True)
    def test_an_assistant_sends_what_it_recalls(self, conversation: Conversation) -> None:
        asked: list[list[Any]] = []

        def speak(messages: Any) -> Any:
            asked.append(list(messages))
            yield AiMessage("Better?")

        Review.objects.filter(conversation=conversation).update(comment="Wrong.")
        Assistant(Speaker(speak), recall=Reviews().recall).chat(conversation, "Really?")
        [messages] = asked
        comments = UserMessage(
            "A reviewer commented: " + "; ".join(["Wrong."] * Review.objects.exclude(comment="").count())
        )
        assert messages[-2:] == [comments, UserMessage("Really?")]

    def test_a_replay_has_what_it_would_have_recalled(self, conversation: Conversation) -> None:
        Review.objects.update(comment="Wrong.")
        for figures in conversation.memory.replays([None, {"limit": 1}], recall=True):
            assert figures.recall == RecallFigures(hits=1)
        asked = [Question(conversation.pk, "Which animal?", frozenset({1}), 2)]
        [[replayed]] = replay(recall=True, hits=0, questions=asked)
        assert replayed.recall == RecallFigures(questions=1)

    @pytest.mark.django_db(transaction=True)
    def test_a_conversation_that_is_erased_meanwhile(self) -> None:
        memory = MessageWindowChatMemory(max_messages=9, store=DjangoChatMemoryStore())
        said = Assistant(Speaker(lambda messages: iter(())), memory=memory).stream("default", "Hi.")
        next(said)  # the user's message
        Conversation.objects.get().delete()
        with pytest.raises(WindowTooSmallError):  # as without a capability
            list(said)


class TestPersonalData:
    def test_anonymising_deletes_the_comment(self, conversation: Conversation, user: Any) -> None:
        Review.objects.update(correct=False, comment="I am Ann")
        erase_user(user, how="anonymise")
        assert Review.objects.values_list("correct", "comment").get() == (False, "")

    def test_erasing_deletes_all(self, conversation: Conversation, user: Any) -> None:
        erase_user(user, how="erase")
        assert reviews() == []

    def test_a_purge_deletes_what_is_said_of_the_messages(self, conversation: Conversation) -> None:
        conversation.memory.add(AiMessage("Or a whip."))
        assert reviews() == [(1, None), (2, None)]
        conversation.memory.set([])
        conversation.memory.add(AiMessage("Or both."))
        list(purge_evicted(timezone.now() + timedelta(days=1)))
        assert reviews() == [(3, None)]

    def test_without_a_history_they_are_deleted_as_the_messages(
        self, conversation: Conversation, settings: Any
    ) -> None:
        settings.CHATMEMORY = {**settings.CHATMEMORY, "KEEP_HISTORY": False}
        conversation.memory.set([AiMessage("Or both.")])
        assert reviews() == [(2, None)]

    def test_a_purge_deletes_the_comment(self, conversation: Conversation) -> None:
        Review.objects.update(comment="I am Ann")
        list(purge_evicted(timezone.now() - timedelta(days=1)))
        assert Review.objects.get().comment == "I am Ann"
        list(purge_evicted(timezone.now() + timedelta(days=1)))
        assert Review.objects.get().comment == ""

    def test_a_reviewer_has_data_in_conversations_of_others(
        self, conversation: Conversation, django_user_model: Any
    ) -> None:
        reviewer = django_user_model.objects.create(username="reviewer")
        Review.objects.update(reviewer=reviewer, comment="I know better")
        [line] = map(json.loads, export_user(reviewer))
        assert line == {
            "conversation": str(conversation.pk), "app": "reviews", "position": 1, "comment": "I know better",
        }  # fmt: skip
        assert not any('"I know' in line for line in export_user(conversation.owner) if "end" in line)
        erase_user(reviewer)
        assert Review.objects.values_list("reviewer", "comment").get() == (None, "")
        assert list(export_user(reviewer)) == []


class TestTransfer:
    @pytest.fixture
    def file(self, conversation: Conversation, tmp_path: Path) -> Path:
        Review.objects.update(correct=True, comment="Good")
        path = tmp_path / "all.jsonl"
        path.write_text("".join(conversation_lines([conversation.pk])))
        return path

    def run(self, *arguments: Any) -> str:
        out = io.StringIO()
        with suppress(SystemExit, CommandError):  # something is left out
            call_command("chatmemory_import", *map(str, arguments), stdout=out, stderr=out)
        return out.getvalue()

    def test_an_import_restores_what_an_export_has(self, conversation: Conversation, file: Path) -> None:
        conversation.delete()
        self.run(file, "--dry-run")
        assert reviews() == []
        self.run(file)
        assert Review.objects.values_list("position", "correct", "comment").get() == (1, True, "Good")
        assert "".join(conversation_lines([Conversation.objects.get().pk])) == file.read_text()
        assert "there already: 1, left out: 0" in self.run(file)

    @pytest.mark.parametrize(
        ("old", "new", "problem"),
        [
            ('"correct":true', '"correct":3', "correct: expected true, false or null"),
            ('"correct":true', '"correct":1', "correct: expected true, false or null"),
            ('"correct":true,', "", "correct is missing"),
            ('"correct":true', '"correct":true,"down":1', "'down' is unknown"),
            ('"others":1', '"others":2', "found"),
        ],
    )
    def test_a_bad_line_leaves_the_conversation_out(
        self, conversation: Conversation, file: Path, old: str, new: str, problem: str
    ) -> None:
        conversation.delete()
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))
        assert problem in self.run(file, "--dry-run")
        assert problem in self.run(file)
        assert Conversation.objects.count() == Review.objects.count() == 0

    @pytest.mark.usefixtures("exporting_only")
    def test_lines_that_nobody_reads_are_no_other_content(self, file: Path) -> None:
        assert '"app":"reviews"' in file.read_text()
        assert "there already: 1, left out: 0" in self.run(file)

    def test_lines_of_an_app_that_is_not_there_are_left_out(self, conversation: Conversation, file: Path) -> None:
        conversation.delete()
        file.write_text(file.read_text().replace('"app":"reviews"', '"app":"gone"'))
        said = self.run(file)
        assert "no app 'gone' in INSTALLED_APPS reads this" in said
        assert "conversations: 1, messages: 2; there already: 0, left out: 1" in said
        assert Conversation.objects.get().message_count == 2
        assert reviews() == []
        assert "there already: 1, left out: 0" in self.run(file)


class ExportingOnly(Reviews):
    restore = Capability.restore


@pytest.fixture
def exporting_only() -> Iterator[None]:
    register(ExportingOnly())
    yield
    register(Reviews())


class TestMaintenance:
    def test_verify_finds_what_is_missing_and_mends_it(self, conversation: Conversation) -> None:
        assert list(verify()) == []
        Review.objects.all().delete()
        assert [(one.what, one.repaired) for one in verify()] == [("review of message 1", False)]
        assert [(one.what, one.repaired) for one in verify(repair=True)] == [("review of message 1", True)]
        assert list(verify()) == []
        assert reviews() == [(1, None)]


class TestRest:
    def test_it_has_the_call(self, api: Client, conversation: Conversation) -> None:
        address = reverse("chatmemory:reviews", args=[conversation.pk])
        said = api.put(address, {"position": 1, "correct": False}, content_type="application/json")
        assert (said.status_code, said.json()) == (200, {"position": 1, "correct": False})
        assert reviews() == [(1, False)]
        assert api.put(address, {"position": 0, "correct": True}, content_type="application/json").status_code == 404
        assert api.put(address, {"correct": 1}, content_type="application/json").status_code == 400

    def test_messages_have_its_field(
        self, api: Client, conversation: Conversation, django_assert_num_queries: Any
    ) -> None:
        address = reverse("chatmemory:message-list", args=[conversation.pk])
        with CaptureQueriesContext(connection) as few:
            assert [each["correct"] for each in api.get(address).json()["results"]] == [None, None]
        Review.objects.update(correct=True)
        conversation.memory.add(UserMessage("And now?"), AiMessage("Still."))
        with django_assert_num_queries(len(few)):  # for any number of messages
            assert [each["correct"] for each in api.get(address).json()["results"]] == [None, True, None, None]
        assert api.get(f"{address}1/").json()["correct"] is True
        assert "correct" not in api.post(f"{address}1/pin/", {}, "application/json").json()["item"]

    def test_it_is_nobody_elses(self, client: Client, conversation: Conversation, django_user_model: Any) -> None:
        client.force_login(django_user_model.objects.create(username="another"))
        address = reverse("chatmemory:reviews", args=[conversation.pk])
        said = client.put(address, {"position": 1, "correct": False}, content_type="application/json")
        assert said.status_code == 404
        assert reviews() == [(1, None)]

    def test_the_filter_search_of_the_lists_asks_it(self, api: Client, conversation: Conversation) -> None:
        ConversationFactory(owner=conversation.owner)
        for text, found in (("✓", []), ("cat", [conversation]), ("✗", [conversation])):
            Review.objects.update(correct=False)
            listed = api.get(reverse("chatmemory:conversation-list"), {"search": text}).json()["results"]
            assert [each["id"] for each in listed] == [str(each.pk) for each in found]
        messages = reverse("chatmemory:message-list", args=[conversation.pk])
        for text, positions in (("✗", [1]), ("cat", [0])):
            page = api.get(messages, {"search": text}).json()["results"]
            assert [each["position"] for each in page] == positions
        assert api.get(messages, {"search": "✗", "origin": "summary"}).json()["results"] == []

    def test_the_document_has_it(self) -> None:
        document = openapi_document()
        assert document["paths"]["/conversations/{conversation_id}/reviews/"]["put"]["operationId"] == "putReview"
        assert document["components"]["schemas"]["HistoryItem"]["properties"]["correct"]["type"] == ["boolean", "null"]
        assert {"name": "reviews", "description": "Whether answers are correct."} in document["tags"]


class TestAdmin:
    def test_the_list_has_a_column_and_a_filter(self, admin_client: Client, conversation: Conversation) -> None:
        other = ConversationFactory()
        address = reverse("admin:chatmemory_conversation_changelist")
        page = admin_client.get(address).content.decode()
        assert "column-wrong" in page
        Review.objects.update(correct=False)
        page = admin_client.get(address, {"wrong": "yes"}).content.decode()
        assert conversation.title in page
        assert other.title not in page

    def test_a_conversation_has_a_section_and_a_page(self, admin_client: Client, conversation: Conversation) -> None:
        page = reverse("admin:chatmemory_conversation_reviews", args=[conversation.pk])
        for name, query in (("change", {}), ("memory", {"version": 1})):
            address = reverse(f"admin:chatmemory_conversation_{name}", args=[conversation.pk])
            Review.objects.update(correct=None)
            assert "<h2>Reviews</h2>" not in admin_client.get(address, query).content.decode()
            Review.objects.update(correct=False)
            shown = admin_client.get(address, query).content.decode()
            assert f"<h2>Reviews</h2><p>1 at version {query.get('version', 2)}.</p>" in shown
            assert (f'href="{page}"' in shown) == (name == "change")
        assert admin_client.get(page).content == b"1: False"

    def test_messages_have_notes(self, admin_client: Client, conversation: Conversation) -> None:
        conversation.memory.set([AiMessage("Or a whip.")])
        pages = (("change", {}), ("change", {"view": "history"}), ("memory", {"answer": 1}), ("memory", {"version": 2}))
        for correct, notes in ((True, 0), (False, 1)):
            Review.objects.filter(position=1).update(correct=correct, comment="<b>No")
            for name, query in pages:
                address = reverse(f"admin:chatmemory_conversation_{name}", args=[conversation.pk])
                page = admin_client.get(address, query).content.decode()
                assert page.count("<p>Wrong: &lt;b&gt;No</p>") == notes, (name, query)

    def test_the_page_window_has_its_share_of_the_prompt_cache(
        self, admin_client: Client, conversation: Conversation
    ) -> None:
        address = reverse("admin:chatmemory_conversation_window", args=[conversation.pk])
        for correct, shown in ((None, 0), (True, 1)):
            Review.objects.update(correct=correct)
            page = admin_client.get(address).content.decode()
            assert page.count("<dt>Really read from the prompt cache</dt><dd>100%</dd>") == shown

    def test_the_page_is_for_those_who_may(self, api: Client, conversation: Conversation) -> None:
        page = reverse("admin:chatmemory_conversation_reviews", args=[conversation.pk])
        assert api.get(page).status_code == 302  # to sign in


def test_the_chat_loads_its_script_style_and_texts(user: Any, conversation: Conversation) -> None:
    request = RequestFactory().get("/")
    request.user = user
    template = Template("{% load chatmemory %}{% chatmemory_chat conversation %}")
    page = template.render(Context({"request": request, "conversation": conversation}))
    assert '<script type="module" src="/static/reviews/reviews.js"></script>' in page
    assert '<link rel="stylesheet" href="/static/reviews/reviews.css">' in page
    assert '"reviews-correct": "Correct"' in page


def test_every_hook_is_shown() -> None:
    from chatmemory.capabilities import Capability

    named = {name for name, value in vars(Capability).items() if callable(value) and not name.startswith("_")}
    assert named <= vars(Reviews).keys()
