"""What a model got as quotations is on "What the model had": their positions are stored, their text is not."""

from __future__ import annotations

import io
import json
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st

from chatmemory import AiMessage, UserMessage
from chatmemory.assistant import Assistant, ContextTooLongError, WindowTooSmallError
from chatmemory.contrib.search.checking import wrong_documents
from chatmemory.contrib.search.models import Quoted
from chatmemory.contrib.search.quoted import quoted_at
from chatmemory.models import Conversation, Message
from chatmemory.personal_data import erase_user
from chatmemory.retention import purge_evicted
from chatmemory.transfer.export import conversation_lines
from chatmemory.verification import verify
from tests.admin.test_conversation import html, staff, words  # noqa: F401
from tests.admin.test_past_memory import address
from tests.search.test_preload import forgotten, look
from tests.support import budget
from tests.support.assistant_models import ScriptedModel, calling
from tests.support.factories import ConversationFactory

pytestmark = pytest.mark.django_db(transaction=True)

HEADING = "Quoted before the user's message"
WEEK = timedelta(days=7)


def asked(*outcomes: Any, **fields: Any) -> Conversation:
    """Return a conversation whose last turn was told about messages 0 and 1: question 6, calls, answer."""
    conversation = forgotten("Kiwi is old.", **fields)
    Assistant(ScriptedModel(*(outcomes or ("Well.",))), tools=[look], recall="preload").chat(
        conversation, "Which kiwi?"
    )
    conversation.refresh_from_db()
    return conversation


def part(page: str) -> str:
    """Return the text of the section, from its heading to the next one."""
    _, found, after = words(page).partition(HEADING)
    return after.partition("… and it wrote:")[0].partition("See what")[0] if found else ""


class TestPage:
    def test_it_shows_the_messages_with_why_and_when_they_had_left(self, admin_client: Client) -> None:
        conversation = asked()
        shown = part(html(admin_client, address(conversation, "?answer=7")))
        assert shown.index("0 User") < shown.index("Kiwi is old.") < shown.index("1 AI") < shown.index("Noted.")
        assert "Evicted pushed out by messages 4 to 5 in version 3" in shown
        assert "deleted" not in shown
        assert shown.strip().startswith("0–1")

    @pytest.mark.urls("tests.admin.test_permissions")
    def test_its_links_stay_in_their_site_of_the_admin(self, admin_client: Client) -> None:
        page = address(asked(), "?answer=7").replace("/admin/", "/conversations-only/")
        assert 'href="/admin/' not in html(admin_client, page)

    @pytest.mark.slow
    def test_all_requests_of_the_turn_and_no_others_have_them(self, admin_client: Client) -> None:
        conversation = asked(calling(("look", "{}")), "Well.", limit=6)
        conversation.memory.add(UserMessage("And now?"), AiMessage("Now."))
        rows = dict(conversation.messages.values_list("position", "added_in"))
        with_quotes = [
            version
            for version in range(conversation.version + 1)
            if HEADING in words(html(admin_client, address(conversation, f"?version={version}")))
        ]
        assert [rows[position] for position in (6, 7, 8)] == with_quotes, "question, call, result"
        for answer, has in ((5, False), (7, True), (9, True), (11, False)):
            assert (HEADING in words(html(admin_client, address(conversation, f"?answer={answer}")))) is has

    def test_a_turn_in_which_nothing_was_found_has_none(self, admin_client: Client) -> None:
        conversation = asked()
        Assistant(ScriptedModel("Well."), recall="preload").chat(conversation, "Something else?")
        answer = conversation.messages.order_by("-position").values_list("position", flat=True)[0]
        assert HEADING not in words(html(admin_client, address(conversation, f"?answer={answer}")))

    def test_what_was_deleted_meanwhile_has_no_word_left(self, admin_client: Client) -> None:
        conversation = asked()
        Conversation.objects.update(created_at=timezone.now() - 3 * WEEK)
        rows = Message.objects.filter(conversation=conversation)
        rows.filter(position=0).update(evicted_at=timezone.now() - 2 * WEEK)
        list(purge_evicted(timezone.now() - WEEK))
        shown = part(html(admin_client, address(conversation, "?answer=7")))
        assert "Quoted, but deleted since: 0" in shown
        assert "Kiwi is old." not in shown
        assert "1 AI" in shown
        rows.exclude(evicted_at=None).update(evicted_at=timezone.now() - 2 * WEEK)
        list(purge_evicted(timezone.now() - WEEK))
        shown = part(html(admin_client, address(conversation, "?answer=7")))
        assert "Quoted, but deleted since: 0–1" in shown
        assert "AI" not in shown

    def test_deleted_messages_of_a_turn_do_not_extend_the_one_before(self) -> None:
        conversation = asked()
        Assistant(ScriptedModel("Well.")).chat(conversation, "Something else?")
        rows = dict(conversation.messages.values_list("position", "added_in"))
        conversation.memory.clear()
        Conversation.objects.update(created_at=timezone.now() - 3 * WEEK)
        Message.objects.filter(position__in=(7, 8)).update(evicted_at=timezone.now() - 2 * WEEK)
        list(purge_evicted(timezone.now() - WEEK))
        assert quoted_at(conversation, rows[9] - 1) == []

    def test_those_who_may_not_read_text_see_positions_only(self, staff: Any) -> None:  # noqa: F811
        conversation = asked()
        page = html(staff("view_conversation", "view_message"), address(conversation, "?answer=7"))
        assert "0 User" in part(page)
        assert "You have no permission to read what it says." in part(page)
        assert "Kiwi is old." not in page

    @pytest.mark.parametrize("text", ["<b>kiwi</b>", "kiwi </section>", "{{ kiwi }}"])
    def test_hostile_text_is_only_text(self, admin_client: Client, text: str) -> None:
        conversation = forgotten(text)
        Assistant(ScriptedModel("Well."), recall="preload").chat(conversation, "Which kiwi?")
        page = admin_client.get(address(conversation, "?answer=7")).content.decode()
        assert text in part(html(admin_client, address(conversation, "?answer=7")))
        assert (text in page) is (text == "{{ kiwi }}")


