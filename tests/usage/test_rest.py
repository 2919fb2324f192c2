"""Usage over REST: the calls of a conversation, and sums, each for those who may see the rows."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import permutations
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from chatmemory import AiMessage, UserMessage
from chatmemory.contrib.usage.models import Operation, Status, Usage
from chatmemory.contrib.usage.rest import MOST_GROUPS
from chatmemory.contrib.usage.sums import GROUPS
from chatmemory.core.usage import TOKENS
from chatmemory.models import Conversation, ConversationQuerySet
from chatmemory.models.fields import uuid7
from tests.support import budget
from tests.support.api import url
from tests.support.factories import ConversationFactory, UserFactory
from tests.support.planted import member

pytestmark = pytest.mark.django_db

ROW = {
    "id", "position", "model", "operation", "status", *TOKENS, "tier", "details", "first_delta_seconds", "seconds",
    "cost", "currency", "created_at",
}  # fmt: skip
SUMS = {"calls", *TOKENS, "cached_share", "costs", "unpriced"}


@pytest.fixture
def conversation(user: Any) -> Conversation:
    made: Conversation = ConversationFactory(owner=user)
    made.memory.add(UserMessage("What is a cat?"), AiMessage("An animal."))
    return made


def record(conversation: Conversation, *, days_ago: int = 0, **fields: Any) -> Usage:
    """Make a row of a call, by default of today."""
    return Usage.objects.create(
        conversation=conversation,
        owner=conversation.owner,
        **{
            "model": "gpt-5",
            "input_tokens": 1000,
            "created_at": timezone.now() - timedelta(days=days_ago),
            **fields,
        },
    )


def read(client: Client, query: str = "") -> Any:
    answer = client.get(f"/api/usage/?{query}")
    assert answer.status_code == 200, answer.content
    return answer.json()


def keys(client: Client, query: str) -> list[Any]:
    return [group["key"] for group in read(client, query)["results"]]


def signed_in(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


def theirs(user: Any) -> ConversationQuerySet:
    """The conversations that staff reach: those of a title."""
    return Conversation.objects.filter(title="Open")


class TestAConversation:
    def test_a_row(self, api: Client, conversation: Conversation) -> None:
        row = record(
            conversation,
            position=1,
            provider="llm.internal:8000",
            output_tokens=85,
            cache_read_tokens=400,
            tier="flex",
            details={"web_searches": 2},
            seconds=1.5,
            first_delta_seconds=0.25,
            response_id="r",
            cost=Decimal("0.0018"),
            currency="USD",
        )
        [item] = api.get(url(conversation, "usage/")).json()["results"]
        assert item.keys() == ROW
        assert (item["id"], item["position"], item["operation"], item["status"]) == (str(row.pk), 1, "chat", "ok")
        assert (item["model"], item["tier"], item["details"]) == ("gpt-5", "flex", {"web_searches": 2})
        counts = (1000, 85, 400, None, None)
        assert tuple(item[name] for name in TOKENS) == counts
        assert (item["seconds"], item["first_delta_seconds"]) == (1.5, 0.25)
        assert (item["cost"], item["currency"]) == ("0.0018", "USD")
        assert datetime.fromisoformat(item["created_at"]) == row.created_at

    def test_amounts_are_exact_strings(self, api: Client, conversation: Conversation) -> None:
        amounts = ["0", "0.000000000001", "1200", "8999999.999999999999", None]
        for amount in amounts:
            record(conversation, cost=amount and Decimal(amount), currency="USD" if amount else "")
        found = api.get(url(conversation, "usage/")).json()
        assert [row["cost"] for row in found["results"]] == amounts[::-1]
        assert found["total"]["costs"] == {"USD": "9001200"}

    def test_the_newest_first_in_pages_with_the_total_of_all(self, api: Client, conversation: Conversation) -> None:
        rows = [record(conversation, days_ago=100 - number, input_tokens=number) for number in range(5)]
        found, address = [], url(conversation, "usage/?page_size=2")
        while address:
            page = api.get(address).json()
            found += [row["id"] for row in page["results"]]
            assert page["total"].keys() == SUMS
            assert (page["total"]["calls"], page["total"]["input_tokens"]) == (5, 10)
            address = page["next"]
        assert found == [str(row.pk) for row in reversed(rows)]
        oldest = api.get(url(conversation, "usage/?ordering=created_at")).json()["results"]
        assert [row["id"] for row in oldest] == found[::-1]

    def test_filters(self, api: Client, conversation: Conversation) -> None:
        record(conversation, input_tokens=1, operation="title")
        record(conversation, input_tokens=2, status="failed")
        record(conversation, input_tokens=4, model="Claude")
        for query, expected in [
            ("", 7),
            ("operation=title", 1),
            ("operation=tool", None),
            ("status=failed", 2),
            ("status=ok&operation=chat", 4),
            ("model=Claude", 4),
            ("model=claude", None),
        ]:
            found = api.get(url(conversation, f"usage/?{query}")).json()
            counts = [row["input_tokens"] for row in found["results"]]
            assert (sum(counts) or None, found["total"]["input_tokens"]) == (expected, expected), query

    def test_nothing(self, api: Client, conversation: Conversation) -> None:
        record(ConversationFactory(owner=conversation.owner))
        total = {**dict.fromkeys(SUMS), "calls": 0, "unpriced": 0}
        expected = {"next": None, "previous": None, "results": [], "total": total}
        assert api.get(url(conversation, "usage/")).json() == expected

    @pytest.mark.parametrize(
        ("query", "place"),
        [
            ("operation=dream", "operation"),
            ("status=fine", "status"),
            (f"model={'x' * 256}", "model"),
            ("ordering=cost", "ordering"),
            ("cursor=x", "cursor"),
            ("page_size=0", "page_size"),
            ("group=day", "group"),
        ],
    )
    def test_bad_input(self, api: Client, conversation: Conversation, query: str, place: str) -> None:
        answer = api.get(url(conversation, f"usage/?{query}"))
        assert (answer.status_code, answer["Content-Type"]) == (400, "application/problem+json")
        assert [error["place"] for error in answer.json()["errors"]] == [place]

    @pytest.mark.slow
    def test_it_is_for_its_owner_and_for_staff_who_may_see_it(self, conversation: Conversation) -> None:
        record(conversation, provider="openai")
        path, owner = url(conversation, "usage/"), conversation.owner_id
        assert Client().get(path).status_code == 403
        assert signed_in(UserFactory()).get(path).status_code == 404
        for user, query in [
            (UserFactory(), f"?owner={owner}"),
            (member([]), f"?owner={owner}"),
            (member(["view_conversation"], is_staff=False), "?owner=*"),
            (member(["view_conversation"]), ""),
        ]:
            assert signed_in(user).get(path + query).status_code == 404
        for query in (f"?owner={owner}", "?owner=*"):
            [row] = signed_in(member(["view_conversation"])).get(path + query).json()["results"]
            assert row.keys() == {*ROW, "owner", "provider"}
            assert (row["owner"], row["provider"]) == (owner, "openai")


class TestSums:
    def test_by_default_the_last_30_days(self, api: Client, conversation: Conversation) -> None:
        for days in (0, 29, 30):
            record(conversation, days_ago=days)
        found, today = read(api), timezone.localdate()
        assert found.keys() == {"from", "to", "results", "total"}
        assert (found["from"], found["to"]) == (str(today - timedelta(days=29)), str(today))
        assert [group["key"] for group in found["results"]] == [found["to"], found["from"]]
        assert {frozenset(group) for group in found["results"]} == {frozenset({*SUMS, "key"})}
        assert (found["total"].keys(), found["total"]["calls"]) == (SUMS, 2)

    @pytest.mark.parametrize(
        ("query", "days", "first", "last"),
        [
            ("from=2026-03-02&to=2026-03-04", ["2026-03-04", "2026-03-02"], "2026-03-02", "2026-03-04"),
            ("to=2026-03-02", ["2026-03-02", "2026-03-01"], "2026-02-01", "2026-03-02"),
            ("from=2026-03-02&to=2026-03-02", ["2026-03-02"], "2026-03-02", "2026-03-02"),
            ("from=0001-01-01&to=9999-12-31", ["2026-03-04", "2026-03-02", "2026-03-01"], "0001-01-01", "9999-12-31"),
            ("to=0001-01-02", [], "0001-01-01", "0001-01-02"),
        ],
    )
    def test_days(
        self, api: Client, conversation: Conversation, query: str, days: list[str], first: str, last: str
    ) -> None:
        for day in (1, 2, 4):
            record(conversation, created_at=datetime(2026, 3, day, 12, tzinfo=UTC))
        found = read(api, query)
        assert [group["key"] for group in found["results"]] == days
        assert (found["from"], found["to"], found["total"]["calls"]) == (first, last, len(days))

    def test_from_alone_is_until_today(self, api: Client, conversation: Conversation) -> None:
        record(conversation, days_ago=400)
        record(conversation)
        found = read(api, "from=2020-01-01&group=model")
        assert (found["from"], found["to"]) == ("2020-01-01", str(timezone.localdate()))
        assert found["total"]["calls"] == 2

    def test_today_is_the_projects(self, api: Client, conversation: Conversation, settings: Any) -> None:
        """It is never the same day in both time zones, whatever the user's is."""
        for project, users in permutations(["Pacific/Kiritimati", "Pacific/Pago_Pago"]):
            settings.TIME_ZONE = project
            row = record(conversation)
            with timezone.override(users):
                assert read(api)["to"] == str(row.day)
                assert str(row.day) in keys(api, "group=day")

    def test_groups(self, api: Client, conversation: Conversation) -> None:
        record(conversation, operation="title", input_tokens=3)
        record(conversation, model="", input_tokens=7)
        assert keys(api, "group=model") == ["", "gpt-5"]
        assert keys(api, "group=operation") == ["chat", "title"]
        assert keys(api, "group=owner") == [conversation.owner_id]
        assert keys(api, "group=day") == keys(api, "") == [str(timezone.localdate())]

    def test_costs_and_what_is_not_known(self, api: Client, conversation: Conversation) -> None:
        for model, cost, currency in [
            ("a", "0.1", "USD"), ("a", "0.2", "USD"), ("a", "0.5", "EUR"), ("a", None, ""), ("b", None, ""),
            ("c", "0", "USD"),
        ]:  # fmt: skip
            record(conversation, model=model, cost=cost and Decimal(cost), currency=currency, cache_read_tokens=250)
        found = read(api, "group=model")
        told = {group["key"]: (group["costs"], group["unpriced"]) for group in found["results"]}
        assert told == {"a": ({"EUR": "0.5", "USD": "0.3"}, 1), "b": (None, 1), "c": ({"USD": "0"}, 0)}
        total = found["total"]
        assert (total["costs"], total["unpriced"], total["calls"]) == ({"EUR": "0.5", "USD": "0.3"}, 2, 6)
        assert (total["output_tokens"], total["cached_share"]) == (None, 0.25)

    def test_a_share_is_at_most_the_whole(self, api: Client, conversation: Conversation) -> None:
        record(conversation, input_tokens=None, cache_read_tokens=900)
        assert read(api)["total"]["cached_share"] is None
        record(conversation, input_tokens=100, cache_read_tokens=100)
        assert read(api)["total"]["cached_share"] == 1

    def test_filters(self, api: Client, conversation: Conversation) -> None:
        other = ConversationFactory(owner=conversation.owner)
        record(conversation, input_tokens=1)
        record(conversation, input_tokens=2, model="Claude")
        record(other, input_tokens=4, operation="summary")
        for query, expected in [
            ("model=Claude", 2),
            ("model=", 7),
            ("operation=summary", 4),
            (f"conversation={conversation.pk}", 3),
            (f"conversation={conversation.pk}&model=gpt-5&operation=chat", 1),
            (f"conversation={other.pk}&model=Claude", None),
        ]:
            assert read(api, query)["total"]["input_tokens"] == expected, query

    @pytest.mark.parametrize(
        ("query", "place", "code"),
        [
            ("group=month", "group", "invalid_choice"),
            ("group=conversation", "group", "invalid_choice"),
            ("from=yesterday", "from", "invalid"),
            ("to=2026-02-30", "to", "invalid"),
            ("from=2026-03-02&to=2026-03-01", "from", "invalid"),
            ("from=9999-12-31", "from", "invalid"),
            ("operation=dream", "operation", "invalid_choice"),
            ("conversation=mine", "conversation", "invalid"),
            (f"model={'x' * 256}", "model", "max_length"),
            ("month=3", "month", "unknown_field"),
            ("from=2026-03-01&from=2026-03-02", "from", "repeated"),
        ],
    )
    def test_bad_input(self, api: Client, query: str, place: str, code: str) -> None:
        answer = api.get(f"/api/usage/?{query}")
        assert (answer.status_code, answer["Content-Type"]) == (400, "application/problem+json")
        assert [(error["place"], error["code"]) for error in answer.json()["errors"]] == [(place, code)]

    @pytest.mark.slow
    def test_the_largest_of_too_many_groups(self, api: Client, conversation: Conversation) -> None:
        rows = [
            Usage(conversation=conversation, owner=conversation.owner, model=f"m{number}", input_tokens=number)
            for number in range(MOST_GROUPS + 5)
        ]
        Usage.objects.bulk_create(rows)
        found = read(api, "group=model")
        assert len(found["results"]) == MOST_GROUPS
        assert found["results"][0]["key"] == f"m{MOST_GROUPS + 4}"
        assert found["total"]["calls"] == MOST_GROUPS + 5

    @pytest.mark.parametrize("group", ["day", "model", "operation", "owner"])
    def test_one_statement(self, api: Client, conversation: Conversation, group: str) -> None:
        for number in range(20):
            record(conversation, model=f"m{number}", days_ago=number)
        with CaptureQueriesContext(connection) as statements:
            read(api, f"group={group}&conversation={conversation.pk}")
        assert len([each for each in statements if "chatmemory_usage" in each["sql"]]) == 1
        assert len(statements) == 3  # and those of signing in


