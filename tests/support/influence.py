"""A project whose hidden text can be changed, and what its readers get of it: every byte and header must stay.

What a reader may not see may have no influence on anything that they get. Token counts are not hidden, so rows keep
theirs, whatever their text becomes.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.contrib.admin.models import LogEntry
from django.db import transaction

from chatmemory import (
    AiMessage,
    ImageContent,
    SystemMessage,
    TextContent,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.contrib.feedback.giving import give_feedback
from chatmemory.contrib.search import indexing
from chatmemory.contrib.search.models import Quoted
from chatmemory.models import Conversation, Message
from chatmemory.models.message import to_columns
from tests.support.factories import ConversationFactory, UserFactory

__all__ = [
    "LONG",
    "QUERIES",
    "Answer",
    "Site",
    "answer_to",
    "build",
    "equal_answers",
    "other_internals",
    "other_words",
    "say_otherwise",
    "steady",
    "undone",
]

QUERIES = ("4711", "4711 5 6 7 8", "tea cups", "kettle", '"green tea"', "tea -kettle", "door", "te")
"""What is searched for: what hidden texts say, what others say, and what both do."""


@contextmanager
def undone() -> Iterator[None]:
    block = transaction.atomic()
    block._from_testcase = True  # type: ignore[attr-defined]  # so that turns are taken within it, as in a test case
    with block:
        yield
        transaction.set_rollback(True)


@contextmanager
def fixed(monkeypatch: pytest.MonkeyPatch, *, seed: int) -> Iterator[None]:
    """Let each minute be the same, and each ID that is made: whatever differs then, differs by the text."""
    drawn = random.Random(seed)
    clock = [datetime(2026, 11, 28, 12, tzinfo=UTC)]

    def now() -> datetime:
        clock[0] += timedelta(microseconds=1)
        return clock[0]

    with monkeypatch.context() as patched:
        patched.setattr("django.utils.timezone.now", now)
        # A field keeps the function that was its default when its model was defined.
        patched.setitem(vars(LogEntry._meta.get_field("action_time")), "_get_default", now)
        patched.setattr("chatmemory.models.fields.time.time_ns", lambda: 1_800_000_000_000_000_000)
        patched.setattr("chatmemory.models.fields.secrets.randbits", drawn.getrandbits)
        patched.setattr("django.middleware.csrf.get_random_string", lambda length, **_: "c" * length)
        yield


@dataclass
class Site:
    """Users with conversations. ``mine`` is the owner's; ``theirs`` is of a user whom limited staff do not reach."""

    owner: Any
    mine: Conversation
    theirs: Conversation
    erased: Conversation


def build() -> Site:
    owner = UserFactory(username="acme-ann")
    mine = ConversationFactory(
        owner=owner, title="", memory_id="mine", window="tokens", limit=400, metadata={"topic": "tea"}, pk=UUID(int=1)
    )
    theirs = ConversationFactory(
        owner=UserFactory(username="bob"), title="Tea", memory_id="theirs", metadata={"topic": "tea"}, pk=UUID(int=2)
    )
    erased = ConversationFactory(owner=owner, title="Erased", memory_id="erased", pk=UUID(int=3))
    for made in (mine, theirs):
        talk(made)
    erased.memory.add(UserMessage("Is there green tea?"), AiMessage("There is."))
    return Site(owner, mine, theirs, erased)


def talk(made: Conversation) -> None:
    """Say something of each kind, twelve times, with the kettle in every third question."""
    memory = made.memory
    memory.add(SystemMessage("The code of the door is 4711."))
    for number in range(12):
        call = ToolExecutionRequest(f"call-{number}", "look_up", f'{{"what": "tea {number}"}}')
        asked = TextContent(f"Is there green tea in {number} cups{' or a kettle' * (number % 3 == 0)}?")
        memory.add(
            UserMessage([asked, ImageContent(url="https://example.com/a.png")] if number == 5 else [asked], name="Ann"),
            AiMessage(None, [call], thinking="I look.", attributes={"openai_items": "Cup 4711", "cut_off": "length"}),
            ToolExecutionResultMessage(call.id, call.name, f"Shelf {number}: tea cups. " * 3),
            AiMessage(f"There are {number} cups of tea, and the kettle.", attributes={"note": f"Said {number}"}),
        )
    last = made.messages.history().last()
    assert last is not None
    memory.pin(last.position)
    memory.compact(lambda messages, previous: "We spoke of tea.", keep=4)
    give_feedback(made, last.position, made.owner, value="down", comment="No kettle.")
    for number in range(2):
        made.record_usage({"model": "gpt-5", "input_tokens": 100 + number, "output_tokens": 9})
    # A page is short, so that the length of what is hidden would move its end.
    Quoted.objects.create(conversation=made, version=made.version, position=last.position, positions=[2, 3])
    made.refresh_from_db()
    indexing.index_all(made)