class TestWhatIsStored:
    def test_positions_and_no_text(self) -> None:
        conversation = asked()
        [row] = Quoted.objects.values()
        assert row["positions"] == [0, 1]
        assert "iwi" not in str(row)
        assert row["conversation_id"] == conversation.pk

    def test_nothing_without_quotations(self) -> None:
        conversation = forgotten("Kiwi is old.")
        Assistant(ScriptedModel("Well."), recall="preload").chat(conversation, "Something else?")
        Assistant(ScriptedModel("Well.")).chat(conversation, "Which kiwi?")
        assert not Quoted.objects.exists()

    def test_nothing_if_the_answer_was_made_without_them(self) -> None:
        conversation = asked(ContextTooLongError("too long"), "Well.")
        assert conversation.messages.order_by("-position").first().text == "Well."
        assert not Quoted.objects.exists()

    def test_a_turn_that_goes_on_has_what_was_looked_up_again(self) -> None:
        conversation = forgotten("Kiwi is old.", limit=6)
        model = ScriptedModel(calling(("look", "{}")), RuntimeError("gone"), "Well.")
        assistant = Assistant(model, tools=[look], recall="preload")
        with pytest.raises(RuntimeError, match="gone"):
            assistant.chat(conversation, "Which kiwi?")
        assistant.chat(Conversation.objects.get())  # a row that is as old as this
        versions = list(Quoted.objects.order_by("version").values_list("version", flat=True))
        rows = dict(conversation.messages.values_list("position", "added_in"))
        assert versions == [rows[6], rows[8]]

    def test_an_erased_conversation_takes_it_along(self) -> None:
        asked().delete()
        assert not Quoted.objects.exists()
        erase_user(asked().owner, how="erase")
        assert not Quoted.objects.exists()

    def test_a_conversation_that_is_erased_while_it_is_searched(self) -> None:
        conversation = forgotten("Kiwi is old.")
        model = ScriptedModel("Well.")
        events = Assistant(model, recall="preload").stream(conversation, "Which kiwi?")
        next(events)
        Conversation.objects.all().delete()
        with pytest.raises(WindowTooSmallError):  # as without quotations
            list(events)
        assert not Quoted.objects.exists()

    def test_anonymising_leaves_positions(self, admin_client: Client) -> None:
        conversation = asked()
        erase_user(conversation.owner, how="anonymise")
        page = html(admin_client, address(conversation, "?answer=7"))
        assert "0 User" in part(page)
        assert "iwi" not in page

    def test_a_purge_deletes_what_is_older(self) -> None:
        asked()
        Quoted.objects.update(created_at=timezone.now() - 2 * WEEK)
        asked()
        Conversation.objects.update(created_at=timezone.now() - 3 * WEEK)
        list(purge_evicted(timezone.now() - WEEK))
        assert Quoted.objects.count() == 1

    def test_no_check_finds_a_fault_in_it(self) -> None:
        conversation = asked()
        assert list(verify()) == []
        assert list(wrong_documents(Conversation.objects.all(), repair=False)) == []
        list(purge_evicted(timezone.now() + WEEK))
        conversation.memory.clear()
        assert list(verify()) == []


