"""Summaries over REST: what is due, the project's summarizer, and the client's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from threading import Event
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client, override_settings
from django.utils import timezone

from chatmemory import AiMessage, SystemMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory.models import Compaction, Conversation, Message
from tests.rest.test_isolation import everything
from tests.support.api import ITEM, USER, patch, positions, post, send, url
from tests.support.factories import ConversationFactory, UserFactory

PROBLEM = "urn:chatmemory:problem:"
WORDS = "word " * 40
TEXT = "They greeted each other."


def brief(messages: Any, previous: str | None) -> str:
    return f"{len(messages)} messages" + (f" after: {previous}" if previous else "")


def raises(messages: Any, previous: str | None) -> str:
    raise TimeoutError("no answer from model.internal")


def says_nothing(messages: Any, previous: str | None) -> str:
    return " \n"


def says_too_much(messages: Any, previous: str | None) -> str:
    return "word " * 2000


async def waits(messages: Any, previous: str | None) -> str:
    return brief(messages, previous)


class Meanwhile:
    """A summarizer during which something else happens."""

    does: Callable[[], Any] = staticmethod(lambda: None)

    def __call__(self, messages: Any, previous: str | None) -> str:
        self.does()
        return brief(messages, previous)


meanwhile = Meanwhile()


@pytest.fixture
def summarizer(settings: Any) -> Any:
    """Sets the project's summarizer, by its name here."""

    def set_summarizer(name: str, **more: Any) -> None:
        settings.CHATMEMORY = {"USERS": "all", "SUMMARIZER": f"{__name__}.{name}", **more}

    return set_summarizer


@pytest.fixture
def during(summarizer: Any) -> Iterator[Any]:
    """Sets what happens while the summarizer works."""

    def set_act(act: Callable[[], Any]) -> None:
        summarizer("meanwhile")
        meanwhile.does = act

    yield set_act
    meanwhile.does = Meanwhile.does


def talk(first: int, turns: int) -> list[Any]:
    return [
        message
        for number in range(first, first + turns)
        for message in (
            UserMessage(f"question {number} " + "word " * 40),
            AiMessage(f"answer {number} " + "word " * 40),
        )
    ]


def make(owner: Any, **settings: Any) -> Conversation:
    """Ten turns at 1 to 20 behind a system message; the window has evicted those before 13."""
    made = ConversationFactory(owner=owner, **{"window": "messages", "limit": 9, **settings})
    made.memory.add(SystemMessage("Be kind."), *talk(0, 10))
    return made


@pytest.fixture
def conversation(user: Any) -> Conversation:
    return make(user)


def path(conversation: Conversation, query: str = "") -> str:
    return url(conversation, f"compaction/{query}")


def texts(conversation: Conversation) -> list[str]:
    return [row.text for row in conversation.messages.retained()]