class TestOwners:
    @pytest.fixture
    def ann(self) -> Any:
        return UserFactory()

    @pytest.fixture
    def anns(self, ann: Any) -> Conversation:
        made: Conversation = ConversationFactory(owner=ann, title="Open")
        record(made, input_tokens=1)
        return made

    @pytest.fixture(autouse=True)
    def _others(self, anns: Conversation) -> None:
        record(ConversationFactory(), input_tokens=2)
        record(ConversationFactory(owner=None), input_tokens=4)

    def tokens(self, user: Any, query: str = "") -> Any:
        return read(signed_in(user), query)["total"]["input_tokens"]

    def test_users_see_their_own(self, ann: Any, anns: Conversation) -> None:
        assert self.tokens(ann) == self.tokens(ann, f"owner={ann.pk}") == 1
        assert keys(signed_in(ann), "group=owner") == [ann.pk]
        stranger = UserFactory()
        assert self.tokens(stranger) is None
        assert self.tokens(stranger, f"conversation={anns.pk}") is None
        for query in (f"owner={ann.pk}", "owner=*", "owner=*&group=owner"):
            assert signed_in(stranger).get(f"/api/usage/?{query}").status_code == 404

    @pytest.mark.parametrize("group", ["day", "owner"])
    def test_nobody_sees_what_is_nobodys(self, settings: Any, group: str) -> None:
        assert Client().get("/api/usage/").status_code == 403
        settings.CHATMEMORY = {"PERMISSION_CLASSES": ["rest_framework.permissions.AllowAny"]}
        found = read(Client(), f"group={group}")
        assert (found["results"], found["total"]["calls"]) == ([], 0)

    def test_rows_of_erased_conversations_belong_to_their_owner(self, ann: Any, anns: Conversation) -> None:
        key = anns.pk
        anns.delete()
        assert self.tokens(ann) == 1
        assert self.tokens(ann, f"conversation={key}") == 1
        assert self.tokens(member(["view_conversation"]), f"owner={ann.pk}") == 1

    def test_rows_stay_with_the_owner_at_the_time_of_the_call(self, ann: Any, anns: Conversation) -> None:
        heir = UserFactory()
        anns.owner = heir
        anns.save()
        assert (self.tokens(ann), self.tokens(heir)) == (1, None)
        anns.memory.add(UserMessage("Hello"), AiMessage("Hello!"))
        for owner, tokens in ((ann, 2), (heir, 4)):
            anns.owner = owner
            anns.save()
            record(anns, input_tokens=tokens, position=1)
        client = signed_in(heir)
        found = client.get(url(anns, "usage/")).json()
        assert ([row["input_tokens"] for row in found["results"]], found["total"]["input_tokens"]) == ([4], 4)
        assert client.get(url(anns, "messages/1/")).json()["usage"]["input_tokens"] == 4

    @pytest.mark.parametrize("permission", ["view_conversation", "change_conversation"])
    def test_staff(self, ann: Any, permission: str) -> None:
        staff = member([permission])
        assert self.tokens(staff) is None
        assert self.tokens(staff, f"owner={ann.pk}") == 1
        assert self.tokens(staff, "owner=*") == 7
        owners = read(signed_in(staff), "owner=*&group=owner")["results"]
        assert {group["key"]: group["input_tokens"] for group in owners} == {
            None: 4,
            ann.pk: 1,
            Conversation.objects.exclude(owner=ann).exclude(owner=None).get().owner_id: 2,
        }

    @pytest.mark.parametrize("permissions", [[], ["read_message_text", "delete_conversation"]])
    def test_staff_without_the_permission(self, ann: Any, permissions: list[str]) -> None:
        for query in (f"owner={ann.pk}", "owner=*"):
            answer = signed_in(member(permissions)).get(f"/api/usage/?{query}")
            assert answer.status_code == 404
            assert "chatmemory.view_conversation" in answer.json()["detail"]

    @pytest.mark.parametrize("owner", ["0", "me", "%00", "9" * 40])
    def test_an_owner_who_is_not_there(self, owner: str) -> None:
        answer = signed_in(member(["view_conversation"])).get(f"/api/usage/?owner={owner}")
        assert answer.status_code == (400 if owner == "%00" else 404)

    def test_staff_see_the_conversations_that_they_reach(self, ann: Any, anns: Conversation, settings: Any) -> None:
        closed = ConversationFactory(owner=ann, title="Closed")
        record(closed, input_tokens=8)
        erased = ConversationFactory(owner=ann, title="Open")
        record(erased, input_tokens=16)
        staff = member(["view_conversation"])
        mine = ConversationFactory(owner=staff, title="Closed")
        record(mine, input_tokens=32)
        erased.delete()
        settings.CHATMEMORY = {**settings.CHATMEMORY, "STAFF_CONVERSATIONS": f"{__name__}.theirs"}
        for query in (f"owner={ann.pk}", "owner=*"):
            assert self.tokens(staff, query) == 1
            assert self.tokens(staff, f"{query}&conversation={closed.pk}") is None
        assert signed_in(staff).get(url(closed, "usage/?owner=*")).status_code == 404
        assert self.tokens(staff) == 32
        assert self.tokens(ann) == 25