class TestExport:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        path = tmp_path / "all.jsonl"
        path.write_text("".join(conversation_lines([asked().pk])), encoding="utf-8")
        return path

    def run(self, path: Path) -> str:
        out = io.StringIO()
        with suppress(CommandError, SystemExit):  # something is left out
            call_command("chatmemory_import", str(path), stdout=out, stderr=out)
        return out.getvalue()

    def test_an_import_restores_it(self, file: Path, admin_client: Client) -> None:
        before = list(Quoted.objects.values("version", "position", "positions", "created_at"))
        Conversation.objects.all().delete()
        self.run(file)
        assert list(Quoted.objects.values("version", "position", "positions", "created_at")) == before
        conversation = Conversation.objects.get()
        assert "Kiwi is old." in part(html(admin_client, address(conversation, "?answer=7")))
        assert "there already: 1, left out: 0" in self.run(file)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("version", 99),
            ("version", -1),
            ("version", "1"),
            ("after", 99),
            ("quoted", [99]),
            ("quoted", [-1]),
            ("quoted", [True]),
            ("quoted", ["<b>"]),
            ("quoted", "0"),
            ("at", "yesterday"),
            ("more", 1),
        ],
    )
    def test_a_bad_line_leaves_the_conversation_out(self, file: Path, name: str, value: Any) -> None:
        Conversation.objects.all().delete()
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        [line] = [line for line in lines if line.get("app") == "chatmemory_search"]
        line[name] = value
        file.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
        assert f"{name}" in self.run(file)
        assert Conversation.objects.count() == Quoted.objects.count() == 0


TURN = st.tuples(st.sampled_from(["kiwi", "pear", "plum", "nothing"]), st.integers(0, 2), st.booleans())


@pytest.mark.slow
@settings(max_examples=budget.examples(8), deadline=None)
@given(st.integers(7, 10), st.lists(TURN, min_size=3, max_size=6), st.sets(st.integers(0, 50)))
def test_each_request_is_shown_with_what_it_had(
    limit: int, turns: list[tuple[str, int, bool]], deleted: set[int]
) -> None:
    conversation = ConversationFactory(window="messages", limit=limit)
    had: dict[int, list[int]] = {}
    for number, (word, calls, fails) in enumerate(turns):
        model = ScriptedModel(*[calling(("look", "{}"))] * calls, *[ValueError("gone")] * fails, "Well.")
        assistant = Assistant(model, tools=[look], recall="preload")
        recalled: list[int] = []
        for text in (f"The {word} of {number}?", None)[: 1 + fails]:
            events = assistant.stream(conversation, text)
            try:
                for event in events:
                    given_ = getattr(event, "recalled", None)
                    recalled = recalled if given_ is None else [*given_.positions]
            except ValueError:
                recalled = []
        answers = conversation.messages.filter(type="AI").order_by("-position")
        had[answers.values_list("added_in", flat=True)[0] - 1] = recalled
    conversation.refresh_from_db()
    assert {version: quoted_at(conversation, version) for version in had} == had
    # Without some messages it is not known what some requests had, but none has what it had not.
    Conversation.objects.update(created_at=timezone.now() - 3 * WEEK)
    rows = Message.objects.filter(conversation=conversation).exclude(evicted_at=None)
    rows.filter(position__in=deleted).update(evicted_at=timezone.now() - 2 * WEEK)
    list(purge_evicted(timezone.now() - WEEK))
    conversation.refresh_from_db()
    for version, positions in had.items():
        assert quoted_at(conversation, version) in (positions, [])
    assert not [finding for finding in verify() if "search" in finding.what]
