"""What the calls of models used and cost."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from chatmemory.models import Conversation
from chatmemory.models.fields import ExactCharField, uuid7

LONGEST_NAME = 255
"""The maximum number of characters of a model's name, and of a response's ID."""

LONGEST_PROVIDER = 100
"""The maximum number of characters of a provider's name."""

LONGEST_TIER = 50
"""The maximum number of characters of a tier's name."""


class Operation(models.TextChoices):
    CHAT = "chat", _("Answer")
    SUMMARY = "summary", _("Summary")
    TITLE = "title", _("Title")
    TOOL = "tool", _("Tool")


class Status(models.TextChoices):
    OK = "ok", _("Complete")
    FAILED = "failed", _("Failed")
    INTERRUPTED = "interrupted", _("Interrupted")


class CostField(models.BigIntegerField):  # type: ignore[type-arg]
    """An amount of money, a ``Decimal`` in Python, stored as a whole number of 10⁻¹².

    So every database adds amounts exactly, also SQLite, whose decimals are floats. The largest amount is 9 million.
    """

    PLACES = 12

    def from_db_value(self, value: Any, *args: Any) -> Decimal | None:
        return None if value is None else Decimal(int(value)).scaleb(-self.PLACES)

    def to_python(self, value: Any) -> Decimal | None:
        return None if value is None else Decimal(value)

    def get_prep_value(self, value: Any) -> int | None:
        return None if value is None else int(Decimal(value).scaleb(self.PLACES).to_integral_value())


class DayField(models.DateField):  # type: ignore[type-arg]
    """The day of ``created_at`` in the time zone of the project, by which an index can group."""

    def pre_save(self, model_instance: Any, add: bool) -> date:
        day = day_of(model_instance.created_at)
        setattr(model_instance, self.attname, day)
        return day


def day_of(moment: datetime) -> date:
    """Return the day of a moment in the time zone of the project."""
    return timezone.localdate(moment, timezone.get_default_timezone()) if settings.USE_TZ else moment.date()


def keep(collector: Any, field: Any, rows: Any, using: str) -> None:
    """Let the rows of an erased conversation stay with its key, without IDs that lead to text at the provider."""
    collector.add_field_update(rows.model._meta.get_field("response_id"), "", rows)


keep.lazy_sub_objs = True  # type: ignore[attr-defined]  # Django then does not read the rows before it calls


class Usage(models.Model):
    """One call of a model: its tokens, its seconds and its cost. A row has no text, and is never changed.

    The row stays when its conversation or its message is erased, with the key of the conversation. There are no foreign
    keys in the database, so writing a row never waits for the lock of its conversation. A count is null if the model's
    server did not report it, and the cost if a price is unknown.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    conversation = models.ForeignKey(
        Conversation,
        on_delete=keep,
        null=True,  # never; but joins then keep the rows of conversations that were erased
        related_name="usage",
        db_index=False,
        db_constraint=False,
        help_text="Its key stays after it was erased.",
    )
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        null=True,
        related_name="+",
        db_index=False,
        db_constraint=False,
        help_text="The owner of the conversation at the time of the call.",
    )
    position = models.PositiveIntegerField(
        null=True, help_text="The position of the answer, null if the call has no stored answer."
    )
    model = ExactCharField(max_length=LONGEST_NAME, help_text="The name of the model, empty if it is not known.")
    provider = models.CharField(max_length=LONGEST_PROVIDER, default="", help_text="Empty if it is not known.")
    operation = models.CharField(max_length=10, choices=Operation, default=Operation.CHAT)
    status = models.CharField(max_length=12, choices=Status, default=Status.OK)
    input_tokens = models.PositiveIntegerField(
        null=True,
        help_text="All tokens of the request, including those that were read from a cache or written to it.",
    )
    output_tokens = models.PositiveIntegerField(
        null=True, help_text="All tokens of the answer, including those of its reasoning."
    )
    cache_read_tokens = models.PositiveIntegerField(
        null=True, help_text="The tokens of the request that were read from a cache."
    )
    cache_write_tokens = models.PositiveIntegerField(
        null=True, help_text="The tokens of the request that were written to a cache."
    )
    reasoning_tokens = models.PositiveIntegerField(null=True, help_text="The tokens of the answer that were reasoning.")
    estimated_tokens = models.PositiveIntegerField(
        null=True, help_text="The estimate of input_tokens before the call, null if there is none."
    )
    tier = models.CharField(max_length=LONGEST_TIER, default="", help_text="The service tier that was reported.")
    details = models.JSONField(default=dict, help_text="Further numbers by name.")
    response_id = models.CharField(max_length=LONGEST_NAME, default="", help_text="The provider's ID of the response.")
    first_delta_seconds = models.FloatField(
        null=True, help_text="From the request to the first delta, null if the answer was not streamed."
    )
    seconds = models.FloatField(null=True, help_text="From the request to the end of the answer.")
    cost = CostField(null=True, help_text="Null if a price is not known.")
    currency = models.CharField(max_length=3, default="", help_text="The ISO code, empty if the cost is not known.")
    day = DayField(editable=False, help_text="The day of created_at in the time zone of the project.")
    created_at = models.DateTimeField(default=timezone.now, help_text="The end of the call.")

    if TYPE_CHECKING:
        conversation_id: Any
        owner_id: Any

    class Meta:
        app_label = "chatmemory_usage"
        verbose_name = _("call of a model")
        verbose_name_plural = _("calls of models")
        default_permissions = ()
        indexes = [
            models.Index(fields=["conversation", "position"], name="chatmemory_usage_message"),
            models.Index(fields=["owner", "day"], name="chatmemory_usage_owner"),
            # It has all columns of the sums over days, which then read no rows.
            models.Index(
                fields=[
                    "day",
                    "model",
                    "operation",
                    "owner",
                    "currency",
                    "input_tokens",
                    "output_tokens",
                    "cache_read_tokens",
                    "cache_write_tokens",
                    "reasoning_tokens",
                    "cost",
                    "estimated_tokens",
                ],
                name="chatmemory_usage_sums",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.model} {self.operation} {self.created_at:%Y-%m-%d %H:%M}"


def rows_of(conversation: Conversation, database: str | None = None) -> models.QuerySet[Usage]:
    """Return the rows of a conversation, by default in the database from which it was read."""
    return Usage.objects.using(database or conversation._state.db).filter(conversation=conversation)