class TestMessages:
    def test_they_tell_their_cost(self, api: Client, conversation: Conversation) -> None:
        record(conversation, position=1, cost=Decimal("0.0125"), currency="EUR")
        question, answer = api.get(url(conversation, "messages/")).json()["results"]
        assert question["usage"] is None
        assert (answer["usage"]["cost"], answer["usage"]["currency"]) == ("0.0125", "EUR")
        Usage.objects.update(cost=None, currency="")
        assert api.get(url(conversation, "messages/1/")).json()["usage"]["cost"] is None

    def test_other_calls_for_an_answer_are_not_its_own(self, api: Client, conversation: Conversation) -> None:
        record(conversation, position=1, input_tokens=5)
        record(conversation, position=1, input_tokens=6, operation="tool")
        assert api.get(url(conversation, "messages/1/")).json()["usage"]["input_tokens"] == 5
        assert api.get(url(conversation, "usage/")).json()["total"]["input_tokens"] == 11


def test_it_is_throttled(api: Client, conversation: Conversation, settings: Any) -> None:
    settings.CHATMEMORY = {**settings.CHATMEMORY, "THROTTLE_RATES": {"reads": "1/day"}}
    statuses = [api.get(path).status_code for path in ("/api/usage/", "/api/usage/", url(conversation, "usage/"))]
    assert statuses == [200, 429, 429]


