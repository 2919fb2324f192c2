"""Two thousand hostile requests: each is answered, and none breaks or shows what it must not."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest
from django.contrib.auth.models import Permission
from django.db import transaction
from django.test import Client

from chatmemory import (
    AiMessage,
    CustomMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.models import Conversation
from tests.database.test_conversations import check_invariants
from tests.support.factories import ConversationFactory, UserFactory
from tests.support.fuzzing import Fuzzer, FuzzRequest

pytestmark = pytest.mark.django_db

SECRET = "s3cr3t"
REQUESTS = 400
RENEWED_EVERY = 100


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Thousands of warnings about bad requests help nobody; what goes wrong is in the failure."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def said_before() -> list[Any]:
    return [
        SystemMessage("You are kind."),
        UserMessage("Hello"),
        AiMessage(tool_execution_requests=[ToolExecutionRequest("1", "look_up", "{}")]),
        ToolExecutionResultMessage("1", "look_up", "found"),
        CustomMessage({"no": "place in OpenAI's format"}),
        AiMessage("Bye"),
    ]


def renew(user: Any, number: int) -> None:
    """Keep a few conversations, none of them large."""
    mine = Conversation.objects.filter(owner=user)
    for conversation in mine.order_by("-next_position", "id")[3:]:
        conversation.delete()
    mine.filter(next_position__gt=300).delete()
    for missing in range(3 - mine.count()):
        conversation = ConversationFactory(
            owner=user, memory_id=f"mine/{number}.{missing}", window="messages", limit=4, metadata={"a": 1}
        )
        conversation.memory.add(*said_before())


def no_constant(name: str) -> NoReturn:
    raise AssertionError(f"{name} in an answer")


def check(request: FuzzRequest, response: Any, *, secret: bool) -> None:
    """The rules of every answer."""
    if response.status_code >= 500:
        error = (
            "".join(traceback.format_exception(*response.exc_info)) if response.exc_info else response.content[:2000]
        )
        raise AssertionError(f"status {response.status_code}\n{error}")
    text = response.content.decode()
    assert not secret or SECRET not in text, "another user's conversation"
    content_type = response.headers.get("Content-Type", "")
    ours = response.resolver_match is not None and "html" not in content_type
    if response.status_code >= 400 and ours:
        assert content_type == "application/problem+json"
        if text or request.method != "HEAD":
            problem = json.loads(text, parse_constant=no_constant)
            assert {"type", "title", "status", "detail"} <= set(problem)
            assert problem["status"] == response.status_code
    elif text and "json" in content_type:
        json.loads(text, parse_constant=no_constant)
    if response.status_code in {204, 304}:
        assert text == ""


@pytest.mark.slow
@pytest.mark.parametrize("staff", [False] * 4 + [True], ids=lambda staff: "staff" if staff else "user")
def test_hostile_requests_are_answered_without_an_error_of_the_server(staff: bool, request: Any, settings: Any) -> None:
    seed = request.node.callspec.indices["staff"]
    user = UserFactory(is_staff=staff)
    if staff:
        codenames = [f"{act}_conversation" for act in ("view", "add", "change", "delete")]
        user.user_permissions.add(*Permission.objects.filter(codename__in=codenames))
    theirs = ConversationFactory(memory_id="theirs", title=f"{SECRET} title", metadata={SECRET: SECRET})
    theirs.memory.add(UserMessage(f"{SECRET} question"), AiMessage(f"{SECRET} answer"))
    settings.SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"  # a statement less for each request
    client = Client(raise_request_exception=False)
    client.force_login(user)
    fuzzer = Fuzzer(seed)
    failures: dict[str, str] = {}
    mine: list[Conversation] | None = None
    for number in range(REQUESTS):
        if number % RENEWED_EVERY == 0:
            renew(user, number)
            mine = None
        if mine is None:
            mine = list(Conversation.objects.filter(owner=user).order_by("created_at", "id")[:6])
        others = [] if staff else [theirs]
        hostile = fuzzer.request(
            [each.pk for each in mine + others] or [user.pk], [each.memory_id for each in [*mine, *others]] or ["none"]
        )
        with transaction.atomic():
            response = hostile.send(client)
            try:
                check(hostile, response, secret=not staff)
            except AssertionError as error:
                where = str(error).strip().splitlines()
                failures.setdefault(where[-1], f"request {number} of seed {seed}: {hostile}\n{error}")
                transaction.set_rollback(True)
        if hostile.method in {"POST", "PUT", "DELETE"} and response.status_code < 300:
            mine = None  # some may have come or gone
    for conversation in Conversation.objects.all():
        check_invariants(conversation)
    assert not failures, "\n\n".join([f"{len(failures)} kinds of failures", *failures.values()])
    assert [row.text for row in theirs.messages.history()] == [f"{SECRET} question", f"{SECRET} answer"]