class TestWhatIsDue:
    def test_everything_is_told(self, api: Client, conversation: Conversation) -> None:
        answer = api.get(path(conversation))
        assert answer.status_code == 200
        said = answer.json()
        tokens = sum(row.token_count for row in conversation.messages.filter(position__range=(1, 16)))
        assert said == {
            "compact_at": None,
            "due": False,
            "under_way": False,
            "plan": {
                "covers_from": 1,
                "covers_to": 16,
                "messages": 16,
                "tokens": tokens,
                "previous": None,
                "messages_left": 0,
                "tokens_left": 0,
            },
            "last_summary": None,
            "failures": {"count": 0, "failed_at": None, "retry_at": None, "error": ""},
            "version": 1,
        }

    def test_a_summary_is_due_only_with_compact_at(self, api: Client, conversation: Conversation) -> None:
        for compact_at, due in ((100, True), (None, False), (1, True)):
            patch(api, url(conversation), {"compact_at": compact_at})
            said = api.get(path(conversation)).json()
            assert (said["compact_at"], said["due"]) == (compact_at, due)

    def test_a_full_memory_is_due_without_any_eviction(self, api: Client, user: Any) -> None:
        conversation = make(user, limit=22, compact_at=96)
        assert api.get(path(conversation)).json()["due"] is False
        patch(api, url(conversation), {"compact_at": 95})
        assert api.get(path(conversation)).json()["due"] is True

    def test_nothing_is_planned_where_there_is_too_little(self, api: Client, user: Any) -> None:
        conversation = ConversationFactory(owner=user, compact_at=1)
        conversation.memory.add(UserMessage("Hello"), AiMessage("Hi"))
        said = api.get(path(conversation)).json()
        assert (said["plan"], said["due"]) == (None, False)

    def test_the_last_summary_is_told_as_its_author_wrote_it(self, api: Client, conversation: Conversation) -> None:
        text = "It ended with </summary>."
        post(api, path(conversation), {"through": 16, "text": text})
        conversation.memory.add(*talk(10, 6))
        said = api.get(path(conversation)).json()
        row = conversation.messages.get(origin="summary")
        created = said["last_summary"].pop("created_at")
        assert datetime.fromisoformat(created) == row.created_at
        assert said["last_summary"] == {
            "position": 21,
            "covers_from": 1,
            "covers_to": 16,
            "tokens": row.token_count,
            "state": "retained",
            "text": text,
        }
        assert (said["plan"]["covers_from"], said["plan"]["previous"]) == (1, 21)

    def test_a_summary_that_left_is_still_the_last(self, api: Client, conversation: Conversation) -> None:
        post(api, path(conversation), {"through": 16, "text": TEXT})
        api.delete(url(conversation, "memory/"))
        said = api.get(path(conversation)).json()
        assert (said["last_summary"]["state"], said["plan"]) == ("evicted", None)

    @pytest.mark.slow
    def test_failures_are_told_without_what_servers_are_called(
        self, api: Client, conversation: Conversation, summarizer: Any
    ) -> None:
        summarizer("raises")
        before = timezone.now()
        for count in (1, 2):
            post(api, path(conversation), {})
            failures = api.get(path(conversation)).json()["failures"]
            assert (failures["count"], failures["error"]) == (count, "TimeoutError")
        moments = [datetime.fromisoformat(failures[name]) for name in ("failed_at", "retry_at")]
        assert abs(moments[0] - before) < timedelta(minutes=1)
        assert abs(moments[1] - moments[0] - timedelta(minutes=5)) < timedelta(seconds=10)
        summarizer("brief")
        post(api, path(conversation), {})
        assert api.get(path(conversation)).json()["failures"] == {
            "count": 0, "failed_at": None, "retry_at": None, "error": "",
        }  # fmt: skip

    def test_any_format_may_be_asked_for_as_elsewhere(self, api: Client, conversation: Conversation) -> None:
        assert api.get(path(conversation, "?format=openai")).status_code == 200
        assert api.get(path(conversation, "?keep=3")).status_code == 400


