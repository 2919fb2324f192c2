"""The app's page in the admin."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.db import connection
from django.template.defaultfilters import date
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chatmemory import UserMessage
from chatmemory.admin.display.dashboard import MONTHS, Chart, Dashboard
from chatmemory.models import Conversation, Message
from tests.support.factories import ConversationFactory, UserFactory

pytestmark = pytest.mark.django_db

PAGE = "/admin/chatmemory/"


def words(text: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", text)).split())


def test_days_count_what_was_said_in_them() -> None:
    conversation = ConversationFactory(window="messages", limit=2)
    conversation.memory.add(*(UserMessage("hello") for _ in range(5)))
    conversation.memory.set([UserMessage("a summary")])
    now = timezone.now()
    Message.objects.filter(position__lt=2).update(created_at=now - timedelta(days=3))
    Message.objects.filter(position=2).update(created_at=now - timedelta(days=40))
    days = {day.start: (day.messages, day.tokens) for day in Dashboard.read(Conversation.objects.all()).steps}
    today = now.astimezone(UTC).date()
    assert len(days) == 30
    assert (days[today], days[today - timedelta(days=3)], days[today - timedelta(days=1)]) == ((2, 10), (2, 10), (0, 0))


def test_a_conversation_that_was_not_active_is_not_looked_at() -> None:
    conversation = ConversationFactory()
    conversation.memory.add(UserMessage("x"))
    Conversation.objects.update(updated_at=datetime(2020, 1, 1, tzinfo=UTC))
    dashboard = Dashboard.read(Conversation.objects.all())
    assert sum(day.messages for day in dashboard.steps) == 0
    assert dashboard.fullest == []


def test_it_is_on_the_page_of_the_app(admin_client: Client) -> None:
    full = ConversationFactory(title="Full <b>one</b>", window="messages", limit=2)
    full.memory.add(*(UserMessage("hello") for _ in range(5)))
    ConversationFactory(title="Half", window="tokens", limit=10).memory.add(UserMessage("x"))
    page = admin_client.get(PAGE).content.decode()
    shown = words(page)
    assert "no room in the window 3" in shown
    assert shown.index("Full <b>one</b>") < shown.index("Half")
    assert "2 of 2 messages" in shown
    assert "Full <b>" not in page
    assert page.count("<rect") >= 60
    assert len(re.findall(r'<th scope="row">[A-Z][a-z]', page)) >= 30


@pytest.mark.slow
def test_charts_say_how_high_and_how_long_they_are(admin_client: Client) -> None:
    ConversationFactory().memory.add(*(UserMessage("hello") for _ in range(1200)))
    shown = words(admin_client.get(PAGE).content.decode())
    days = Dashboard.read(Conversation.objects.all()).steps
    assert "Messages said per day peak 1,200 1,200 0" in shown
    assert "Tokens per day peak 6,000 6,000 0" in shown
    first, last = (date(day.start, "MONTH_DAY_FORMAT") for day in (days[0], days[-1]))
    assert shown.count(f"{first} {last}") == 2


def test_a_bar_is_as_high_as_its_number() -> None:
    """Half the number is half as high; a single message beside many can still be seen."""
    chart = Chart.of("x", [(10_000, "", ""), (5_000, "", ""), (2_500, "", ""), (1, "", ""), (0, "", "")])
    assert [bar.height for bar in chart.bars] == [100, 50, 25, 1, 0]


def test_it_looks_back_over_twelve_months(admin_client: Client) -> None:
    conversation = ConversationFactory(window="messages", limit=1)
    conversation.memory.add(*(UserMessage("hello") for _ in range(4)))
    long_ago = timezone.now() - timedelta(days=200)
    Message.objects.filter(position__lt=2).update(created_at=long_ago, evicted_at=long_ago)
    months = {step.start: step.messages for step in Dashboard.read(Conversation.objects.all(), MONTHS).steps}
    assert len(months) == 12
    assert months[timezone.localdate(long_ago).replace(day=1)] == 2
    assert months[timezone.localdate().replace(day=1)] == 2
    shown = words(admin_client.get(PAGE, {"period": "12-months"}).content.decode())
    assert "Messages said per month peak 2" in shown
    assert "Month (UTC)" in shown
    assert date(long_ago, "YEAR_MONTH_FORMAT") in shown
    assert "no room in the window 3" in shown


def test_months_follow_each_other_over_the_end_of_a_year() -> None:
    starts = MONTHS.starts(datetime(2026, 2, 28, tzinfo=UTC).date())
    assert [f"{start:%y-%m-%d}" for start in starts[:2] + starts[-3:]] == [
        "25-03-01",
        "25-04-01",
        "26-01-01",
        "26-02-01",
        "26-03-01",
    ]


@pytest.mark.parametrize("period", ["", "1-day", "30-days"])
def test_other_periods_are_the_last_thirty_days(admin_client: Client, period: str) -> None:
    page = admin_client.get(PAGE, {"period": period}).content.decode()
    assert '<a href="?period=30-days" aria-current="page">' in page
    assert "Messages said per day" in words(page)


@pytest.mark.slow
def test_reasons_and_bars_lead_to_their_messages(admin_client: Client) -> None:
    conversation = ConversationFactory(window="messages", limit=2)
    conversation.memory.add(*(UserMessage("hello") for _ in range(5)))
    conversation.memory.set([UserMessage("a summary")])
    Message.objects.filter(position=4).update(created_at=timezone.now() - timedelta(days=3))
    page = unescape(admin_client.get(PAGE).content.decode())

    def listed(pattern: str) -> int:
        (address,) = set(re.findall(pattern, page))
        return int(admin_client.get(address).context["cl"].result_count)

    assert listed(r'<a href="([^"]+)">no room in the window') == 3
    # Two charts lead to the same list; what nobody said is not in it.
    today, before = (date(timezone.now() - timedelta(days=days), "MONTH_DAY_FORMAT") for days in (0, 3))
    assert listed(rf'<a href="([^"]+)" class="chatmemory-column"><title>{today}:') == 4
    assert listed(rf'<a href="([^"]+)" class="chatmemory-column"><title>{before}:') == 1
    assert page.count("chatmemory-column") == 60
    assert page.count('<a href="/admin/chatmemory/message/?created_at__gte') == 4


def test_no_link_leads_where_the_reader_may_not_go(client: Client) -> None:
    ConversationFactory(window="messages", limit=1).memory.add(UserMessage("x"), UserMessage("y"))
    user = UserFactory(is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_conversation"))
    client.force_login(user)
    page = client.get(PAGE).content.decode()
    assert "no room in the window 1" in words(page)
    assert "/admin/chatmemory/message/" not in page


def test_an_empty_site_has_one_too(admin_client: Client) -> None:
    shown = words(admin_client.get(PAGE).content.decode())
    assert "No conversation was active." in shown
    assert "No message was evicted." in shown


def test_it_is_for_those_who_may_see_conversations(client: Client) -> None:
    ConversationFactory(title="Secret").memory.add(UserMessage("x"))
    user = UserFactory(is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_message"))
    client.force_login(user)
    page = client.get(PAGE)
    assert page.status_code == 200
    assert "Secret" not in page.content.decode()
    user.user_permissions.add(Permission.objects.get(codename="view_conversation"))
    assert "Secret" in client.get(PAGE).content.decode()


def test_its_queries_do_not_grow(admin_client: Client) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            admin_client.get(PAGE)
        return len(captured)

    ConversationFactory().memory.add(UserMessage("x"))
    before = queries()
    for conversation in ConversationFactory.create_batch(5, window="messages", limit=1):
        conversation.memory.add(UserMessage("x"), UserMessage("y"))
    assert queries() == before


def test_evictions_are_those_of_the_last_days_only() -> None:
    conversation = ConversationFactory(window="messages", limit=1)
    conversation.memory.add(*(UserMessage("hello") for _ in range(4)))
    long_ago = timezone.now() - timedelta(days=40)
    Message.objects.filter(position=0).update(created_at=long_ago, evicted_at=long_ago)
    assert sum(reason.messages for reason in Dashboard.read(Conversation.objects.all()).reasons) == 2


def test_the_fullest_are_so_by_what_their_windows_count() -> None:
    by_tokens = ConversationFactory(window="tokens", limit=100)
    by_messages = ConversationFactory(window="messages", limit=100)
    active = Conversation.objects.all()
    active.filter(pk=by_tokens.pk).update(retained_count=1, retained_tokens=90, next_position=1)
    active.filter(pk=by_messages.pk).update(retained_count=50, retained_tokens=9000, next_position=50)
    assert [row for row, _ in Dashboard.read(active).fullest] == [by_tokens, by_messages]


def test_counts_only_the_conversations_it_is_given() -> None:
    for conversation in ConversationFactory.create_batch(2, window="messages", limit=1):
        conversation.memory.add(UserMessage("x"), UserMessage("y"))
    dashboard = Dashboard.read(Conversation.objects.filter(pk=conversation.pk))
    assert sum(day.messages for day in dashboard.steps) == 2
    assert sum(reason.messages for reason in dashboard.reasons) == 1
    assert [row for row, _ in dashboard.fullest] == [conversation]


def test_days_are_those_of_utc(admin_client: Client) -> None:
    assert "Day (UTC)" in words(admin_client.get(PAGE).content.decode())


def test_without_time_zones_days_are_the_servers(
    admin_client: Client, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At five in the morning in Tokyo it is still yesterday in UTC."""
    settings.USE_TZ = False
    settings.TIME_ZONE = "Asia/Tokyo"
    now = datetime(2026, 11, 21, 5, 0)  # noqa: DTZ001  as without time zones
    ConversationFactory().memory.add(UserMessage("x"))
    Message.objects.update(created_at=now)
    Conversation.objects.update(updated_at=now)
    monkeypatch.setattr(timezone, "now", lambda: now)
    last = Dashboard.read(Conversation.objects.all()).steps[-1]
    assert (last.start, last.messages) == (now.date(), 1)
    assert "Day (UTC)" not in words(admin_client.get(PAGE).content.decode())
