"""What calls used in the admin: below their answers, on a page of sums, and on a page about each conversation.

Django imports this module when a process starts.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django import forms
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.formats import number_format
from django.utils.html import format_html, format_html_join
from django.utils.text import format_lazy
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from chatmemory.admin.display.dashboard import DAYS, MONTHS, PERIODS, Chart, Period
from chatmemory.admin.display.memory_map import count_tokens, grouped, percentage
from chatmemory.admin.display.message import ShownMessage, shown
from chatmemory.admin.display.passages import read_bounded
from chatmemory.admin.lists import NO_OWNER, ReadOnlyAdmin, are_limited, conversation_admin, is_visible
from chatmemory.admin.views.staff_pages import conversation_or_404, conversation_page, record_read
from chatmemory.contrib.usage.models import Operation, Status, Usage, day_of, rows_of
from chatmemory.contrib.usage.sums import Sums, cached_share, sums
from chatmemory.core.usage import TOKENS
from chatmemory.database.reading import chunks
from chatmemory.models import Conversation

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

    from chatmemory.contrib.usage.dearest import SentMessage


def notes(rows: Iterable[Usage]) -> dict[int, str]:
    """Return the HTML about calls by the position of their answer, the first call first."""
    found: defaultdict[int, list[str]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row.created_at, row.pk)):
        if row.position is not None:
            found[row.position].append(_note(row))
    return {position: format_html_join("", "{}", ((each,) for each in given)) for position, given in found.items()}


def _note(row: Usage) -> str:
    """Return the HTML about a call: its model, and what is known of its seconds, its tokens and its cost."""
    figures: list[str] = []
    if row.status != Status.OK:
        figures.append(format_html("<strong>{}</strong>", row.get_status_display()))
    if row.operation != Operation.CHAT:
        figures.append(row.get_operation_display())
    figures.append(format_html("<bdi>{}</bdi>", row.model))
    if row.seconds is not None:
        figures.append(gettext("%(seconds)s s") % {"seconds": number_format(row.seconds, 1)})
    if row.input_tokens and row.cache_read_tokens is not None:
        counts = {
            "count": grouped(row.input_tokens),
            "percent": percentage(cached_share(row.cache_read_tokens, row.input_tokens)),
        }
        figures.append(gettext("%(count)s tokens in (%(percent)s cached)") % counts)
    elif row.input_tokens is not None:
        figures.append(gettext("%(count)s tokens in") % {"count": grouped(row.input_tokens)})
    if row.output_tokens is not None:
        figures.append(gettext("%(count)s out") % {"count": grouped(row.output_tokens)})
    if row.cost is not None:
        figures.append(money(row.cost, row.currency))
    return format_html("<p>{}</p>", format_html_join(" · ", "{}", ((figure,) for figure in figures)))


def amount(cost: Decimal) -> str:
    """Return an amount of money with four decimals, or with as many as a smaller one needs not to become 0."""
    places = 4 if not cost or abs(cost) >= Decimal("0.001") else 1 - cost.adjusted()
    return number_format(round(cost, places), places, use_l10n=True, force_grouping=True)


def money(cost: Decimal, currency: str) -> str:
    """Return an amount of money with its currency."""
    return f"{amount(cost)} {currency}"


_UNKNOWN = "–"

_MOST_SHOWN = 100

_GROUPS = {
    "day": _("By day"),
    "owner": _("By user"),
    "model": _("By model"),
    "operation": _("By operation"),
}

_HEADINGS = {
    "day": _("Day"),
    "month": _("Month"),
    "owner": _("User"),
    "model": _("Model"),
    "operation": _("Operation"),
}


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of figures."""

    label: StrOrPromise
    figure: Callable[[Sums], str]


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of figures."""

    name: str
    address: str
    """Where more is known of it; empty if nowhere."""
    figures: list[str]


@dataclass(frozen=True, kw_only=True)
class Table:
    """The sums of calls, as a page shows them."""

    heading: StrOrPromise
    """The heading of the column with the names."""

    columns: list[Column]
    rows: list[Row]

    total: list[str]
    """The figures of all calls."""

    @property
    def facts(self) -> list[tuple[StrOrPromise, str]]:
        """The figures of all calls, each with its label."""
        return [(column.label, figure) for column, figure in zip(self.columns, self.total, strict=True)]

    @classmethod
    def of(
        cls,
        found: Sequence[Sums],
        group: str,
        name: Callable[[Any], str],
        address: Callable[[Any], str] = lambda key: "",
    ) -> Table:
        """Return the table of sums.

        Args:
            found: the sums of each row. Those after the first hundred become one row.
            group: what the rows have in common: a key of ``_HEADINGS``.
            name: returns the name of a row with this key.
            address: returns its address.
        """
        whole = sum(found, Sums())
        columns = _columns(whole, group)
        rows = [
            Row(name=name(one.key), address=address(one.key), figures=_figures(columns, one))
            for one in found[:_MOST_SHOWN]
        ]
        if others := found[_MOST_SHOWN:]:
            said = ngettext("%(count)s other", "%(count)s others", len(others)) % {"count": grouped(len(others))}
            rows.append(Row(name=said, address="", figures=_figures(columns, sum(others, Sums()))))
        return cls(heading=_HEADINGS[group], columns=columns, rows=rows, total=_figures(columns, whole))


def _columns(whole: Sums, group: str) -> list[Column]:
    """Return the columns of a table with these sums of all calls."""

    def count(name: str) -> Callable[[Sums], str]:
        return lambda one: _UNKNOWN if getattr(one, name) is None else grouped(getattr(one, name))

    def cost(currency: str) -> Callable[[Sums], str]:
        return lambda one: _UNKNOWN if (found := one.costs.get(currency)) is None else amount(found)

    return [
        Column(label=_("Calls"), figure=count("calls")),
        Column(label=_("Tokens in"), figure=count("input_tokens")),
        Column(label=_("Cached"), figure=_cached),
        Column(label=_("Tokens out"), figure=count("output_tokens")),
        *(
            Column(label=format_lazy(_("Cost ({currency})"), currency=currency), figure=cost(currency))
            for currency in sorted(whole.costs)
        ),
        Column(label=_("Without a price"), figure=count("unpriced")),
        *([Column(label=_("Estimate"), figure=_error)] if group == "model" else []),
    ]


def _figures(columns: list[Column], one: Sums) -> list[str]:
    return [column.figure(one) for column in columns]


def _cached(one: Sums) -> str:
    share = None if one.cache_read_tokens is None else one.cached_share
    return _UNKNOWN if share is None else percentage(share)


def _error(one: Sums) -> str:
    """Return how much larger the estimates are than the input, in percent."""
    error = one.estimate_error
    if error is None:
        return _UNKNOWN
    tenths = round(1000 * error)
    sign = "+" if tenths > 0 else "−" if tenths < 0 else ""
    return sign + gettext("%(percent)s%%") % {"percent": number_format(abs(tenths) / 10, 1, use_l10n=True)}


_LONGEST_YEARS = 10
_MOST_DAYS = 92


class PeriodForm(forms.Form):
    """The first and the last day of a period."""

    since = forms.DateField(label=_("From"), input_formats=["%Y-%m-%d"])
    until = forms.DateField(label=_("to"), input_formats=["%Y-%m-%d"])

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or {}
        first, last = given.get("since"), given.get("until")
        if first and last and first > last:
            self.add_error("until", _("The last day is before the first."))
        elif first and last and last.year - first.year > _LONGEST_YEARS:
            self.add_error("until", _("A period may have at most ten years."))
        return given


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the address of the page asks for."""

    group: str
    first: date
    last: date
    period: Period | None
    """The period that its link names; None for a period of two days."""

    problems: list[str]

    @classmethod
    def of(cls, query: QueryDict) -> Asked:
        """Return what an address asks for; by default the last 30 days, by day."""
        group = query.get("group", "")
        group = group if group in _GROUPS else "day"
        problems: list[str] = []
        if "since" in query or "until" in query:
            form = PeriodForm(query)
            if form.is_valid():
                given = form.cleaned_data
                return cls(group=group, first=given["since"], last=given["until"], period=None, problems=[])
            problems = [str(problem) for field in form for problem in field.errors]
        period = Period.asked_for(query)
        today = day_of(timezone.now())
        return cls(group=group, first=period.starts(today)[0], last=today, period=period, problems=problems)

    @property
    def is_in_months(self) -> bool:
        """Whether the page has months instead of days."""
        return (self.last - self.first).days >= _MOST_DAYS

    @property
    def step(self) -> str:
        """What the page has for a step: ``"day"`` or ``"month"``."""
        return "month" if self.is_in_months else "day"

    @property
    def steps(self) -> list[date]:
        """The first day of each day or month, the oldest first."""
        if not self.is_in_months:
            return [self.first + timedelta(days=offset) for offset in range((self.last - self.first).days + 1)]
        months = range(self.first.year * 12 + self.first.month - 1, self.last.year * 12 + self.last.month)
        return [date(month // 12, month % 12 + 1, 1) for month in months]

    def step_of(self, day: date) -> date:
        """Return the first day of the day or month of ``day``."""
        return day.replace(day=1) if self.is_in_months else day

    def address(self, **changed: Any) -> str:
        """Return the query of the page with something else."""
        if self.period is None:
            query = {"since": self.first.isoformat(), "until": self.last.isoformat()}
        else:
            query = {"period": self.period.name}
        return "?" + urlencode({**query, "group": self.group, **changed})

    def address_of(self, step: date) -> str:
        """Return the query of the page about one day or month, by model."""
        last = (step.replace(day=28) + timedelta(days=4)).replace(day=1) - timedelta(days=1)
        days = (max(step, self.first), min(last, self.last)) if self.is_in_months else (step, step)
        since, until = (day.isoformat() for day in days)
        return "?" + urlencode({"since": since, "until": until, "group": "model"})


_STYLES: dict[str, Sequence[str]] = {"all": ["chatmemory_usage/admin.css"]}


@admin.register(Usage)
class UsageAdmin(ReadOnlyAdmin):
    """A page of sums, for staff who may see conversations. It has no page about a single row."""

    class Media:
        css = _STYLES

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.changelist_view)
        return [path("", view, name="chatmemory_usage_usage_changelist")]

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        conversations = conversation_admin(self.admin_site)
        if conversations is None or not conversations.has_view_permission(request):
            return False
        return is_visible(self.admin_site, request, obj)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Usage]:
        """Return the calls of the conversations that this site shows; if these are all, also of those erased since."""
        conversations = conversation_admin(self.admin_site)
        if conversations is None:
            return Usage.objects.none()
        visible = conversations.get_queryset(request)
        rows = Usage.objects.using(visible.db)
        return rows.filter(conversation__in=visible) if are_limited(visible) else rows.all()

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Return the page; with ``?format=csv`` its sums as a file."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        asked = Asked.of(request.GET)
        rows = self.get_queryset(request).filter(day__range=(asked.first, asked.last))
        steps = _by_step(sums(rows, "day"), asked)
        is_by_step = asked.group == "day"
        found = steps if is_by_step else sums(rows, asked.group)
        is_file = request.GET.get("format") == "csv"
        names = _owner_names(found if is_file else found[:_MOST_SHOWN], rows.db) if asked.group == "owner" else {}
        if is_file:
            return _file(found, asked, names)
        of_steps = Table.of(steps, asked.step, _period_of(asked).full_name_of, asked.address_of)
        table = of_steps
        if not is_by_step:
            owners = {"name": _owner_name(names), "address": self._owner_address} if asked.group == "owner" else {}
            table = Table.of(found, asked.group, **{"name": _NAMES.get(asked.group, str), **owners})
        request.current_app = self.admin_site.name
        context = {
            **self.admin_site.each_context(request),
            "title": gettext("Usage"),
            "opts": self.opts,
            "cl": {"opts": self.opts},
            "actions_on_top": True,
            "media": self.media,
            "asked": asked,
            "since": asked.first.isoformat(),
            "until": asked.last.isoformat(),
            "periods": [
                (period.label, "?" + urlencode({"period": period.name, "group": asked.group}), period == asked.period)
                for period in PERIODS
            ],
            "groups": [(label, asked.address(group=group), group == asked.group) for group, label in _GROUPS.items()],
            "file": asked.address(format="csv"),
            "table": table,
            "of_steps": None if is_by_step else of_steps,
            "charts": _charts(steps, asked),
            "first": _period_of(asked).name_of(asked.steps[0]),
            "last": _period_of(asked).name_of(asked.steps[-1]),
            **(extra_context or {}),
        }
        return TemplateResponse(request, "admin/chatmemory_usage/usage.html", context)

    def _owner_address(self, key: Any) -> str:
        """Return the address of the conversations of an owner."""
        address = reverse("admin:chatmemory_conversation_changelist", current_app=self.admin_site.name)
        return f"{address}?{urlencode({'owner': NO_OWNER if key is None else key})}"