class TestTheSummarizer:
    @pytest.mark.parametrize("name", ["brief", "waits"])
    @pytest.mark.parametrize("body", [{}, ""])
    def test_writes_the_summary(
        self, api: Client, conversation: Conversation, summarizer: Any, name: str, body: Any
    ) -> None:
        summarizer(name)
        answer = post(api, path(conversation), body)
        assert answer.status_code == 200
        done = answer.json()
        assert set(done) == {"outcome", "added", "evicted", "memory", "version"}
        assert done["outcome"] == "summarized"
        assert all(set(item) == ITEM for item in [*done["added"], *done["evicted"]])
        [added] = done["added"]
        assert (added["text"], added["origin"], added["synthetic"], added["covers_from"], added["covers_to"]) == (
            "<summary>\n16 messages\n</summary>", "summary", True, 1, 16,
        )  # fmt: skip
        assert [(item["position"], item["reason"]) for item in done["evicted"]] == [
            (position, "summarized") for position in (13, 14, 15, 16)
        ]
        memory = api.get(url(conversation, "memory/"))
        assert memory["ETag"] == answer["ETag"]
        assert (done["version"], done["memory"]["messages"]) == (2, 6)
        assert done["memory"]["tokens"] == memory.json()["tokens"]
        kinds = [message["type"] for message in memory.json()["messages"]]
        assert kinds == ["SYSTEM", "USER", "USER", "AI", "USER", "AI"]

    def test_keeps_what_it_is_told_to(self, api: Client, conversation: Conversation, summarizer: Any) -> None:
        summarizer("brief")
        [added] = post(api, path(conversation), {"keep": 0}).json()["added"]
        assert added["covers_to"] == 18

    def test_messages_come_in_the_format_that_was_asked_for(
        self, api: Client, conversation: Conversation, summarizer: Any
    ) -> None:
        summarizer("brief")
        [added] = post(api, path(conversation, "?format=openai"), {}).json()["added"]
        assert added["message"] == {"role": "user", "content": "<summary>\n16 messages\n</summary>"}

    def test_has_nothing_to_do_twice(self, api: Client, conversation: Conversation, summarizer: Any) -> None:
        summarizer("brief")
        first = post(api, path(conversation), {}).json()
        before = everything()
        again = post(api, path(conversation), {})
        assert (again.status_code, again.json()["outcome"]) == (200, "nothing_to_do")
        assert again.json() == {**first, "outcome": "nothing_to_do", "added": [], "evicted": []}
        assert everything() == before

    def test_takes_in_the_summary_before(self, api: Client, conversation: Conversation, summarizer: Any) -> None:
        post(api, path(conversation), {"through": 16, "text": TEXT})
        summarizer("brief")
        conversation.memory.add(*talk(10, 6))
        done = post(api, path(conversation), {}).json()
        assert done["added"][0]["text"] == f"<summary>\n12 messages after: {TEXT}\n</summary>"
        assert 21 in [item["position"] for item in done["evicted"]]

    def test_a_site_without_one_says_so(self, api: Client, conversation: Conversation) -> None:
        before = everything()
        answer = post(api, path(conversation), {})
        problem = answer.json()
        assert (answer.status_code, problem["type"]) == (409, f"{PROBLEM}no-summarizer")
        assert "through and text" in problem["detail"]
        assert "SUMMARIZER" in problem["detail"]
        assert everything() == before
        assert not Compaction.objects.exists()

    @pytest.mark.parametrize(
        ("name", "said"),
        [("raises", "TimeoutError"), ("says_nothing", "must not be blank"), ("says_too_much", "must be smaller")],
    )
    def test_a_failure_changes_nothing(
        self, api: Client, conversation: Conversation, summarizer: Any, name: str, said: str
    ) -> None:
        summarizer(name)
        before = everything()
        answer = post(api, path(conversation), {})
        problem = answer.json()
        assert (answer.status_code, answer["Content-Type"]) == (502, "application/problem+json")
        assert problem["type"] == f"{PROBLEM}summarizer-failed"
        assert said in problem["detail"]
        assert "model.internal" not in answer.content.decode()
        noted = Compaction.objects.get()
        assert datetime.fromisoformat(problem["retry_at"]) == noted.retry_at
        assert problem["retry_at"] in problem["detail"]
        assert everything() == before
        summarizer("brief")
        assert post(api, path(conversation), {}).json()["outcome"] == "summarized"

    def test_a_database_that_is_away_is_no_failed_summarizer(
        self, api: Client, conversation: Conversation, during: Any
    ) -> None:
        during(lambda: Conversation.objects.filter(pk=conversation.pk).delete())
        assert post(api, path(conversation), {}).status_code == 404

    def test_a_failure_after_it_was_erased_is_not_found(
        self, api: Client, conversation: Conversation, during: Any
    ) -> None:
        def fail() -> None:
            Conversation.objects.filter(pk=conversation.pk).delete()
            raise OSError("no answer")

        during(fail)
        assert post(api, path(conversation), {}).status_code == 404

    def test_erased_before_the_summarizer_is_asked(
        self, api: Client, conversation: Conversation, summarizer: Any
    ) -> None:
        summarizer("brief")
        erased = []

        def erase(execute: Any, sql: str, *args: Any) -> Any:
            if "chatmemory_compaction" in sql and not erased:
                erased.append(sql)
                Conversation.objects.filter(pk=conversation.pk).delete()
            return execute(sql, *args)

        with connection.execute_wrapper(erase):
            answer = post(api, path(conversation), {})
        assert (answer.status_code, answer["Content-Type"]) == (404, "application/problem+json")

    def test_what_is_said_meanwhile_stays(self, api: Client, conversation: Conversation, during: Any) -> None:
        answers: list[Any] = []
        during(lambda: answers.append(post(api, url(conversation, "messages/"), USER)))
        done = post(api, path(conversation), {}).json()
        assert [answer.status_code for answer in answers] == [201]
        assert (done["outcome"], done["version"]) == ("summarized", 3)
        assert texts(conversation)[-1] == "Hello"

    def test_another_one_at_the_same_time_is_told_to_wait(
        self, api: Client, conversation: Conversation, during: Any
    ) -> None:
        answers: list[Any] = []

        def ask_again() -> None:
            answers.append(post(api, path(conversation), {}))
            answers.append(api.get(path(conversation)))

        during(ask_again)
        done = post(api, path(conversation), {})
        again, seen = answers
        assert (again.status_code, again.json()["outcome"]) == (202, "under_way")
        assert again.json()["added"] == again.json()["evicted"] == []
        assert seen.json()["under_way"] is True
        assert (done.status_code, done.json()["outcome"]) == (200, "summarized")
        assert api.get(path(conversation)).json()["under_way"] is False

    def test_a_version_that_moved_costs_no_summary(self, api: Client, conversation: Conversation, during: Any) -> None:
        asked: list[Any] = []
        during(lambda: asked.append(post(api, url(conversation, "messages/"), USER)))
        assert post(api, path(conversation), {}, if_match='"0"').status_code == 412
        assert asked == []
        assert post(api, path(conversation), {}, if_match='"1"').json()["outcome"] == "summarized"
        assert len(asked) == 1

    def test_messages_that_were_taken_out_meanwhile_are_no_error(
        self, api: Client, conversation: Conversation, during: Any
    ) -> None:
        during(lambda: api.delete(url(conversation, "memory/")))
        done = post(api, path(conversation), {})
        assert (done.status_code, done.json()["outcome"], done.json()["memory"]["messages"]) == (
            200,
            "nothing_to_do",
            0,
        )