def say_otherwise(conversation: Conversation, otherwise: Callable[[Any], Any]) -> None:
    """Let messages say something else, as if they had said it from the start. Their tokens stay."""
    for row in Message.objects.filter(conversation=conversation):
        message = otherwise(row.message)
        if message is not row.message:
            Message.objects.filter(pk=row.pk).update(**to_columns(message))
    indexing.rebuild(conversation)
    indexing.index_all(conversation)


LONG = "kettle 4711 5 6 7 8 green tea cups of the door\n" * 40


def other_instructions(message: Any) -> Any:
    return SystemMessage(LONG) if isinstance(message, SystemMessage) else message


def other_results(message: Any) -> Any:
    if not isinstance(message, ToolExecutionResultMessage):
        return message
    said = {"call-1": "4711", "call-2": LONG, "call-3": " "}.get(message.id or "", f"Not {message.text}")
    return ToolExecutionResultMessage(message.id, message.tool_name, said, is_error=message.is_error)


def other_calls(message: Any) -> Any:
    if not isinstance(message, AiMessage):
        return message
    broken = {"call-1": "{", "call-2": '{"what": "' + LONG.replace("\n", " ") + '"}', "call-3": ""}
    calls = [
        ToolExecutionRequest(call.id, call.name, broken.get(call.id or "", '{"toolExecutionRequests": [{}]}'))
        for call in message.tool_execution_requests
    ]
    kept = {name: value for name, value in message.attributes.items() if name == "cut_off"}
    more = {"toolExecutionRequests": [{"type": "card"}], "note": LONG}
    return AiMessage(message.text, calls, thinking=message.thinking, attributes={**kept, **more})


def other_internals(message: Any) -> Any:
    """What users do not see: instructions, tool results and the arguments of calls."""
    return other_calls(other_results(other_instructions(message)))


def other_words(message: Any) -> Any:
    """What nobody may read who may read no text. What a message is made of stays."""
    message = other_internals(message)
    if isinstance(message, UserMessage):
        parts = [
            TextContent(f"kettle {LONG}") if isinstance(part, TextContent) else ImageContent(url="https://example.org/")
            for part in message.contents
        ]
        return UserMessage(parts, name="Bob")
    if isinstance(message, AiMessage):
        text = message.text and f"Nothing but 4711 {LONG}"
        calls = message.tool_execution_requests
        return AiMessage(text, calls, thinking=message.thinking and "No.", attributes={"other": message.attributes})
    return message


@dataclass(frozen=True)
class Answer:
    """What somebody got."""

    asked: str
    status: int
    headers: dict[str, str]
    body: str


def answer_to(asked: str, response: Any) -> Answer:
    whole: bytes = b"".join(response.streaming_content) if response.streaming else response.content
    headers = {name: str(value) for name, value in response.headers.items()}
    headers["cookies"] = response.cookies.output()
    return Answer(asked, response.status_code, *map(steady, (headers, whole.decode())))


def steady(said: Any) -> Any:
    """Return what was said without what Django draws for each answer, and without seconds that were measured."""
    if isinstance(said, dict):
        return {name: steady(value) for name, value in said.items()}
    said = re.sub(r"(csrfmiddlewaretoken\" value=\"|csrftoken=|nonce[-=]\"?)[\w+/=-]+", r"\1", said)
    said = re.sub(r"\w{3}, \d\d \w{3} \d{4} [\d:]+ GMT", "", said)
    return re.sub(r'("(?:seconds|first_delta_seconds)": ?)[0-9.e-]+', r"\1", said)


def equal_answers(
    get: Callable[[], Iterable[Answer]], *changes: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> list[Answer]:
    """Return what requests get, which must be the same after two changes; with one change, also without it."""
    found: list[list[Answer]] = []
    for change in changes if len(changes) == 2 else (lambda: None, *changes):
        with undone():
            with fixed(monkeypatch, seed=1):
                change()
            with fixed(monkeypatch, seed=2):
                found.append(list(get()))
    before, after = found
    told = [_difference(one, other) for one, other in zip(before, after, strict=False) if one != other]
    if told or len(before) != len(after):
        pytest.fail("\n\n".join([f"{len(told)} of {len(before)} and {len(after)} differ", *told[:40]]))
    return before


def _difference(one: Answer, other: Answer) -> str:
    if (one.asked, one.status) != (other.asked, other.status):
        return f"{one.asked}: {one.status}, then {other.asked}: {other.status} {other.body[:300]}"
    for name in one.headers.keys() | other.headers.keys():
        if one.headers.get(name) != other.headers.get(name):
            return f"{one.asked}: {name}: {one.headers.get(name)}, then {other.headers.get(name)}"
    at = next((n for n, (a, b) in enumerate(zip(one.body, other.body, strict=False)) if a != b), -1)
    return f"{one.asked}: …{one.body[max(0, at - 80) : at + 80]}…, then …{other.body[max(0, at - 80) : at + 80]}…"
