"""The times that the dashboard looks back over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta, tzinfo
from typing import TYPE_CHECKING, Any

from django.db.models import DateField
from django.db.models.functions import TruncDate, TruncMonth
from django.utils.formats import date_format
from django.utils.translation import gettext_lazy as _

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

__all__ = ["DAYS", "MONTHS", "PERIODS", "Period"]


@dataclass(frozen=True, kw_only=True)
class Period:
    """A time until today, cut into days or months."""

    name: str
    """Its name in an address."""

    label: StrOrPromise

    messages_label: StrOrPromise
    """The title of the chart of messages; the next is that of tokens."""

    tokens_label: StrOrPromise

    steps: int
    """How many days or months it has."""

    is_in_months: bool

    @classmethod
    def asked_for(cls, query: Mapping[str, Any]) -> Period:
        """Return the period that an address names; the last 30 days unless it names another."""
        return next((period for period in PERIODS if period.name == query.get("period")), DAYS)

    def starts(self, today: date) -> list[date]:
        """Return the first day of each step, the oldest first, and at the end the day after the last step."""
        if not self.is_in_months:
            return [today + timedelta(days=offset) for offset in range(1 - self.steps, 2)]
        last = today.year * 12 + today.month - 1
        return [date(month // 12, month % 12 + 1, 1) for month in range(last - self.steps + 1, last + 2)]

    def step_of(self, column: str, zone: tzinfo | None) -> TruncDate | TruncMonth:
        """Return the expression for the first day of the step in which the moment in ``column`` is."""
        if self.is_in_months:
            return TruncMonth(column, tzinfo=zone, output_field=DateField())
        return TruncDate(column, tzinfo=zone)

    def name_of(self, start: date) -> str:
        """Return a step's name, as short as it may be in this period."""
        return date_format(start, "YEAR_MONTH_FORMAT" if self.is_in_months else "MONTH_DAY_FORMAT")

    def full_name_of(self, start: date) -> str:
        """Return a step's name, with its year."""
        return date_format(start, "YEAR_MONTH_FORMAT" if self.is_in_months else "DATE_FORMAT")


DAYS = Period(
    name="30-days",
    label=_("The last 30 days"),
    messages_label=_("Messages said per day"),
    tokens_label=_("Tokens per day"),
    steps=30,
    is_in_months=False,
)
MONTHS = Period(
    name="12-months",
    label=_("The last 12 months"),
    messages_label=_("Messages said per month"),
    tokens_label=_("Tokens per month"),
    steps=12,
    is_in_months=True,
)
PERIODS = (DAYS, MONTHS)