@pytest.mark.django_db(transaction=True)
class TestAtOnce:
    def test_no_transaction_is_open_while_the_summarizer_works(
        self, api: Client, conversation: Conversation, during: Any, settings: Any
    ) -> None:
        seen: list[bool] = []
        during(lambda: seen.append(connection.in_atomic_block))
        connection.settings_dict["ATOMIC_REQUESTS"] = True
        try:
            assert post(api, path(conversation), {}).json()["outcome"] == "summarized"
        finally:
            connection.settings_dict["ATOMIC_REQUESTS"] = False
        assert seen == [False]

    def test_other_requests_do_not_wait_for_the_summarizer(
        self, api: Client, user: Any, conversation: Conversation, during: Any
    ) -> None:
        begun, go_on = Event(), Event()

        def work() -> None:
            begun.set()
            assert go_on.wait(60)

        during(work)
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(self.request, user, path(conversation), {})
            try:
                assert begun.wait(60)
                assert post(api, url(conversation, "messages/"), USER).status_code == 201
                assert post(api, path(conversation), {}).status_code == 202
                pinned = post(api, url(conversation, "messages/20/pin/"), "")
                assert pinned.status_code == 200
            finally:
                go_on.set()
            assert first.result().json()["outcome"] == "summarized"
        assert texts(conversation)[-1] == "Hello"

    def test_one_of_two_summaries_is_applied(self, user: Any, conversation: Conversation) -> None:
        bodies = [{"through": 16, "text": text} for text in ("one", "two")]
        answers = self.both(user, conversation, bodies, ["a", "b"])
        assert sorted(answer.status_code for answer in answers) == [200, 409]
        assert Message.objects.filter(origin="summary").count() == 1

    def test_a_repetition_at_the_same_time_is_answered_alike(self, user: Any, conversation: Conversation) -> None:
        answers = self.both(user, conversation, [{"through": 16, "text": TEXT}] * 2, ["k", "k"])
        assert [answer.status_code for answer in answers] == [200, 200]
        assert answers[0].json() == answers[1].json()
        assert Message.objects.filter(origin="summary").count() == 1

    def both(self, user: Any, conversation: Conversation, bodies: list[Any], keys: list[str]) -> list[Any]:
        with ThreadPoolExecutor(2) as pool:
            done = [
                pool.submit(self.request, user, path(conversation), body, idempotency_key=key)
                for body, key in zip(bodies, keys, strict=True)
            ]
            return [each.result() for each in done]

    def request(self, user: Any, address: str, body: Any, **headers: str) -> Any:
        client = Client()
        try:
            client.force_login(user)
            return post(client, address, body, **headers)
        finally:
            connection.close()


