"""Every error of the API in three languages: code and parameters stay, and only our own messages are translated."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest
from django.core.exceptions import BadRequest, PermissionDenied, RequestDataTooBig
from django.db import OperationalError
from django.db.models import ProtectedError
from django.http import Http404
from django.test import Client
from django.utils import translation
from rest_framework import exceptions, serializers

from chatmemory import AiMessage, CustomMessage, UserMessage
from chatmemory.assistant import (
    AnswerDeletedError,
    CallRefusedError,
    ContextTooLongError,
    ConversationBusyError,
    TooManyToolInvocationsError,
    TurnLostError,
)
from chatmemory.core.exceptions import CODES
from chatmemory.models import Conversation
from chatmemory.rest import problems
from chatmemory.rest.turns import taking as turns
from tests.support.api import USER, send, url
from tests.support.assistants import Speaker, choose
from tests.support.factories import ConversationFactory
from tests.support.problems import problem_classes
from tests.support.turns import ui_message

pytestmark = pytest.mark.usefixtures("by_browser")

LANGUAGES = ("en", "ja", "zh-hans")
KEY = UUID("01935c5e-0000-7000-8000-000000000001")


class Raises:
    """A rule of a project, which raises what a test chose."""

    chosen: Callable[[], Exception]

    def has_permission(self, request: Any, view: Any) -> bool:
        raise type(self).chosen()

    def has_object_permission(self, request: Any, view: Any, found: Any) -> bool:
        return True


@dataclass(frozen=True)
class Site:
    """A project in one language, with a conversation of the user's."""

    api: Client
    conversation: Conversation
    settings: Any
    language: str

    def send(self, method: str, path: str, body: Any = "", **headers: str) -> Any:
        """Send a request; a path that does not begin with a slash is below the conversation."""
        address = path if path.startswith("/") else url(self.conversation, path)
        return send(self.api, method, address, body, accept_language=self.language, **headers)

    def set(self, **chosen: Any) -> None:
        """Set keys of ``CHATMEMORY``."""
        self.settings.CHATMEMORY = {**self.settings.CHATMEMORY, **chosen}

    def with_(self, **chosen: Any) -> Site:
        """Set them, and return this."""
        self.set(**chosen)
        return self

    def raising(self, error: Callable[[], Exception]) -> Any:
        """Return the answer to a request in which the project raises."""
        Raises.chosen = staticmethod(error)
        self.set(PERMISSION_CLASSES=[f"{__name__}.Raises"])
        return self.send("GET", "")

    def failing(self, error: Callable[[], Exception]) -> Any:
        """Return the answer to a turn whose model raises."""

        def speak(messages: Any) -> Iterator[Any]:
            raise error()
            yield

        choose(Speaker(speak))
        return self.send("POST", "turns/", {"message": "Hello"}, accept="application/json")

    def chat(self, id: str, text: str) -> Any:
        """Return the answer to a message of ``useChat``."""
        return self.send("POST", "turns/", {"messages": [ui_message(text, id)]}, accept="application/json")


Case = Callable[[Site], Any]

# The status says it all.
UNNAMED = {problems.InUse, problems.LengthRequired, problems.NotFound}


def full(site: Site) -> Site:
    """Say so much that the window evicts, and pin half of what stays."""
    memory = site.conversation.memory
    memory.set_window(window="messages", limit=4)
    memory.add(*(UserMessage(str(number)) for number in range(6)))
    memory.pin(2)
    memory.pin(3)
    return site


def said(site: Site, *messages: Any) -> Site:
    site.conversation.memory.add(*messages)
    return site


def fails(messages: Any, previous: str | None) -> str:
    raise TimeoutError("no answer from model.internal")


def summarized(site: Site) -> Any:
    said(site, *(UserMessage(f"{number} {'word ' * 20}") for number in range(4)))
    body = {"through": 1, "text": "They counted."}
    assert site.send("POST", "compaction/", body).status_code == 200
    return site.send("POST", "compaction/", body)


