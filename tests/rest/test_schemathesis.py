"""Every route as the OpenAPI document describes it: valid requests, invalid ones, and chains of linked ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from django.contrib.auth import get_user_model
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from hypothesis import HealthCheck, Phase
from hypothesis import settings as Settings
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation.meta import CoveragePhaseData
from schemathesis.specs.openapi.checks import ignored_auth

from chatmemory import AiMessage, ToolExecutionRequest, UserMessage
from chatmemory.models import Conversation
from chatmemory.rest.openapi import openapi_document
from tests.support import budget
from tests.support.factories import UserFactory

SETTINGS = Settings(
    max_examples=budget.examples(4),
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
CONFIG = schemathesis.Config.from_dict(
    {
        "auth": {"basic": {"username": "ann", "password": "secret"}},
        "generation": {"deterministic": True, "allow-x00": False, "with-security-parameters": False},
        # Only the links of the document, for those that schemathesis makes up depend on what was answered.
        "phases": {"stateful": {"inference": {"algorithms": []}}},
        "checks": {
            # Beside 2xx: what depends on what is there, and on what OpenAI's format can express.
            "positive_data_acceptance": {"expected-statuses": ["2xx", "304", "404", "406", "409", "412", "422"]},
            "negative_data_rejection": {"expected-statuses": ["400", "404", "406", "412", "413", "415", "422"]},
        },
        "operations": [
            # Emptied or stopped, not erased: what is read afterwards is an empty list, or that no turn runs.
            {"include-path": path, "checks": {"use_after_free": {"enabled": False}}}
            for path in (
                "/stores/{memory_id}/",
                "/conversations/{conversation_id}/memory/",
                "/conversations/{conversation_id}/turns/stream/",
            )
        ]
        + [
            # Which positions are those of questions, and which message another one follows, OpenAPI cannot say.
            {
                "include-path": f"/conversations/{{conversation_id}}/{path}/",
                "checks": {
                    "positive_data_acceptance": {
                        "expected-statuses": ["2xx", "304", "400", "404", "406", "409", "412", "413", "422"]
                    },
                    "use_after_free": {"enabled": False},  # a turn is stopped, and the conversation goes back
                },
            }
            for path in ("turns", "rewind", "edit", "switch", "fork", "tree/{message_id}")
        ]
        + [
            # Whether the message is still in the memory, or an answer, depends on what was added.
            {
                "include-path": f"/conversations/{{conversation_id}}/messages/{{position}}/{act}/",
                "checks": {
                    "positive_data_acceptance": {"expected-statuses": ["2xx", "400", "404", "406", "412"]},
                },
            }
            for act in ("pin", "unpin", "feedback")
        ]
        + [
            # Which positions end a turn, OpenAPI cannot say.
            {
                "include-path": "/conversations/{conversation_id}/compaction/",
                "checks": {
                    "positive_data_acceptance": {"expected-statuses": ["2xx", "400", "404", "406", "409", "412"]}
                },
            }
        ],
    }
)
WHOLE = {
    *("limit", "low_water", "keep_tool_results", "keep", "reserve", "compact_at", "compact_keep", "compact_keep_calls"),
    "through",
}
# Made when it is used: its requests take seconds to make, which no process needs that runs other tests.
ROUTES = schemathesis.pytest.from_fixture("described")


@pytest.fixture(scope="module")
def described() -> Any:
    schema = schemathesis.openapi.from_dict(openapi_document(), config=CONFIG)
    schema.app = get_wsgi_application()
    return schema


def make_whole(settings: dict[str, Any]) -> None:
    """Make whole numbers of 1.0 and its like, which is a whole number to JSON Schema, not to the server."""
    for name in WHOLE & set(settings):
        if isinstance(settings[name], float):
            settings[name] = int(settings[name])


def agree(case: schemathesis.Case) -> None:
    """Make a valid request hold to what OpenAPI cannot say."""
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    query = case.query or {}
    query.pop("cursor", None)  # opaque: only the server makes one
    query.pop("owner", None)  # somebody there is
    query.pop("at_message", None)  # a position that is there, and not together with the next one
    if "at" in query:
        query["at"] = 0  # a version that is there
    if "from" in query:
        query["to"] = "9999-12-31"  # not a day before it
    if isinstance(case.body, dict):
        make_whole(case.body)
        for window in case.body.get("variants", ()):
            make_whole(window)
    messages = case.body.get("messages", [case.body.get("message", case.body)]) if isinstance(case.body, dict) else []
    for message in messages:
        parts = message.get("content") if isinstance(message, dict) else None
        if isinstance(parts, list) and any(part.get("type") == "refusal" for part in parts):
            message.pop("refusal", None)  # here or there, not both
        if isinstance(message, dict) and message.get("reasoning_content"):
            message.pop("reasoning", None)  # so is this
    if any("role" in message for message in messages if isinstance(message, dict)):
        query["format"] = "openai"
    elif any("type" in message for message in messages if isinstance(message, dict)):
        query.pop("format", None)
    case.query = query
    if case.headers and '"' not in case.headers.get("If-Match", '"'):
        del case.headers["If-Match"]  # schemathesis's coverage phase has 0 for what has a pattern like this


@pytest.fixture(autouse=True)
def _one_connection() -> Iterator[None]:
    """As Django's own test client: the transaction of the test stays open from one request to the next."""
    for signal in request_started, request_finished:
        signal.disconnect(close_old_connections)
    yield
    for signal in request_started, request_finished:
        signal.connect(close_old_connections)