class TestOnesOwn:
    def test_takes_the_place_of_the_turns(self, api: Client, conversation: Conversation) -> None:
        answer = post(api, path(conversation), {"through": 14, "text": f" {TEXT}\n"})
        assert answer.status_code == 200
        done = answer.json()
        [added] = done["added"]
        assert (added["text"], added["covers_from"], added["covers_to"]) == (f"<summary>\n{TEXT}\n</summary>", 1, 14)
        assert (done["outcome"], [item["position"] for item in done["evicted"]]) == ("summarized", [13, 14])
        assert answer["ETag"] == api.get(url(conversation, "memory/"))["ETag"]
        assert [item["text"] for item in api.get(url(conversation, "messages/?origin=summary")).json()["results"]] == [
            added["text"]
        ]

    @pytest.mark.parametrize("through", [16, 2, 0])
    def test_what_a_summary_stands_for_is_a_conflict(
        self, api: Client, conversation: Conversation, through: int
    ) -> None:
        post(api, path(conversation), {"through": 16, "text": TEXT})
        before = everything()
        answer = post(api, path(conversation), {"through": through, "text": "Another."})
        problem = answer.json()
        assert (answer.status_code, problem["type"]) == (409, f"{PROBLEM}already-summarized")
        assert str(through) in problem["detail"]
        assert everything() == before

    @pytest.mark.parametrize(
        ("body", "places"),
        [
            ([], [""]),
            (None, [""]),
            ("x", [""]),
            ({"compact": 1}, ["compact"]),
            ({"keep": -1}, ["keep"]),
            ({"keep": 101}, ["keep"]),
            ({"keep": None}, ["keep"]),
            ({"keep": True}, ["keep"]),
            ({"keep": 50.0}, ["keep"]),
            ({"keep": "50"}, ["keep"]),
            ({"through": 16}, ["text"]),
            ({"text": TEXT}, ["through"]),
            ({"keep": 5, "through": 16, "text": TEXT}, ["keep"]),
            ({"keep": 5, "text": TEXT}, ["through"]),
            ({"through": None, "text": TEXT}, ["through"]),
            ({"through": "16", "text": TEXT}, ["through"]),
            ({"through": -1, "text": TEXT}, ["through"]),
            ({"through": 2**31, "text": TEXT}, ["through"]),
            ({"through": 15, "text": TEXT}, ["through"]),
            ({"through": 20, "text": TEXT}, ["through"]),
            ({"through": 99, "text": TEXT}, ["through"]),
            ({"through": 16, "text": None}, ["text"]),
            ({"through": 16, "text": 5}, ["text"]),
            ({"through": 16, "text": ""}, ["text"]),
            ({"through": 16, "text": " \n"}, ["text"]),
            ({"through": 16, "text": "\ud800"}, ["text"]),
            ({"through": 16, "text": "a\x00"}, ["text"]),
            ({"through": 16, "text": "x" * 3001}, ["text"]),
            ({"through": 2, "text": "word " * 100}, ["text"]),
            ({"through": 1, "text": TEXT}, ["through"]),
            ({"through": 11, "text": TEXT}, ["through"]),
        ],
    )
    def test_bad_bodies_change_nothing(
        self, api: Client, conversation: Conversation, summarizer: Any, body: Any, places: list[str]
    ) -> None:
        summarizer("brief", MAX_MESSAGE_CHARS=3000)
        before = everything()
        answer = post(api, path(conversation), "null" if body is None else body)
        assert answer.status_code == 400
        assert [error["place"] for error in answer.json().get("errors", [{"place": ""}])] == places
        assert everything() == before

    def test_a_position_that_ends_no_turn_is_told_some_that_do(self, api: Client, conversation: Conversation) -> None:
        [error] = post(api, path(conversation), {"through": 15, "text": TEXT}).json()["errors"]
        assert "14, 16, 18" in error["detail"]

    def test_what_the_window_evicted_behind_it_is_not_taken_in(self, api: Client, conversation: Conversation) -> None:
        [added] = post(api, path(conversation), {"through": 2, "text": TEXT}).json()["added"]
        assert (added["covers_from"], added["covers_to"]) == (1, 2)
        assert positions(api.get(url(conversation, "messages/?uncovered=true"))) == list(range(3, 14))
        plan = api.get(path(conversation)).json()["plan"]
        assert (plan["messages"], plan["covers_to"], plan["previous"]) == (14, 16, 21)

    def test_it_may_come_late(self, api: Client, conversation: Conversation) -> None:
        plan = api.get(path(conversation)).json()["plan"]
        conversation.memory.add(*talk(10, 10))
        done = post(api, path(conversation), {"through": plan["covers_to"], "text": TEXT}).json()
        assert [(item["covers_from"], item["covers_to"]) for item in done["added"]] == [(1, 16)]
        assert positions(api.get(url(conversation, "messages/?uncovered=true")))[:2] == [17, 18]

    def test_it_must_leave_room(self, api: Client, user: Any) -> None:
        conversation = make(user, window="tokens", limit=400)
        answer = post(api, path(conversation), {"through": 18, "text": "word " * 200})
        assert (answer.status_code, answer.json()["errors"][0]["place"]) == (400, "text")
        assert "half of the limit" in answer.json()["detail"]

    def test_the_same_key_summarises_once(self, api: Client, conversation: Conversation) -> None:
        body = {"through": 14, "text": TEXT}
        first = post(api, path(conversation), body, idempotency_key="k", if_match='"1"')
        post(api, path(conversation), {"through": 16, "text": "More."})
        again = post(api, path(conversation), body, idempotency_key="k", if_match='"1"')
        assert (again.status_code, again.json()) == (200, first.json())
        other = post(api, path(conversation), {**body, "text": "Other."}, idempotency_key="k")
        assert (other.status_code, other.json()["type"]) == (422, f"{PROBLEM}idempotency-key-reused")
        assert conversation.messages.filter(origin="summary").count() == 2

    def test_a_key_of_messages_is_no_key_of_a_summary(self, api: Client, conversation: Conversation) -> None:
        post(api, url(conversation, "messages/"), USER, idempotency_key="k")
        answer = post(api, path(conversation), {"through": 16, "text": TEXT}, idempotency_key="k")
        assert answer.status_code == 422

    def test_a_refused_request_does_not_use_up_its_key(self, api: Client, conversation: Conversation) -> None:
        for text in ("", "word " * 5000):
            answer = post(api, path(conversation), {"through": 16, "text": text}, idempotency_key="k")
            assert answer.status_code == 400
        assert post(api, path(conversation), {"through": 16, "text": TEXT}, idempotency_key="k").status_code == 200

    def test_a_bad_key_is_named(self, api: Client, conversation: Conversation) -> None:
        answer = post(api, path(conversation), {"through": 16, "text": TEXT}, idempotency_key="")
        assert answer.json()["errors"][0]["place"] == "Idempotency-Key"

    def test_a_memory_that_moved_stays(self, api: Client, conversation: Conversation) -> None:
        body = {"through": 16, "text": TEXT}
        assert post(api, path(conversation), body, if_match='"0"').status_code == 412
        assert not conversation.messages.filter(origin="summary").exists()
        seen = api.get(url(conversation, "memory/"))["ETag"]
        assert post(api, path(conversation), body, if_match=seen).status_code == 200

    @pytest.mark.slow
    @pytest.mark.parametrize("shape", ["pins", "tools", "a pinned call", "cleared", "systems", "nothing evicted"])
    def test_the_plan_names_a_position_that_is_taken(self, api: Client, user: Any, shape: str) -> None:
        limits = {"systems": 9, "a pinned call": 40}
        conversation = make(user, limit=limits.get(shape, 22))
        call = ToolExecutionRequest("1", "look_up", "{}")
        looked_up = [
            UserMessage("look " * 40),
            AiMessage(None, [call]),
            ToolExecutionResultMessage("1", "look_up", "word " * 80),
        ]
        if shape == "pins":
            conversation.memory.pin(2)
            conversation.memory.pin(8)
            conversation.memory.add(*talk(10, 6))
        elif shape in {"tools", "cleared", "a pinned call"}:
            conversation.memory.add(*looked_up, *talk(10, 9))
            if shape == "a pinned call":
                conversation.memory.pin(22)
            if shape == "cleared":
                conversation.memory.clear_tool_results(0)
        elif shape == "systems":
            conversation.memory.add(SystemMessage("Be brief."), *talk(10, 3))
        for text in ("First.", "Second."):
            plan = api.get(path(conversation)).json()["plan"]
            answer = post(api, path(conversation), {"through": plan["covers_to"], "text": text})
            assert answer.status_code == 200, answer.content
            [added] = answer.json()["added"]
            assert (added["covers_from"], added["covers_to"]) == (plan["covers_from"], plan["covers_to"])
            conversation.memory.add(*talk(30, 20))