def idempotent(site: Site) -> Any:
    assert site.send("POST", "messages/", USER, idempotency_key="k").status_code == 201
    return site.send("POST", "messages/", {"type": "AI", "text": "x"}, idempotency_key="k")


def in_chunks(site: Site) -> Any:
    headers = {"accept-language": site.language, "transfer-encoding": "chunked"}
    return site.api.get(url(site.conversation), headers=headers)


def missing_table() -> Exception:
    with closing(sqlite3.connect(":memory:")) as database:
        try:
            database.execute("SELECT 1 FROM missing")
        except sqlite3.OperationalError as cause:
            error = OperationalError(str(cause))
            error.__cause__ = cause
            return error
    raise AssertionError


# The errors of values, by their codes.
VALUES: dict[str, Case] = {
    "invalid": lambda site: site.send("GET", "/api/conversations/?page_size=0"),
    "required": lambda site: site.send("PUT", "memory/", {}),
    "null": lambda site: site.send("PATCH", "", {"window": None}),
    "blank": lambda site: site.send("POST", "turns/", {"message": " "}),
    "empty": lambda site: site.send("POST", "messages/", {"messages": []}),
    "invalid_type": lambda site: site.send("POST", "messages/", {"type": "AI", "text": 5}),
    "invalid_choice": lambda site: site.send("GET", "memory/?format=xml"),
    "unknown_field": lambda site: site.send("GET", "memory/?colour=red"),
    "repeated": lambda site: site.send("GET", "memory/?at=1&at=2"),
    "max_length": lambda site: site.with_(MAX_MESSAGE_CHARS=3).send("POST", "messages/", USER),
    "max_value": lambda site: site.with_(MAX_LIMIT=5).send("PATCH", "", {"limit": 6}),
    "min_value": lambda site: site.send("PATCH", "", {"limit": 0}),
    "invalid_characters": lambda site: site.send("POST", "messages/", {"type": "AI", "text": "a\x00"}),
    "not_supported": lambda site: site.send("GET", "messages/?format=anthropic"),
}

PROBLEMS: dict[type[problems.Problem], Case] = {
    problems.NotForUsers: lambda site: site.with_(USERS="turns").send("DELETE", "memory/"),
    problems.NotFound: lambda site: site.send("GET", "/api/conversations/01890a5d-ac96-774b-bcce-b302099a8057/"),
    problems.NotRetained: lambda site: full(site).send("POST", "messages/0/pin/"),
    problems.PinnedTooMuch: lambda site: full(site).send("POST", "messages/4/pin/"),
    problems.Conflict: lambda site: site.send(
        "POST", "/api/conversations/", {"memory_id": site.conversation.memory_id}
    ),
    problems.InUse: lambda site: site.raising(lambda: ProtectedError("Invoice 7 refers to it.", set())),
    problems.Covered: summarized,
    problems.NoSummarizer: lambda site: site.with_(SUMMARIZER=None).send("POST", "compaction/", {}),
    problems.PreconditionFailed: lambda site: site.send("POST", "messages/", USER, if_match='"7"'),
    problems.LengthRequired: in_chunks,
    problems.TooLarge: lambda site: site.with_(MAX_BATCH=1).send("POST", "messages/", {"messages": [USER, USER]}),
    problems.MemoryTooLarge: lambda site: (
        said(site, UserMessage("1"), UserMessage("2")).with_(MAX_MEMORY_MESSAGES=1).send("GET", "memory/")
    ),
    problems.IdempotencyConflict: idempotent,
    problems.SummarizerFailed: lambda site: (
        said(site, *(kind("word " * 500) for _ in range(4) for kind in (UserMessage, AiMessage)))
        .with_(SUMMARIZER=f"{__name__}.fails")
        .send("POST", "compaction/", {"keep": 0})
    ),
    problems.NotExpressible: lambda site: said(site, CustomMessage({"a": 1})).send("GET", "memory/?format=openai"),
    problems.Unavailable: lambda site: site.raising(lambda: OperationalError("10.0.0.7 does not answer")),
    problems.NotMigrated: lambda site: site.raising(missing_table),
    problems.HistoryNotKept: lambda site: (
        said(site, UserMessage("One")).with_(KEEP_HISTORY=False).send("POST", "rewind/", {"before": 0})
    ),
    problems.TurnUnderWay: lambda site: site.failing(lambda: ConversationBusyError("10.0.0.7")),
    turns.Interrupted: lambda site: site.failing(lambda: TurnLostError("10.0.0.7")),
    turns.Overtaken: lambda site: said(site, UserMessage("One"), UserMessage("Two")).chat("0", "One"),
    problems.MessageEdited: lambda site: said(site, UserMessage("One")).chat("0", "Another one"),
    problems.AnswerDeleted: lambda site: site.failing(lambda: AnswerDeletedError("10.0.0.7")),
    turns.CallRefused: lambda site: site.failing(lambda: CallRefusedError("Your budget is used up.")),
    turns.WindowTooSmall: lambda site: (
        site.send("PATCH", "", {"window": "tokens", "limit": 5})
        and site.send("POST", "turns/", {"message": "word " * 20}, accept="application/json")
    ),
    turns.ContextTooLong: lambda site: site.failing(lambda: ContextTooLongError("too long at 10.0.0.7")),
    problems.NothingSaid: lambda site: site.send("POST", "turns/", {}, accept="application/json"),
    turns.ModelFailed: lambda site: site.failing(lambda: TimeoutError("no answer from model.internal")),
}