def _period_of(asked: Asked) -> Period:
    """Return the period whose days or months have names like those of the page."""
    return MONTHS if asked.is_in_months else DAYS


def _by_step(days: Iterable[Sums], asked: Asked) -> list[Sums]:
    """Return the sums of each day or month that has calls, the latest first."""
    found: dict[date, Sums] = {}
    for one in days:
        step = asked.step_of(one.key)
        found[step] = replace(found.get(step, Sums()) + one, key=step)
    return list(found.values())


def _owner_names(found: Sequence[Sums], database: str) -> dict[Any, str]:
    """Return the names of users by their primary key."""
    users: Any = get_user_model()._default_manager.using(database)
    keys = [one.key for one in found if one.key is not None]
    return {user.pk: str(user) for some in chunks(keys) for user in users.filter(pk__in=some)}


def _owner_name(names: Mapping[Any, str]) -> Callable[[Any], str]:
    return lambda key: gettext("no owner") if key is None else names.get(key, str(key))


def _operation_name(key: str) -> str:
    return str(Operation(key).label) if key in Operation.values else key


_NAMES: Mapping[str, Callable[[Any], str]] = {"operation": _operation_name}


def _charts(steps: Iterable[Sums], asked: Asked) -> list[Chart]:
    """Return the charts of tokens, and of the cost in each currency."""
    known = {one.key: one for one in steps}
    name_of = _period_of(asked).name_of

    def chart(
        label: StrOrPromise, number: Callable[[Sums], Any], say: Callable[[Any], str], scale: Callable[[Any], str]
    ) -> Chart:
        bars = []
        for start in asked.steps:
            count = number(known.get(start, Sums()))
            address = asked.address_of(start) if start in known else ""
            bars.append((count, f"{name_of(start)}: {say(count)}", address))
        return Chart.of(label, bars, say=scale)

    def cost(currency: str) -> Chart:
        label = _("Cost per month ({currency})") if asked.is_in_months else _("Cost per day ({currency})")
        number = lambda one: one.costs.get(currency, Decimal(0))  # noqa: E731
        return chart(format_lazy(label, currency=currency), number, partial(money, currency=currency), amount)

    def tokens(one: Sums) -> int:
        return (one.input_tokens or 0) + (one.output_tokens or 0)

    currencies = sorted({currency for one in known.values() for currency in one.costs})
    return [chart(_period_of(asked).tokens_label, tokens, count_tokens, grouped), *map(cost, currencies)]


