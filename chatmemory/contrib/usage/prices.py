"""What a call costs. The prices are those of the project, or of the package ``genai-prices`` (extra ``prices``).

A cost is unknown, and never 0, if one of its prices or counts is.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple

from chatmemory.conf import prices_of
from chatmemory.core.usage import Usage

CURRENCY = "USD"
"""The currency of the package, and of the project's prices unless they name another."""

_MILLION = 1_000_000

_STANDARD = ("", "standard", "default", "auto", "on_demand")
"""The names of providers for the tier of the list price."""

_PRICED_DETAILS = (
    "cache_write_1h_tokens",
    "input_audio_tokens",
    "cache_audio_read_tokens",
    "output_audio_tokens",
    "web_searches",
)
"""The details that the package has prices for, under its own names."""


class Cost(NamedTuple):
    """An amount of money."""

    amount: Decimal
    currency: str


def cost_of(usage: Usage, *, at: datetime) -> Cost | None:
    """Return the cost of a call; None if it is not known.

    Args:
        usage: the counts, with the model, the provider and the tier.
        at: the time of the call.
    """
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    found = prices_of(usage.model, at.date())
    if found is not None:
        return _by_project(usage, found)
    amount = _by_package(usage, at)
    return None if amount is None else Cost(amount, CURRENCY)


def _by_project(usage: Usage, prices: Mapping[str, Any]) -> Cost | None:
    tier = "" if usage.tier in _STANDARD else usage.tier
    chosen = prices if not tier else prices.get("tiers", {}).get(tier)
    if chosen is None:
        return None
    amount = Decimal(0)
    for name, count, per in _counts(usage):
        if count < 0 or (count and name not in chosen):
            return None
        if count:
            amount += Decimal(str(chosen[name])) * count / per
    return Cost(amount, prices.get("currency", CURRENCY))


def _counts(usage: Usage) -> list[tuple[str, int, int]]:
    """Return what is priced apart: the name of its price, its count, and for how many the price is."""
    details = usage.details
    read, written = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
    for_1h = details.get("cache_write_1h_tokens", 0)
    audio_read = details.get("cache_audio_read_tokens", 0)
    audio_in, audio_out = details.get("input_audio_tokens", 0) - audio_read, details.get("output_audio_tokens", 0)
    assert usage.input_tokens is not None
    assert usage.output_tokens is not None
    return [
        ("input", usage.input_tokens - read - written - audio_in, _MILLION),
        ("cache_read", read - audio_read, _MILLION),
        ("cache_write", written - for_1h, _MILLION),
        ("cache_write_1h", for_1h, _MILLION),
        ("input_audio", audio_in, _MILLION),
        ("cache_read_audio", audio_read, _MILLION),
        ("output", usage.output_tokens - audio_out, _MILLION),
        ("output_audio", audio_out, _MILLION),
        ("web_searches", details.get("web_searches", 0), 1000),
    ]


def _by_package(usage: Usage, at: datetime) -> Decimal | None:
    try:
        from genai_prices import Usage as Counts
        from genai_prices.data_snapshot import get_snapshot
    except ImportError:
        return None
    context = {} if usage.tier in _STANDARD else _context(usage.tier)
    counts = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        **{name: usage.details[name] for name in _PRICED_DETAILS if usage.details.get(name)},
    }
    host = "." in usage.provider
    try:
        provider, model = get_snapshot().find_provider_model(
            usage.model,
            None,
            None if host or not usage.provider else usage.provider,
            f"https://{usage.provider}" if host else None,
        )
        moment = at if at.tzinfo else at.replace(tzinfo=UTC)
        if context and not _has_variant(model, context, moment):
            return None
        found = model.calc_price(Counts(**counts), provider, genai_request_timestamp=moment, price_context=context)
    except (LookupError, ValueError, TypeError):  # an unknown model, or counts that contradict each other
        return None
    return found.total_price


def _context(tier: str) -> dict[str, str]:
    """Return what the package names a tier by."""
    if tier == "batch":
        return {"processing": "batch"}
    return {"service_tier": tier, "speed": tier}


def _has_variant(model: Any, context: Mapping[str, str], moment: datetime) -> bool:
    """Return whether the package knows the prices of a tier: for another one, it returns the list price."""
    return any(
        all(context.get(name) == value for name, value in variant.when.items())
        and (variant.constraint is None or variant.constraint.active(moment))
        for variant in model.price_variants or ()
    )
