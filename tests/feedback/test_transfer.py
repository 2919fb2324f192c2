"""Feedback in exports: restored with its conversation, and never for another person."""

from __future__ import annotations

import io
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from chatmemory import AiMessage, UserMessage
from chatmemory.contrib.feedback.giving import give_feedback
from chatmemory.contrib.feedback.models import Feedback
from chatmemory.models import Conversation
from chatmemory.transfer.export import conversation_lines
from tests.support.factories import ConversationFactory, UserFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def file(user: Any, tmp_path: Path) -> Path:
    conversation = ConversationFactory(owner=user)
    conversation.memory.add(UserMessage("What is a cat?"), AiMessage("An animal."))
    give_feedback(conversation, 1, UserFactory(username="staff"), "up", "Good.")
    give_feedback(conversation, 1, user, "down", "A «whip»?")
    path = tmp_path / "all.jsonl"
    path.write_text("".join(conversation_lines([conversation.pk])))
    return path


def run(*arguments: Any) -> str:
    out = io.StringIO()
    with suppress(SystemExit, CommandError):  # something is left out
        call_command("chatmemory_import", *map(str, arguments), stdout=out, stderr=out)
    return out.getvalue()


def test_it_is_restored_for_the_owner_and_otherwise_for_nobody(file: Path, user: Any) -> None:
    before = list(Feedback.objects.order_by("pk").values("position", "value", "comment", "created_at", "updated_at"))
    Conversation.objects.all().delete()
    assert "staff" not in file.read_text()
    run(file, "--dry-run")
    assert Feedback.objects.count() == 0
    run(file)
    restored = Feedback.objects.order_by("pk")
    assert list(restored.values("position", "value", "comment", "created_at", "updated_at")) == before
    assert list(restored.values_list("user", flat=True)) == [None, user.pk]
    assert "".join(conversation_lines([Conversation.objects.get().pk])) == file.read_text()
    assert "there already: 1, left out: 0" in run(file)


def test_who_gets_the_conversation_gets_what_its_owner_gave(file: Path) -> None:
    heir = UserFactory()
    Conversation.objects.all().delete()
    run(file, "--owner", heir.pk)
    assert list(Feedback.objects.order_by("pk").values_list("user", "value")) == [(None, "up"), (heir.pk, "down")]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('"value":"down"', '"value":"bad"', "value: expected one of up, down, got 'bad'"),
        ('"value":"down",', "", "value is missing"),
        ('"by_owner":true', '"by_owner":"ann"', 'by_owner: expected true or false, got "ann"'),
        ('"position":1,"by_owner":true', '"position":2,"by_owner":true', "position: expected one of this conversation"),
        ('"A «whip»?"', '"' + "x" * 1001 + '"', "comment: expected at most 1000 characters, got 1001"),
        ('"A «whip»?"', r'"\u0000"', "has U+0000 at index 0"),
    ],
)
def test_a_bad_line_leaves_the_conversation_out(file: Path, old: str, new: str, problem: str) -> None:
    Conversation.objects.all().delete()
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    for arguments in (["--dry-run"], []):
        assert problem in run(file, *arguments)
    assert Conversation.objects.count() == Feedback.objects.count() == 0