class TestBounds:
    def test_a_range_too_large_for_a_request_is_told(self, api: Client, conversation: Conversation) -> None:
        for bound in {"MAX_MEMORY_MESSAGES": 11}, {"MAX_MEMORY_CHARS": 2200}:
            with override_settings(CHATMEMORY={"USERS": "all", **bound}):
                answer = post(api, path(conversation), {"through": 16, "text": TEXT})
                assert (answer.status_code, answer.json()["type"]) == (413, f"{PROBLEM}memory-too-large")
                assert "choose a smaller through" in answer.json()["detail"]
        assert post(api, path(conversation), {"through": 4, "text": TEXT}).status_code == 200

    @pytest.mark.slow
    def test_what_one_call_does_not_take_is_left_for_the_next(self, api: Client, user: Any, summarizer: Any) -> None:
        conversation = make(user, window="tokens", limit=500)
        summarizer("brief", MAX_MEMORY_MESSAGES=11)
        plans = []
        while (plan := api.get(path(conversation)).json()["plan"]) is not None:
            plans.append(plan)
            change = post(api, path(conversation), {}).json()
            assert change["added"][0]["covers_to"] == plan["covers_to"]
        assert len(plans) == 2
        assert (plans[0]["messages_left"], plans[1]["messages_left"]) == (plans[1]["messages"], 0)
        assert plans[0]["tokens_left"] == sum(
            conversation.messages.filter(
                position__range=(plans[0]["covers_to"] + 1, plans[1]["covers_to"])
            ).values_list("token_count", flat=True)
        )

    def test_a_memory_too_large_to_read_is_not_planned(self, api: Client, user: Any, settings: Any) -> None:
        conversation = make(user, limit=30)
        settings.CHATMEMORY = {"USERS": "all", "MAX_MEMORY_MESSAGES": 20}
        assert api.get(path(conversation)).status_code == 413

    def test_a_summary_may_not_make_a_memory_too_large(
        self, api: Client, conversation: Conversation, settings: Any
    ) -> None:
        settings.CHATMEMORY = {"USERS": "all", "MAX_MEMORY_CHARS": 3000}
        answer = post(api, path(conversation), {"through": 14, "text": "a" * 2400})
        assert answer.status_code == 413
        assert not conversation.messages.filter(origin="summary").exists()

    def test_what_a_summary_stands_for_counts_no_more(
        self, api: Client, conversation: Conversation, settings: Any
    ) -> None:
        post(api, path(conversation), {"through": 16, "text": TEXT})
        settings.CHATMEMORY = {"USERS": "all", "MAX_MEMORY_MESSAGES": 9}
        assert api.get(path(conversation)).status_code == 200

    def test_it_counts_as_a_write(self, api: Client, conversation: Conversation, settings: Any) -> None:
        settings.CHATMEMORY = {"USERS": "all", "THROTTLE_RATES": {"writes": "1/hour"}}
        body = {"through": 16, "text": TEXT}
        assert [post(api, path(conversation), body).status_code for _ in range(2)] == [200, 429]
        assert api.get(path(conversation)).status_code == 200


