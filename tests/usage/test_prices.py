"""What calls cost: ten cases by hand, each with the page that has the prices, and the prices of a project.

The prices of pages are per million tokens, on the day of the test.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from django.core.checks import run_checks

from chatmemory.contrib.usage.prices import Cost, cost_of
from chatmemory.core.usage import Usage

AT = datetime(2026, 11, 1, tzinfo=UTC)
OPENAI = "https://openai.com/api/pricing/"
ANTHROPIC = "https://platform.claude.com/docs/en/about-claude/pricing"
GOOGLE = "https://ai.google.dev/gemini-api/docs/pricing"
GPT = {"provider": "openai", "model": "gpt-5", "input_tokens": 10_000, "cache_read_tokens": 2048, "output_tokens": 300}
CLAUDE = {
    "provider": "anthropic",
    "model": "claude-sonnet-4-5",
    "input_tokens": 1200,
    "cache_read_tokens": 1024,
    "cache_write_tokens": 128,
    "output_tokens": 340,
    "details": {"cache_write_5m_tokens": 28, "cache_write_1h_tokens": 100},
}
GEMINI = {"provider": "google", "model": "gemini-2.5-flash", "input_tokens": 1200, "output_tokens": 340}
CASES = [
    # 7,952 x 1.25 + 2,048 x 0.125 + 300 x 10 = 9,940 + 256 + 3,000
    (OPENAI, GPT, "0.013196"),
    # Flex costs half: 7,952 x 0.625 + 2,048 x 0.0625 + 300 x 5 = 4,970 + 128 + 1,500
    (OPENAI, {**GPT, "tier": "flex"}, "0.006598"),
    # Priority costs twice as much.
    (OPENAI, {**GPT, "tier": "priority"}, "0.026392"),
    # The Batch API costs half.
    (OPENAI, {**GPT, "tier": "batch"}, "0.006598"),
    # 48 x 3 + 1,024 x 0.30 + 28 x 3.75 + 100 x 6 + 340 x 15 = 144 + 307.2 + 105 + 600 + 5,100
    (ANTHROPIC, CLAUDE, "0.0062562"),
    # Half of it in a batch.
    (ANTHROPIC, {**CLAUDE, "tier": "batch"}, "0.0031281"),
    # Above 200,000 tokens of input: 250,000 x 6 + 1,000 x 22.50
    (
        ANTHROPIC,
        {"provider": "anthropic", "model": "claude-sonnet-4-5", "input_tokens": 250_000, "output_tokens": 1000},
        "1.5225",
    ),
    # 1,200 x 0.30 + 340 x 2.50 = 360 + 850; thoughts are output
    (GOOGLE, {**GEMINI, "reasoning_tokens": 200}, "0.00121"),
    # 200 x 0.30 + 1,000 x 1.00 of audio + 340 x 2.50 = 60 + 1,000 + 850
    (GOOGLE, {**GEMINI, "details": {"input_audio_tokens": 1000}}, "0.00191"),
    # 1,000 x 3 + 1,000 x 15 + three searches at 10 per thousand = 0.018 + 0.03
    (
        ANTHROPIC,
        {
            **{"provider": "anthropic", "model": "claude-sonnet-4-5", "input_tokens": 1000, "output_tokens": 1000},
            "details": {"web_searches": 3},
        },
        "0.048",
    ),
]


@pytest.mark.usefixtures("sdks")
@pytest.mark.parametrize(("source", "fields", "expected"), CASES)
def test_by_hand(source: str, fields: dict[str, Any], expected: str) -> None:
    assert cost_of(Usage(**fields), at=AT) == Cost(Decimal(expected), "USD"), source


@pytest.mark.parametrize(
    "fields",
    [
        {**GPT, "model": "our-own"},
        {**GPT, "provider": "llm.example.org"},
        {**GPT, "provider": "nobody"},
        {**GPT, "tier": "scale"},
        {**CLAUDE, "tier": "priority"},
        {**CLAUDE, "tier": "standard-us"},
        {**GPT, "input_tokens": None},
        {**GPT, "output_tokens": None},
        {**GPT, "input_tokens": 100},  # fewer than those of the cache
    ],
)
def test_what_is_not_known_has_no_cost(fields: dict[str, Any]) -> None:
    assert cost_of(Usage(**fields), at=AT) is None


def test_a_tier_without_prices_at_the_time() -> None:
    assert cost_of(Usage(**GPT, tier="flex"), at=datetime(2026, 6, 1, tzinfo=UTC)) is None


@pytest.mark.usefixtures("sdks")
def test_a_server_is_known_by_its_host() -> None:
    deepseek = Usage(provider="api.deepseek.com", model="deepseek-chat", input_tokens=1_000_000, output_tokens=0)
    assert cost_of(deepseek, at=AT) is not None


def test_without_the_package(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    assert cost_of(Usage(**GPT), at=AT) is None
    settings.CHATMEMORY = {"PRICES": {"gpt-5": {"input": 1, "cache_read": 1, "output": 1}}}
    assert cost_of(Usage(**GPT), at=AT) == Cost(Decimal("0.0103"), "USD")


class TestPricesOfTheProject:
    PRICES = {
        "ours": [
            {"input": 1, "output": Decimal("2.5")},
            {
                "from": "2026-10-01",
                "currency": "EUR",
                "input": 2,
                "cache_read": 0.1,
                "cache_write": 3,
                "cache_write_1h": 4,
                "input_audio": 40,
                "output": 5,
                "web_searches": 10,
                "tiers": {"batch": {"input": 1, "output": 2}},
            },
        ]
    }

    @pytest.fixture(autouse=True)
    def prices(self, settings: Any) -> None:
        settings.CHATMEMORY = {"PRICES": self.PRICES}

    def cost(self, at: datetime = AT, **fields: Any) -> Cost | None:
        return cost_of(Usage(**{"model": "ours", "input_tokens": 1000, "output_tokens": 100, **fields}), at=at)

    def test_they_have_dates(self) -> None:
        assert self.cost(datetime(2026, 9, 30, tzinfo=UTC)) == Cost(Decimal("0.00125"), "USD")
        assert self.cost(datetime(2026, 10, 1, tzinfo=UTC)) == Cost(Decimal("0.0025"), "EUR")

    def test_each_kind_of_tokens(self) -> None:
        details = {"cache_write_1h_tokens": 50, "input_audio_tokens": 100, "web_searches": 2}
        # 500 x 2 + 200 x 0.1 + 150 x 3 + 50 x 4 + 100 x 40 + 100 x 5 = 6,170; two searches
        found = self.cost(cache_read_tokens=200, cache_write_tokens=200, details=details)
        assert found == Cost(Decimal("0.02617"), "EUR")

    def test_a_tier(self) -> None:
        assert self.cost(tier="batch") == Cost(Decimal("0.0012"), "EUR")
        assert self.cost(tier="default") == Cost(Decimal("0.0025"), "EUR")

    @pytest.mark.parametrize(
        "fields",
        [
            {"tier": "priority"},
            {"tier": "batch", "cache_read_tokens": 1},
            {"details": {"output_audio_tokens": 1}},
            {"cache_read_tokens": 1001},
            {"at": datetime(2026, 9, 30, tzinfo=UTC), "cache_write_tokens": 1},
        ],
    )
    def test_without_a_price_there_is_no_cost(self, fields: dict[str, Any]) -> None:
        assert self.cost(**fields) is None

    def test_they_win(self, settings: Any) -> None:
        settings.CHATMEMORY = {"PRICES": {"gpt-5": {"input": 1, "cache_read": 1, "output": 1}}}
        assert cost_of(Usage(**GPT), at=AT) == Cost(Decimal("0.0103"), "USD")

    def test_they_are_valid(self) -> None:
        assert not [one for one in run_checks() if "PRICES" in one.msg]


@pytest.mark.parametrize(
    ("prices", "code"),
    [
        ({"m": {"output": 1}}, "E029"),
        ({"m": {"input": 1, "cached_input": 1}}, "E029"),
        ({"m": {"input": -1}}, "E029"),
        ({"m": {"input": "1"}}, "E029"),
        ({"m": [3]}, "E029"),
        ({"m": {"input": 1, "currency": "euro"}}, "E029"),
        ({"m": {"input": 1, "tiers": {"batch": {}}}}, "E029"),
        ({"m": {"input": 1, "from": "yesterday"}}, "E042"),
        ({"m": {"input": 1, "from": 2026}}, "E042"),
        ({"m": [{"input": 1}, {"input": 2}]}, "E042"),
        ({"m": [{"input": 1, "from": "2026-01-01"}, {"input": 2, "from": "2026-01-01"}]}, "E042"),
    ],
)
def test_checks(settings: Any, prices: Any, code: str) -> None:
    settings.CHATMEMORY = {"PRICES": prices}
    assert [one.id for one in run_checks() if "PRICES" in one.msg] == [f"chatmemory.{code}"]