# Others whose message is marked, of which a class above or a code has another.
MARKED: dict[str, Case] = {
    "no assistant": lambda site: site.with_(ASSISTANT=None).send("POST", "turns/", {"message": "Hello"}),
    "a long body": lambda site: site.with_(MAX_BODY_BYTES=10).send("POST", "turns/", {"message": "Hello"}),
    "tools without end": lambda site: site.failing(lambda: TooManyToolInvocationsError("7 times")),
}

# The messages that readers of the chat meet.
TRANSLATED = {
    "max_length",
    problems.NotFound,
    problems.NotForUsers,
    problems.MemoryTooLarge,
    problems.Unavailable,
    problems.NotMigrated,
    problems.HistoryNotKept,
    problems.TurnUnderWay,
    problems.MessageEdited,
    problems.AnswerDeleted,
    problems.NothingSaid,
    # A refusal has the text of the project.
    *(each for each in PROBLEMS if each.__module__ == turns.__name__ and each is not turns.CallRefused),
    *MARKED,
}

# REST framework says it in the language.
OTHERS_TRANSLATED = {"min_value"}

CASES: dict[Any, Case] = {**VALUES, **PROBLEMS, **MARKED}


class PaymentRequired(exceptions.APIException):
    """A project's own."""

    status_code = 402
    default_code = "plan_too_small"
    default_detail = "%(most)s coupons cannot be null."


FREE_PLAN = "Your free plan takes no more messages today."

# What a project raises, with the code and the text that readers get. Each text has the form of one of this app's.
STRANGERS: list[tuple[Callable[[], Exception], str, str]] = [
    (lambda: PermissionDenied(FREE_PLAN), "permission_denied", FREE_PLAN),
    (lambda: exceptions.PermissionDenied(FREE_PLAN), "permission_denied", FREE_PLAN),
    (lambda: exceptions.PermissionDenied(FREE_PLAN, "plan_too_small"), "plan_too_small", FREE_PLAN),
    (lambda: exceptions.NotFound("You have no such conversation."), "not_found", "You have no such conversation."),
    (lambda: Http404("expected a string"), "not_found", "expected a string"),
    (PaymentRequired, "plan_too_small", "%(most)s coupons cannot be null."),
    (lambda: PaymentRequired({"detail": "Pay.", "price": 5}), "plan_too_small", "Pay."),
    (lambda: PaymentRequired(["Pay.", "Then go on."]), "plan_too_small", "Pay.; Then go on."),
    (lambda: exceptions.ParseError("A coupon cannot be null"), "parse_error", "A coupon cannot be null"),
    (lambda: serializers.ValidationError({"coupon": "expected a string"}), "invalid", "coupon: expected a string"),
    (lambda: BadRequest("secret"), "parse_error", "The request cannot be read."),
    (lambda: RequestDataTooBig("Request body exceeded 5 bytes."), "too_large", "Request body exceeded 5 bytes."),
]