class TestTheSetting:
    def test_comes_with_a_conversation(self, api: Client, settings: Any) -> None:
        assert post(api, "/api/conversations/", {}).json()["compact_at"] is None
        assert post(api, "/api/conversations/", {"compact_at": 80}).json()["compact_at"] == 80
        settings.CHATMEMORY = {"USERS": "all", "WINDOW": {"compact_at": 70}}
        assert post(api, "/api/conversations/", {}).json()["compact_at"] == 70
        assert post(api, "/api/conversations/", {"compact_at": None}).json()["compact_at"] is None

    def test_is_changed_and_taken_off(self, api: Client, conversation: Conversation) -> None:
        for body, expected in (({"compact_at": 80}, 80), ({"limit": 8}, 80), ({"compact_at": None}, None)):
            assert patch(api, url(conversation), body).json()["compact_at"] == expected

    @pytest.mark.parametrize("value", [0, 101, -1, True, "80", 80.0, []])
    def test_is_a_percentage(self, api: Client, conversation: Conversation, value: Any) -> None:
        for answer in (
            patch(api, url(conversation), {"compact_at": value}),
            post(api, "/api/conversations/", {"compact_at": value}),
            post(api, url(conversation, "memory/preview/"), {"compact_at": value}),
        ):
            assert (answer.status_code, answer.json()["errors"][0]["place"]) == (400, "compact_at")

    def test_a_preview_takes_it_and_a_replay_does_not(self, api: Client, conversation: Conversation) -> None:
        assert post(api, url(conversation, "memory/preview/"), {"compact_at": 80, "limit": 5}).status_code == 200
        answer = post(api, url(conversation, "memory/replay/"), {"variants": [{"compact_at": 80}]})
        assert (answer.status_code, answer.json()["errors"][0]["place"]) == (400, "variants[0].compact_at")