@pytest.fixture(autouse=True)
def _named(request: pytest.FixtureRequest) -> None:
    """Schemathesis looks for this attribute, which nodes have before pytest 9.1."""
    request.node._nodeid = request.node.nodeid


@pytest.fixture(autouse=True)
def _ann(db: None, settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["localhost"]
    ann = UserFactory(username="ann")
    ann.set_password("secret")
    ann.save()


def aim(case: schemathesis.Case) -> None:
    """Aim a request whose path is valid at what is there."""
    if case.meta is None or case.meta.is_negative_at(ParameterLocation.PATH):
        return
    conversation = Conversation.objects.filter(owner__username="ann", memory_id="support-42").first()
    if conversation is None:
        ann = get_user_model().objects.get(username="ann")
        conversation = Conversation.objects.create(owner=ann, memory_id="support-42")
        conversation.memory.add(UserMessage("Hello"), AiMessage("Hi", [ToolExecutionRequest("1", "look_up", "{}")]))
    there = {
        "conversation_id": str(conversation.pk),
        "position": 0,
        "message_id": "0",
        "memory_id": "support-42",
    }
    case.path_parameters = {name: there[name] for name in case.path_parameters or {}}


class Sample:
    """Which of the requests are made that schemathesis derives from each rule of the document.

    Those of one kind break the same rule in the same place, each by another value or in another type of message. The
    first of each kind is made on every route. The further ones take turns: several routes take the same messages, and
    each has what the others leave out.
    """

    def __init__(self) -> None:
        self.routes: list[str] = []
        self.kinds: Counter[tuple[str, str, str | None]] = Counter()
        self.guarded: set[str] = set()
        """Routes that were seen to refuse requests without credentials: nothing else in a request matters to that."""

    def begins(self, case: schemathesis.Case) -> bool:
        """Whether it is the first request of its route."""
        route = case.operation.label
        begins = route not in self.routes
        if begins:
            self.routes.append(route)
        return begins

    def has(self, case: schemathesis.Case) -> bool:
        rule = case.meta and case.meta.phase.data
        if not isinstance(rule, CoveragePhaseData):
            return True
        kind = case.operation.label, rule.description, rule.parameter
        number = self.kinds[kind]
        self.kinds[kind] += 1
        return number == 0 or number % 12 == self.routes.index(case.operation.label) % 12


@pytest.fixture(scope="module")
def sample() -> Sample:
    return Sample()


@pytest.mark.slow
@ROUTES.parametrize()
@SETTINGS
def test_every_route(case: schemathesis.Case, sample: Sample) -> None:
    if sample.begins(case):
        Conversation.objects.all().delete()  # each route has to find the same, whichever was before it
    if not sample.has(case):
        return
    aim(case)
    agree(case)
    route = case.operation.label
    answer = case.call_and_validate(excluded_checks=[ignored_auth] if route in sample.guarded else [])
    is_asked_without = case.meta is not None and not case.meta.generation.mode.is_negative
    if answer.status_code < 300 and is_asked_without:
        sample.guarded.add(route)


@pytest.mark.slow
def test_linked_routes(described: Any) -> None:
    class Chat(described.as_state_machine()):  # type: ignore[misc]
        def setup(self) -> None:
            super().setup()
            Conversation.objects.all().delete()  # each chain has to find the same, to be repeatable

        def before_call(self, case: schemathesis.Case) -> None:
            agree(case)
            if case.path_parameters.get("memory_id") == "":
                case.path_parameters["memory_id"] = "support-42"  # an empty one has no address

    Chat.run(settings=Settings(SETTINGS, max_examples=budget.examples(10), stateful_step_count=budget.steps(8)))
