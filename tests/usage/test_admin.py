"""The page "Usage" of the admin: sums of calls, charts, and a file."""

from __future__ import annotations

import csv
import io
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from html import unescape
from html.parser import HTMLParser
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import path
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chatmemory import AiMessage, UserMessage
from chatmemory.admin import ConversationAdmin
from chatmemory.admin.display.memory_map import percentage
from chatmemory.contrib.usage.admin import UsageAdmin, amount
from chatmemory.contrib.usage.models import Operation, Usage
from chatmemory.core.usage import TOKENS
from chatmemory.models import Conversation
from chatmemory.models.fields import uuid7
from tests.support import budget
from tests.support.factories import ConversationFactory, UserFactory
from tests.support.planted import member

PAGE = "/admin/chatmemory_usage/usage/"


class OfMarta(ConversationAdmin):
    """Only Marta's conversations."""

    def get_queryset(self, request: Any) -> Any:
        return super().get_queryset(request).filter(owner__username="marta")


def site(name: str, conversations: Any) -> Any:
    made = admin.AdminSite(name=name)
    made.register(Usage, UsageAdmin)
    if conversations is not None:
        made.register(Conversation, conversations)
    return path(f"{name}/", made.urls)


urlpatterns = [path("admin/", admin.site.urls), site("tenant", OfMarta), site("usage-only", None)]

pytestmark = [pytest.mark.django_db, pytest.mark.urls(__name__)]


class Tables(HTMLParser):
    """The tables of a page: their rows as lists of cells."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self._is_in_cell = False
        self.feed(content(html))

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("th", "td"):
            self.tables[-1][-1].append("")
            self._is_in_cell = True

    def handle_endtag(self, tag: str) -> None:
        if tag in ("th", "td"):
            self._is_in_cell = False

    def handle_data(self, data: str) -> None:
        if self._is_in_cell:
            self.tables[-1][-1][-1] += data


def content(html: str) -> str:
    """The page without the admin's own frame."""
    return html[html.index('<div id="content-main">') : html.index("<!-- END Content -->")]


def html(client: Client, **query: Any) -> str:
    response = client.get(PAGE, query)
    assert response.status_code == 200
    return str(response.content.decode())


def table(text: str) -> list[list[str]]:
    """The table of sums, without its header."""
    return Tables(text).tables[-1][1:]


def file(client: Client, **query: Any) -> list[dict[str, str]]:
    response = client.get(PAGE, {**query, "format": "csv"})
    assert response["Content-Type"] == "text/csv; charset=utf-8"
    assert response["X-Content-Type-Options"] == "nosniff"
    return list(csv.DictReader(io.StringIO(response.content.decode("utf-8-sig"))))