counts = st.none() | st.integers(0, 2**31 - 1)
calls = st.fixed_dictionaries(
    {
        "owner": st.sampled_from([0, 1, None]),
        "conversation": st.sampled_from([0, 1, 2, None]),
        "model": st.sampled_from(["gpt-5", "claude-sonnet-4-5", ""]),
        "operation": st.sampled_from(Operation.values),
        "status": st.sampled_from(Status.values),
        "cost": st.none() | st.integers(0, 10**15),
        "currency": st.sampled_from(["USD", "EUR"]),
        "hours": st.integers(0, 24 * 6),
        **dict.fromkeys(TOKENS, counts),
    }
)


class TestAtRandom:
    """The sums of REST are those of the rows that the rules name, added up in a loop."""

    @pytest.fixture
    def users(self) -> list[Any]:
        return [UserFactory(), UserFactory()]

    @pytest.fixture
    def conversations(self, users: list[Any]) -> list[Conversation]:
        return [ConversationFactory(owner=owner) for owner in (*users, None)]

    @pytest.fixture
    def clients(self, users: list[Any]) -> list[Client]:
        """Of a user, and of staff who see everything."""
        return [signed_in(users[0]), signed_in(member(["view_conversation"]))]

    @pytest.mark.slow
    @examples(max_examples=budget.examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.lists(calls, max_size=25), st.integers(1, 7), st.integers(1, 7), st.sampled_from(["", "gpt-5"]))
    def test_sums(
        self,
        users: list[Any],
        conversations: list[Conversation],
        clients: list[Client],
        made: list[dict[str, Any]],
        first: int,
        last: int,
        model: str,
    ) -> None:
        user, staff = clients
        Usage.objects.all().delete()
        for call in made:
            owner, conversation, hours = call["owner"], call["conversation"], call["hours"]
            cost = None if call["cost"] is None else Decimal(call["cost"]).scaleb(-12)
            fields = {name: call[name] for name in ("model", "operation", "status", *TOKENS)}
            Usage.objects.create(
                owner=None if owner is None else users[owner],
                conversation_id=uuid7() if conversation is None else conversations[conversation].pk,
                cost=cost,
                currency="" if cost is None else call["currency"],
                created_at=datetime(2026, 3, 1, tzinfo=UTC) + timedelta(hours=hours),
                **fields,
            )
        first, last = sorted((first, last))
        rows = [
            row
            for row in Usage.objects.all()
            if date(2026, 3, first) <= row.day <= date(2026, 3, last) and model in ("", row.model)
        ]
        for client, whose in [(user, [row for row in rows if row.owner_id == users[0].pk]), (staff, rows)]:
            for group in ("day", "model", "operation", "owner"):
                query = f"group={group}&from=2026-03-0{first}&to=2026-03-0{last}&model={model}"
                found = read(client, query + "&owner=*" * (client is staff))
                expected: dict[Any, list[Usage]] = defaultdict(list)
                for row in whose:
                    key = getattr(row, GROUPS[group])
                    expected[str(key) if isinstance(key, date) else key].append(row)
                assert {one["key"]: without_key(one) for one in found["results"]} == {
                    key: added(some) for key, some in expected.items()
                }
                assert found["total"] == added(whose)
        for conversation in conversations:
            found = staff.get(url(conversation, "usage/?owner=*&page_size=200")).json()
            mine = [row for row in Usage.objects.all() if row.conversation_id == conversation.pk]
            assert {row["id"] for row in found["results"]} == {str(row.pk) for row in mine}
            assert found["total"] == added(mine)


def without_key(group: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in group.items() if name != "key"}


def added(rows: list[Usage]) -> dict[str, Any]:
    """Add up rows as REST tells it."""
    found: dict[str, Any] = {"calls": len(rows), "unpriced": sum(row.cost is None for row in rows)}
    for name in TOKENS:
        known = [getattr(row, name) for row in rows if getattr(row, name) is not None]
        found[name] = sum(known) if known else None
    costs: dict[str, Decimal] = defaultdict(Decimal)
    for row in rows:
        if row.cost is not None:
            costs[row.currency] += row.cost
    found["costs"] = {currency: f"{cost.normalize():f}" for currency, cost in costs.items()} or None
    read, whole = found["cache_read_tokens"], found["input_tokens"]
    found["cached_share"] = min(1, (read or 0) / whole) if whole else None
    return found