class TestFilters:
    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ("uncovered=true", list(range(1, 13))),
            ("uncovered=true&position_min=11", [11, 12]),
            ("uncovered=false", [0, *range(13, 21)]),
            ("uncovered=", list(range(21))),
        ],
    )
    def test_what_no_summary_stands_for(
        self, api: Client, conversation: Conversation, query: str, expected: list[int]
    ) -> None:
        assert positions(api.get(url(conversation, f"messages/?page_size=50&{query}"))) == expected

    def test_is_nothing_after_a_summary(self, api: Client, conversation: Conversation) -> None:
        post(api, path(conversation), {"through": 16, "text": TEXT})
        assert positions(api.get(url(conversation, "messages/?uncovered=true"))) == []
        conversation.memory.add(*talk(10, 5))
        assert positions(api.get(url(conversation, "messages/?uncovered=true"))) == [17, 18, 19, 20, 22, 23, 24]
        assert positions(api.get(url(conversation, "messages/?reason=summarized"))) == [13, 14, 15, 16]
        assert positions(api.get(url(conversation, "messages/?origin=summary&state=retained"))) == [21]

    def test_means_something_or_is_an_error(self, api: Client, conversation: Conversation) -> None:
        answer = api.get(url(conversation, "messages/?uncovered=yes"))
        assert (answer.status_code, answer.json()["errors"][0]["place"]) == (400, "uncovered")


def test_only_gets_and_posts(api: Client, conversation: Conversation) -> None:
    for method in ("PUT", "PATCH", "DELETE"):
        assert send(api, method, path(conversation), {}).status_code == 405


def test_another_users_is_not_found(api: Client, summarizer: Any) -> None:
    summarizer("raises")
    for owner in (UserFactory(), None):
        theirs = make(owner)
        for method, body in (("GET", {}), ("POST", {}), ("POST", {"through": 16, "text": TEXT})):
            assert send(api, method, path(theirs), body).status_code == 404
    assert not Compaction.objects.exists()


def test_a_project_that_opens_a_transaction_is_told(api: Client, conversation: Conversation, summarizer: Any) -> None:
    summarizer("brief")
    with pytest.raises(RuntimeError, match="in a transaction"), transaction.atomic():
        post(api, path(conversation), {})
    assert not conversation.messages.filter(origin="summary").exists()
