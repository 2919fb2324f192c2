"""Texts that somebody chose to be hard to look at. With a search that begins anew at each place these take hours."""

from __future__ import annotations

from decimal import Decimal

import pytest
from django.db.models.signals import post_init
from django.test import Client

from chatmemory import (
    AiMessage,
    CustomMessage,
    ImageContent,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.admin.display.message import MediaPlaceholder, parts_of
from chatmemory.formats.gemini import from_gemini, to_gemini
from chatmemory.models import Message
from chatmemory.models.message import from_columns, to_columns
from tests.support.factories import ConversationFactory

LONG = 390_000


@pytest.mark.parametrize(
    ("url", "mime_type", "byte_count"),
    [
        ("data:image/png;base64,AAAA", "image/png", 3),
        ("data:image/png;charset=x;base64,AAA=", "image/png", 2),
        ("data:;base64," + "A" * 4_000_000, "", 3_000_000),
        ("data:" + "a" * 4_000_000, "", None),
        ("data:" + ";" * 4_000_000, "", None),
        ("data:" + ";base64" * 500_000, "", None),
        ("https://example.com/a.png", "", None),
    ],
    ids=["data", "parameters", "long data", "letters", "semicolons", "words", "elsewhere"],
)
def test_a_url_is_shown_as_what_it_is(url, mime_type, byte_count):
    (part,) = parts_of(UserMessage([ImageContent(url)]))
    assert isinstance(part, MediaPlaceholder)
    assert (part.mime_type, part.byte_count) == (mime_type, byte_count)
    assert len(part.url) < 400


@pytest.mark.slow
@pytest.mark.parametrize(
    "value",
    ["1" * 3_000_000, ("1" * 899 + "a") * 3_000, "-" * 3_000_000, "1.e+" * 500_000, "\\" * 1_000_000],
    ids=["one number", "numbers", "signs", "all that numbers have", "backslashes"],
)
def test_a_text_that_looks_like_numbers_is_kept(value):
    message = CustomMessage({"x": value})
    columns = to_columns(message)
    assert from_columns(columns["type"], columns["text"], columns["payload"]) == message


@pytest.mark.parametrize("digits", ["1" * 1_001, "1" * 600 + "." + "1" * 600, "-0." + "1" * 999])
def test_a_number_that_could_not_be_read_again_is_refused(digits):
    with pytest.raises(ValueError, match="at most 1000 are read"):
        to_columns(CustomMessage({"x": Decimal(digits)}))


@pytest.mark.slow
def test_parallel_calls_of_any_number_find_their_results():
    count = 3_000
    calls = [ToolExecutionRequest(f"c{number}", f"f{number % 3}", "{}") for number in range(count)]
    results = [ToolExecutionResultMessage(call.id, call.name, f"of {call.id}") for call in calls]
    said = [UserMessage("Do all"), AiMessage("Well", calls), *results[::-1]]
    written = to_gemini(said)
    assert [part["functionResponse"]["id"] for part in written["contents"][2]["parts"]] == [
        call.id for call in calls[::-1]
    ]
    assert from_gemini(written) == said


def test_results_without_ids_answer_the_first_call_of_their_tool():
    calls = [("a", "f"), (None, "f"), ("b", "g"), ("c", "f")]
    results = [(None, "f"), ("c", "f"), (None, "f"), (None, "g"), (None, "f")]

    def named(kind, pairs):
        return [{kind: {"name": name} | ({"id": id} if id else {})} for id, name in pairs]

    contents = [
        {"role": "user", "parts": [{"text": "Do all"}]},
        {"role": "model", "parts": named("functionCall", calls)},
        {"role": "user", "parts": named("functionResponse", results)},
    ]
    found = [message.id for message in from_gemini(contents)[2:]]
    assert sorted(found, key=str) == [None, None, "a", "b", "c"]


@pytest.fixture
def characters():
    """Counts the characters that are read of messages."""
    read = []

    def made(instance, **kwargs):
        columns = instance.__dict__
        read.append(sum(len(columns.get(name) or "") for name in ("text", "payload", "native", "beginning")))

    post_init.connect(made, sender=Message)
    yield read
    post_init.disconnect(made, sender=Message)


@pytest.mark.django_db
class TestAdmin:
    @pytest.mark.slow
    @pytest.mark.parametrize("text", ["e" + "\u0301\u0316" * (LONG // 2), " " * LONG, "\n" * LONG, "<" * LONG])
    def test_the_list_of_messages_reads_their_beginnings(self, admin_client: Client, characters, text):
        ConversationFactory(limit=10**9).memory.add(UserMessage(text))
        characters.clear()
        page = admin_client.get("/admin/chatmemory/message/")
        assert page.status_code == 200
        assert sum(characters) < 1_000
        assert len(page.content) < 50_000

    @pytest.mark.slow
    def test_a_timeline_of_long_messages_reads_what_it_shows(self, admin_client: Client, characters):
        conversation = ConversationFactory(limit=10**9)
        for number in range(5):
            conversation.memory.add(*[AiMessage(f"Nr. {number}", thinking="x" * LONG)] * 5)
        conversation.memory.add(AiMessage("Short", thinking="Hm"))
        characters.clear()
        page = admin_client.get(f"/admin/chatmemory/conversation/{conversation.pk}/change/?position=0").content.decode()
        assert sum(characters) < 5_000_000
        assert page.count("Show the whole message") == 25
        assert "Short" in page
        assert "Hm" in page
        assert page.count(">Nr. 4<") == 5

    @pytest.mark.slow
    def test_a_long_message_is_shown_whole_on_demand(self, admin_client: Client):
        conversation = ConversationFactory(limit=10**9)
        for _ in range(3):
            conversation.memory.add(*[AiMessage("The end", thinking="y" * LONG)] * 5)
        address = f"/admin/chatmemory/conversation/{conversation.pk}/change/?position=14&whole=14"
        page = admin_client.get(address).content.decode()
        assert page.count("y" * LONG) == 1

    @pytest.mark.slow
    @pytest.mark.parametrize("page", ["memory/", "window/?1-window=tokens&1-limit=9"])
    def test_a_memory_that_is_too_long_is_not_read(self, admin_client: Client, characters, page):
        conversation = ConversationFactory(limit=10**9)
        for number in range(3):
            conversation.memory.add(*[AiMessage(f"Nr. {number}", thinking="x" * LONG)] * 5)
        characters.clear()
        answer = admin_client.get(f"/admin/chatmemory/conversation/{conversation.pk}/{page}")
        assert answer.status_code == 200
        assert sum(characters) < 5_000_000
        if page == "memory/":
            assert "Show the whole message" in answer.content.decode()
        else:
            assert "This memory is too long for this page." in answer.content.decode()