# REST framework's own texts, in Japanese as all its versions have them.
OTHERS = [
    (lambda: exceptions.PermissionDenied(), "permission_denied", "このアクションを実行する権限がありません。"),
    (lambda: exceptions.Throttled(wait=12), "throttled", "リクエストの処理は絞られました。"),
    (lambda: Conversation.DoesNotExist(), "not_found", "見つかりませんでした。"),
]


@pytest.fixture
def ask(api: Client, user: Any, settings: Any) -> Callable[[Case], dict[str, Any]]:
    """Answers a case in each language, each time with a new conversation and the settings of before."""
    before = settings.CHATMEMORY

    def ask(case: Case) -> dict[str, Any]:
        told = {}
        for language in LANGUAGES:
            settings.CHATMEMORY = before
            conversation = ConversationFactory.create(pk=KEY, owner=user, memory_id="m", window="messages", limit=100)
            answer = case(Site(api, conversation, settings, language))
            assert answer["Content-Type"] == "application/problem+json", answer.content
            told[language] = answer.json()
            assert told[language]["status"] == answer.status_code
            conversation.delete()
        return told

    return ask


def same(problem: Any) -> Any:
    """A problem without its texts, and without moments."""
    if isinstance(problem, dict):
        return {name: same(value) for name, value in problem.items() if name not in {"detail", "moment", "retry_at"}}
    return [same(each) for each in problem] if isinstance(problem, list) else problem


@pytest.mark.slow
@pytest.mark.django_db
@pytest.mark.parametrize("case", CASES, ids=lambda case: getattr(case, "__name__", case))
def test_an_error_in_each_language(ask: Any, case: Any) -> None:
    told = ask(CASES[case])
    english = told["en"]
    assert same(told["ja"]) == same(told["zh-hans"]) == same(english)
    if case in VALUES:
        [error] = english["errors"]
        assert (english["status"], english["code"], english["params"], error["code"]) == (400, "invalid", {}, case)
        assert english["type"] == "urn:chatmemory:problem:invalid"
    elif case in PROBLEMS:
        assert (english["status"], english["code"]) == (case.status_code, case.code)
        named = f"urn:chatmemory:problem:{case.code.replace('_', '-')}"
        assert english["type"] == ("about:blank" if case in UNNAMED else named)
    assert "%(" not in str(told)
    assert "10.0.0.7" not in str(told)
    assert "internal" not in str(told)
    texts = [each["detail"].replace(each["params"].get("moment", "…"), "") for each in told.values()]
    assert len(set(texts)) == (3 if case in TRANSLATED | OTHERS_TRANSLATED else 1), texts


def test_every_error_has_its_case() -> None:
    assert set(PROBLEMS) == set(problem_classes())
    assert set(VALUES) == set(CODES)
    codes = [each.code for each in PROBLEMS]
    assert len(set(codes)) == len(codes)


@pytest.mark.django_db
@pytest.mark.parametrize("name", [each for each in PROBLEMS if each in TRANSLATED and each.message])
def test_a_translation_is_that_of_the_template(ask: Any, name: type[problems.Problem]) -> None:
    told = ask(CASES[name])
    for language in LANGUAGES:
        with translation.override(language):
            template = translation.gettext(name.message)
        params = told[language]["params"]
        assert told[language]["detail"] == (template % params if params else template)