def words(text: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", text)).split())


def called(days: int = 0, **fields: Any) -> Usage:
    """A call so many days ago, by default in a conversation that was erased."""
    moment = timezone.now() - timedelta(days=days)
    told = {"conversation_id": uuid7()} if "conversation" not in fields else {}
    return Usage.objects.create(**{"model": "gpt-5", "input_tokens": 10, "created_at": moment, **told, **fields})


@dataclass
class Expected:
    """Sums, as a loop adds them up."""

    rows: list[Usage]

    def count(self, name: str) -> int | None:
        known = [value for row in self.rows if (value := getattr(row, name)) is not None]
        return sum(known) if known else None

    @property
    def unpriced(self) -> int:
        return sum(row.cost is None for row in self.rows)

    def cost(self, currency: str) -> Decimal | None:
        known = [row.cost for row in self.rows if row.cost is not None and row.currency == currency]
        return sum(known, Decimal(0)) if known else None

    def cells(self, currencies: Iterable[str]) -> list[str]:
        """As the page shows them."""

        def said(value: Any, say: Callable[[Any], str] = "{:,}".format) -> str:
            return "–" if value is None else say(value)

        into, cached = self.count("input_tokens"), self.count("cache_read_tokens")
        return [
            said(len(self.rows)),
            said(into),
            percentage(min(1, cached / into)) if into and cached is not None else "–",
            said(self.count("output_tokens")),
            *(said(self.cost(currency), amount) for currency in currencies),
            said(self.unpriced),
        ]

    def record(self, currencies: Iterable[str]) -> dict[str, str]:
        """As the file has them."""
        both = [row for row in self.rows if row.estimated_tokens is not None and row.input_tokens is not None]
        compared = Expected(both)
        values = {
            "calls": len(self.rows),
            **{name: self.count(name) for name in TOKENS},
            "estimated_tokens": compared.count("estimated_tokens"),
            "compared_tokens": compared.count("input_tokens"),
            "unpriced": self.unpriced,
        }
        costs = {f"cost_{currency}": self.cost(currency) for currency in currencies}
        return {name: "" if value is None else str(value) for name, value in values.items()} | {
            name: "" if value is None else f"{value:f}" for name, value in costs.items()
        }


COUNT = st.none() | st.integers(0, 3) | st.integers(0, 2**31 - 1)
COST = st.none() | st.tuples(st.integers(0, 10**13), st.sampled_from(["USD", "EUR"]))
CALLS = st.lists(
    st.fixed_dictionaries(
        {
            "days": st.integers(0, 40),
            "owner": st.sampled_from([None, 0, 1, 2]),
            "model": st.sampled_from(["gpt-5", "claude-sonnet-4-5", ""]),
            "operation": st.sampled_from(Operation.values),
            "money": COST,
            "estimated_tokens": COUNT,
            **dict.fromkeys(TOKENS, COUNT),
        }
    ),
    max_size=12,
)


@pytest.mark.slow
@pytest.mark.parametrize("group", ["day", "owner", "model", "operation"])
@given(calls=CALLS)
@settings(
    max_examples=budget.examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_the_page_the_file_and_the_rows_have_the_same_sums(
    admin_client: Client, group: str, calls: list[dict[str, Any]]
) -> None:
    Usage.objects.all().delete()
    users = [get_user_model().objects.get_or_create(username=f"user {number}")[0] for number in range(3)]
    kept: list[Usage] = []
    for fields in calls:
        days, number, money = fields.pop("days"), fields.pop("owner"), fields.pop("money")
        if money is not None:
            fields |= {"cost": Decimal(money[0]).scaleb(-12), "currency": money[1]}
        row = called(days, owner=None if number is None else users[number], **fields)
        kept += [row] if days < 30 else []
    by_key: defaultdict[Any, list[Usage]] = defaultdict(list)
    for row in kept:
        by_key[row.owner_id if group == "owner" else getattr(row, group)].append(row)
    currencies = sorted({row.currency for row in kept} - {""})

    found = file(admin_client, group=group)
    names = {"owner": ["owner", "name"]}.get(group, [group])
    by_record = {record[names[0]]: {key: record[key] for key in record if key not in names} for record in found}
    assert by_record == {
        "" if key is None else str(key): Expected(rows).record(currencies) for key, rows in by_key.items()
    }

    text = html(admin_client, group=group)
    if not kept:
        assert "No model was called." in text
        return
    *lines, total = table(text) if len(by_key) > 1 else [*table(text), ["Total", *facts(text)]]
    width = len(currencies) + 5
    expected = sorted(Expected(rows).cells(currencies) for rows in by_key.values())
    assert sorted(line[1 : width + 1] for line in lines) == expected
    assert total[1 : width + 1] == Expected(kept).cells(currencies)
    assert facts(text)[:width] == Expected(kept).cells(currencies)


def facts(text: str) -> list[str]:
    return [unescape(each) for each in re.findall(r"<dd>(.*?)</dd>", text)]


@pytest.mark.slow
def test_others_are_one_row(admin_client: Client) -> None:
    for number in range(103):
        called(model=f"model {number:03}", input_tokens=1000 - number)
    lines = table(html(admin_client, group="model"))
    assert [line[0] for line in lines[:2] + lines[-3:]] == [
        *("model 000", "model 001"),
        "model 099",
        "3 others",
        "Total",
    ]
    assert lines[-2][1:3] == ["3", f"{900 + 899 + 898:,}"]
    assert lines[-1][1:3] == ["103", f"{sum(1000 - number for number in range(103)):,}"]
    assert len(file(admin_client, group="model")) == 103


class TestPeriods:
    @pytest.mark.slow
    def test_are_the_last_thirty_days_or_twelve_months(self, admin_client: Client) -> None:
        for days in (0, 29, 30, 200, 400):
            called(days)
        assert [line[1] for line in table(html(admin_client))] == ["1", "1", "2"]
        assert table(html(admin_client, period="30-days", group="model"))[0][1] == "2"
        assert table(html(admin_client, period="12-months", group="model"))[0][1] == "4"
        assert sum(int(record["calls"]) for record in file(admin_client, period="12-months")) == 4
        assert "month" in file(admin_client, period="12-months")[0]

    def test_of_two_days_include_both(self, admin_client: Client) -> None:
        for day in (1, 2, 3, 4):
            called(created_at=datetime(2026, 3, day, 12, tzinfo=UTC))
        query = {"since": "2026-03-02", "until": "2026-03-03", "group": "model"}
        text = html(admin_client, **query)
        assert table(text)[0][1] == "2"
        assert 'value="2026-03-02"' in text
        assert content(text).count("aria-current") == 1  # no link of a period
        assert file(admin_client, **query)[0]["calls"] == "2"

    def test_of_many_days_have_months(self, admin_client: Client) -> None:
        for month in (3, 3, 5):
            called(created_at=datetime(2026, month, 20, 12, tzinfo=UTC))
        query = {"since": "2026-03-10", "until": "2026-07-31"}
        text = html(admin_client, **query)
        assert [line[:2] for line in table(text)] == [["May 2026", "1"], ["March 2026", "2"], ["Total", "3"]]
        assert text.count("chatmemory-column") == 5
        # A month leads to its days, as far as they are in the period.
        assert "?since=2026-03-10&amp;until=2026-03-31&amp;group=model" in text
        assert "?since=2026-05-01&amp;until=2026-05-31&amp;group=model" in text

    @pytest.mark.parametrize(
        ("query", "problem"),
        [
            ({"since": "2026-03-03", "until": "2026-03-02"}, "The last day is before the first."),
            ({"since": "2016-03-03", "until": "2027-03-02"}, "A period may have at most ten years."),
            ({"since": "yesterday", "until": "2026-03-02"}, "Enter a valid date."),
            ({"since": "2026-03-02"}, "This field is required."),
            ({"since": "\x00", "until": "9" * 5000}, "Enter a valid date."),
        ],
    )
    def test_that_are_none_become_the_last_thirty_days(
        self, admin_client: Client, query: dict[str, str], problem: str
    ) -> None:
        called(1)
        text = html(admin_client, **query)
        assert problem in words(text)
        assert [line[1] for line in table(text)] == ["1"]

    @pytest.mark.parametrize("days", [("0001-01-01", "0009-12-31"), ("9990-01-01", "9999-12-31")])
    def test_may_be_long_ago_or_far_away(self, admin_client: Client, days: tuple[str, str]) -> None:
        called()
        assert "No model was called." in html(admin_client, since=days[0], until=days[1])

    @pytest.mark.parametrize("query", [{"group": "x"}, {"period": "x"}, {"group": "conversation"}, {"format": "xml"}])
    def test_and_groups_that_are_unknown_become_the_first(self, admin_client: Client, query: dict[str, str]) -> None:
        called()
        assert 'aria-current="page">By day<' in html(admin_client, **query)

    def test_begin_in_the_time_zone_of_the_project(self, admin_client: Client, settings: Any) -> None:
        settings.TIME_ZONE = "Pacific/Kiritimati"  # 14 hours ahead
        called()
        called(30)
        assert [line[1] for line in table(html(admin_client))] == ["1"]


class TestAccess:
    @pytest.mark.slow
    def test_is_that_of_the_admin_of_conversations(self) -> None:
        called(model="secret")
        expected = {(): 403, ("view_conversation",): 200, ("change_conversation",): 200, ("read_message_text",): 403}
        for codenames, status in expected.items():
            client = Client()
            client.force_login(member(codenames))
            for query in ({"group": "model"}, {"group": "model", "format": "csv"}):
                answer = client.get(PAGE, query)
                assert answer.status_code == status, codenames
                assert (b"secret" in answer.content) == (status == 200)
            assert (PAGE.encode() in client.get("/admin/").content) == (status == 200)

    def test_is_for_staff(self, client: Client) -> None:
        assert client.get(PAGE).status_code == 302
        client.force_login(UserFactory())
        assert client.get(PAGE).status_code == 302

    def test_rows_have_no_pages(self, admin_client: Client) -> None:
        row = called()
        for address in ("add/", f"{row.pk}/", f"{row.pk}/change/", f"{row.pk}/delete/", f"{row.pk}/history/"):
            assert admin_client.get(f"{PAGE}{address}").status_code == 404

    def test_nobody_changes_anything(self, admin_client: Client) -> None:
        row = called()
        admin_client.post(PAGE, {"action": "delete_selected", "_selected_action": [str(row.pk)], "post": "yes"})
        assert Usage.objects.count() == 1

    @pytest.mark.slow
    def test_an_admin_that_shows_some_conversations_adds_up_theirs(self, admin_client: Client) -> None:
        marta, eve = (ConversationFactory(owner=UserFactory(username=name)) for name in ("marta", "eve"))
        called(conversation=marta, owner=marta.owner, model="hers")
        called(conversation=eve, owner=eve.owner, model="other")
        called(model="erased", owner=marta.owner)
        for group in ("day", "model", "owner", "operation"):
            for query in ({"group": group}, {"group": group, "format": "csv"}):
                text = admin_client.get(PAGE.replace("/admin/", "/tenant/"), query).content.decode()
                assert "other" not in text.replace("others", "")
                assert "erased" not in text
                assert "eve" not in text
        text = admin_client.get(PAGE.replace("/admin/", "/tenant/"), {"group": "model"}).content.decode()
        assert [line[:2] for line in table(text)] == [["hers", "1"]]
        assert "/tenant/chatmemory" in text

    def test_and_so_does_the_setting(self, admin_client: Client, settings: Any) -> None:
        settings.CHATMEMORY = {**settings.CHATMEMORY, "STAFF_CONVERSATIONS": "tests.support.tenants.repeated"}
        ours = ConversationFactory(owner=UserFactory(username="acme-1"))
        ours.memory.add(UserMessage("x"), AiMessage("y"))
        for conversation in (ours, ConversationFactory()):
            called(conversation=conversation, input_tokens=7)
        assert [line[1:3] for line in table(html(admin_client, group="model"))] == [["1", "7"]]

    def test_without_an_admin_of_conversations_nobody_sees_any(self, admin_client: Client) -> None:
        assert admin_client.get(PAGE.replace("/admin/", "/usage-only/")).status_code == 403


class TestTexts:
    PLANTED = "<script>alert('x')</script>&amp;"

    @pytest.mark.slow
    def test_are_escaped(self, admin_client: Client) -> None:
        called(model=self.PLANTED, owner=UserFactory(username="<b>bob"))
        for group in ("model", "owner"):
            text = html(admin_client, group=group)
            assert "<script>alert" not in text
            assert "<b>bob" not in text
        assert table(html(admin_client, group="model"))[0][0] == self.PLANTED
        assert table(html(admin_client, group="owner"))[0][0] == "<b>bob"

    @pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
    def test_are_no_formulas_in_the_file(self, admin_client: Client, start: str) -> None:
        name = f"{start}cmd|' /C calc'!A0"
        called(model=name, owner=UserFactory(username="@bob"))
        assert file(admin_client, group="model")[0]["model"] == f"'{name}"
        assert file(admin_client, group="owner")[0]["name"] == "'@bob"

    def test_of_the_file_stay_whole(self, admin_client: Client) -> None:
        called(model='a,"b"\n一')
        assert file(admin_client, group="model")[0]["model"] == 'a,"b"\n一'

    def test_say_what_is_not_known(self, admin_client: Client) -> None:
        called(model="", input_tokens=None)
        assert table(html(admin_client, group="model"))[0] == ["–", "1", "–", "–", "–", "1", "–"]

    def test_name_owners_and_operations(self, admin_client: Client) -> None:
        ann = UserFactory(username="ann")
        called(owner=ann, operation="title", input_tokens=20)
        called(operation="chat")
        text = html(admin_client, group="owner")
        assert [line[0] for line in table(text)] == ["ann", "no owner", "Total"]
        assert f'href="/admin/chatmemory/conversation/?owner={ann.pk}"' in text
        assert [line[0] for line in table(html(admin_client, group="operation"))] == ["Title", "Answer", "Total"]

    def test_tell_the_error_of_estimates_by_model(self, admin_client: Client) -> None:
        for model, estimated, reported in (("a", 1105, 1000), ("a", 5000, None), ("b", 90, 100), ("c", None, 50)):
            called(model=model, estimated_tokens=estimated, input_tokens=reported)
        lines = table(html(admin_client, group="model"))
        assert [(line[0], line[-1]) for line in lines] == [
            *(("a", "+10.5%"), ("b", "−10.0%"), ("c", "–")),
            ("Total", "+8.6%"),
        ]
        assert "Estimate" not in html(admin_client, group="owner")

    def test_a_small_cost_is_not_zero(self, admin_client: Client) -> None:
        called(cost=Decimal("0.000012345"), currency="USD")
        assert "0.000012" in table(html(admin_client, group="model"))[0]
        assert file(admin_client)[0]["cost_USD"] == "0.000012345000"

    def test_are_localised_but_not_in_charts(self, admin_client: Client, settings: Any) -> None:
        settings.LANGUAGE_CODE = "de"
        settings.USE_THOUSAND_SEPARATOR = True
        called(input_tokens=1234567, cost=Decimal("1234.5"), currency="EUR")
        text = html(admin_client, since="2016-12-01", until=timezone.localdate().isoformat(), group="model")
        assert table(text)[0][1:3] == ["1", "1.234.567"]
        assert "1.234,5000" in table(text)[0]
        charts = re.findall(r"<svg.*?</svg>", content(text), re.DOTALL)
        assert len(charts) == 2
        for chart in charts:
            numbers = re.findall(r'(?:x|y|width|height|viewBox|d)="([^"]*)"', chart)
            assert len(numbers) > 400
            assert [number for number in numbers if not re.fullmatch(r"[MH\d ]+", number)] == []
        assert "1.234.567" in charts[0]


class TestCharts:
    def test_are_linear_from_zero(self, admin_client: Client) -> None:
        for days, tokens in ((2, 100), (1, 50), (0, 1)):
            called(days, input_tokens=tokens - 1, output_tokens=1)
        text = html(admin_client)
        heights = [int(found) for found in re.findall(r'y="0" width="8" height="(\d+)"', text)]
        assert heights == [0] * 27 + [100, 50, 1]

    def test_are_of_each_currency(self, admin_client: Client) -> None:
        called(cost=Decimal("0.5"), currency="USD")
        called(cost=Decimal("0.25"), currency="EUR")
        shown = words(html(admin_client))
        assert "Cost per day (EUR) peak 0.2500" in shown
        assert "Cost per day (USD) peak 0.5000" in shown
        assert ": 0.5000 USD" in shown

    def test_lead_to_the_models_of_a_day(self, admin_client: Client) -> None:
        called(model="today")
        called(1, model="yesterday")
        today = timezone.localdate().isoformat()
        link = f'<a href="?since={today}&amp;until={today}&amp;group=model" class="chatmemory-column">'
        assert link in html(admin_client)
        assert [line[0] for line in table(html(admin_client, since=today, until=today, group="model"))] == ["today"]

    def test_have_a_table_as_well(self, admin_client: Client) -> None:
        called()
        assert len(Tables(html(admin_client)).tables) == 1
        text = html(admin_client, group="model")
        [days, models] = Tables(text).tables
        assert (days[0][0], models[0][0]) == ("Day", "Model")
        assert days[1][1:6] == models[1][1:6]


def test_there_is_nothing_inline(admin_client: Client) -> None:
    """As a content security policy asks for."""
    called(cost=Decimal(1), currency="USD")
    for query in ({}, {"group": "model"}, {"since": "x", "until": "y"}):
        text = html(admin_client, **query)
        assert "<style" not in text
        assert not re.search(r"\s(style|on\w+)=", text)
        assert [tag for tag in re.findall(r"<script[^>]*>", text) if "src=" not in tag and "json" not in tag] == []


class TestStatements:
    @pytest.mark.slow
    @pytest.mark.parametrize("group", ["day", "owner", "model", "operation"])
    def test_are_as_many_for_many_rows(self, admin_client: Client, group: str) -> None:
        rng = random.Random(5)
        counts = []
        for number in (2, 150):
            users = [UserFactory() for _ in range(number // 2)]
            for _ in range(number):
                called(rng.randrange(29), owner=rng.choice(users), model=f"model {rng.randrange(99)}")
            for query in ({"group": group}, {"group": group, "format": "csv"}):
                with CaptureQueriesContext(connection) as captured:
                    admin_client.get(PAGE, query)
                of_rows = [query["sql"] for query in captured if "chatmemory_usage" in query["sql"]]
                assert len(of_rows) == (1 if group == "day" else 2)
                counts.append(len(captured))
        assert counts[:2] == counts[2:]

    @pytest.mark.slow
    @pytest.mark.skipif(connection.vendor != "sqlite", reason="another database explains in another way")
    def test_read_only_an_index(self, admin_client: Client) -> None:
        for day in range(60):
            called(day)
        for group in ("day", "owner", "model", "operation"):
            with CaptureQueriesContext(connection) as captured:
                admin_client.get(PAGE, {"group": group})
            for sql in [query["sql"] for query in captured if "chatmemory_usage" in query["sql"]]:
                with connection.cursor() as cursor:
                    cursor.execute(f"EXPLAIN QUERY PLAN {sql}")
                    plan = str(cursor.fetchall())
                assert "USING COVERING INDEX chatmemory_usage_sums (day>? AND day<?)" in plan