_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""The beginnings of a text that a spreadsheet takes for a formula."""


def _safe(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA) else text


def _file(found: Sequence[Sums], asked: Asked, names: Mapping[Any, str]) -> HttpResponse:
    """Return the sums as CSV. Costs are exact, and empty if none is known."""
    name = f"usage-by-{asked.group}-{asked.first}-{asked.last}.csv"
    response = HttpResponse(
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"},
    )
    response.write("\ufeff")  # or spreadsheets would take the text for another encoding
    counts = ("calls", *TOKENS, "estimated_tokens", "compared_tokens", "unpriced")
    currencies = sorted({currency for one in found for currency in one.costs})
    keys = ["owner", "name"] if asked.group == "owner" else [asked.step if asked.group == "day" else asked.group]
    writer = csv.writer(response)
    writer.writerow([*keys, *counts, *(f"cost_{currency}" for currency in currencies)])
    for one in found:
        key = "" if one.key is None else _safe(str(one.key))
        costs = [f"{one.costs[currency]:f}" if currency in one.costs else "" for currency in currencies]
        who = [_safe(names.get(one.key, ""))] if asked.group == "owner" else []
        writer.writerow([key, *who, *(getattr(one, count) for count in counts), *costs])
    return response


def usage_page(model_admin: Any, request: HttpRequest, object_id: str) -> HttpResponse:
    """Return the page about what the calls of a conversation used, and the messages that cost most."""
    from chatmemory.contrib.usage.dearest import dearest
    from chatmemory.replaying import MOST_AT_ONCE

    conversation = conversation_or_404(model_admin, request, object_id)
    with_text = model_admin.has_read_text_permission(request, conversation)
    rows = rows_of(conversation)
    is_too_long = conversation.next_position > MOST_AT_ONCE
    found = [] if is_too_long else _shown(conversation, dearest(conversation), with_text=with_text)
    if found and with_text:
        record_read(request, conversation)
    tables = [Table.of(sums(rows, group), group, _NAMES.get(group, str)) for group in ("model", "operation")]
    return conversation_page(
        model_admin,
        request,
        conversation,
        "usage",
        gettext("Usage"),
        media=model_admin.media + forms.Media(css=_STYLES),
        tables=tables,
        has_calls=bool(tables[0].rows),
        dearest=found,
        is_too_long=is_too_long,
        most=MOST_AT_ONCE,
    )


def _shown(
    conversation: Conversation, found: list[SentMessage], *, with_text: bool
) -> list[tuple[ShownMessage, SentMessage]]:
    rows = conversation.messages.filter(position__in=[one.position for one in found]).order_by("position")
    messages = {row.position: shown(row, with_text=with_text) for row in read_bounded(rows, with_text=with_text)}
    return [(messages[one.position], one) for one in found if one.position in messages]