@pytest.mark.django_db
@pytest.mark.parametrize(("error", "code", "text"), STRANGERS)
def test_a_strangers_text_reaches_readers_as_it_was_written(
    ask: Any, error: Callable[[], Exception], code: str, text: str
) -> None:
    told = ask(lambda site: site.raising(error))
    for problem in told.values():
        assert (problem["code"], problem["detail"]) == (code, text)
        assert same(problem) == same(told["en"])


@pytest.mark.django_db
@pytest.mark.parametrize(("error", "code", "text"), OTHERS)
def test_rest_frameworks_own_texts_stay_translated(
    ask: Any, error: Callable[[], Exception], code: str, text: str
) -> None:
    told = ask(lambda site: site.raising(error))
    assert {problem["code"] for problem in told.values()} == {code}
    assert told["ja"]["detail"].startswith(text)
    assert not told["en"]["detail"].startswith(text)


@pytest.mark.django_db
def test_a_model_that_refuses_is_heard_as_it_speaks(ask: Any) -> None:
    told = ask(lambda site: site.failing(lambda: exceptions.PermissionDenied(FREE_PLAN)))
    assert {(problem["status"], problem["detail"]) for problem in told.values()} == {(403, FREE_PLAN)}


def test_an_empty_error_has_a_text() -> None:
    problem = problems.problem_body(serializers.ValidationError([]))
    assert (problem["code"], problem["detail"], problem["errors"]) == ("invalid", "Invalid input.", [])


def test_long_and_odd_values_are_shown_as_json_can_have_them() -> None:
    odd = "\ud800" + "x" * 5000 + "\x00"
    error = problems.invalid(odd, "got %(got)s", got=odd, more=[odd] * 100, number=5, nothing=None, error=odd)
    problem = problems.problem_body(error)
    [told] = problem["errors"]
    json.dumps(problem, ensure_ascii=False, allow_nan=False).encode()
    assert (told["params"]["number"], told["params"]["nothing"], len(told["params"]["more"])) == (5, None, 50)
    assert told["params"]["got"].startswith("\\ud800xxx")
    assert told["params"]["got"].endswith("xxx\x00")
    texts = [problem["detail"], told["place"], told["detail"], told["params"]["got"], *told["params"]["more"]]
    assert max(map(len, texts)) <= 1200
    refused = problems.problem_body(PaymentRequired(odd, odd))
    json.dumps(refused, ensure_ascii=False).encode()
    assert max(len(refused["code"]), len(refused["detail"])) <= 1200


def test_of_many_errors_the_first_are_told() -> None:
    problem = problems.problem_body(serializers.ValidationError({str(number): ["x" * 99] for number in range(100)}))
    assert [error["place"] for error in problem["errors"]] == [str(number) for number in range(50)]
    assert len(problem["detail"]) <= 1200


def test_an_error_keeps_its_parameters_in_nested_serializers() -> None:
    class Inner(serializers.Serializer[Any]):
        limit = serializers.IntegerField()

        def validate_limit(self, value: int) -> int:
            raise problems.invalid("", "expected at most %(most)s", code="max_value", most=5)

    class Outer(serializers.Serializer[Any]):
        window = Inner()
        name = serializers.CharField()

    outer = Outer(data={"window": {"limit": 6}})
    with pytest.raises(serializers.ValidationError) as caught:
        outer.is_valid(raise_exception=True)
    first, second = problems.problem_body(caught.value)["errors"]
    assert first == {
        "place": "window.limit",
        "code": "max_value",
        "detail": "expected at most 5",
        "params": {"most": 5},
    }
    assert (second["place"], second["code"]) == ("name", "required")


@pytest.mark.parametrize("items", [[{}, {"limit": ["x"]}], {1: {"limit": ["x"]}}])
def test_places_of_items(items: Any) -> None:
    """As versions of REST framework tell what is wrong with an item of a list."""
    problem = problems.problem_body(serializers.ValidationError({"variants": items}))
    assert [error["place"] for error in problem["errors"]] == ["variants[1].limit"]
