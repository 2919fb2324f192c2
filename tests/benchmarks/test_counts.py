"""What windows count beside what stand-ins of the providers count of the requests as they are sent."""

from __future__ import annotations

import pytest

from benchmarks.counts.conversations import MODELS
from benchmarks.counts.measuring import measure
from benchmarks.counts.providers import COUNTS
from benchmarks.counts.report import markdown

LARGEST_MEANS = {"openai": 0.05, "openai_responses": 0.07, "anthropic": 0.25, "gemini": 0.06}
"""By format. For Anthropic thinking counts that is stale, and not sent."""


@pytest.mark.slow
@pytest.mark.parametrize("format", MODELS)
def test_what_is_counted_is_what_is_sent(format: str) -> None:
    figures = measure(format, 50)
    assert figures["requests"] > 35
    assert figures["mean"] < LARGEST_MEANS[format]
    assert figures["fresh"] < 0.07
    assert figures["too_little"] < 0.2
    assert (figures["over_limit"], figures["over_reserve"]) == (0, 0)
    results = {"date": "2026-11-27", "tiktoken": "0.14", "conversations": 50, "rows": [figures]}
    assert f"| {figures['requests']} " in markdown(results)


def test_the_stand_in_counts_as_openai_says() -> None:
    """The example of the cookbook, for which OpenAI's API says 101 tokens."""
    location = {"type": "string", "description": "The city and state, e.g. San Francisco, CA"}
    unit = {"type": "string", "description": "The unit of temperature to return", "enum": ["celsius", "fahrenheit"]}
    function = {
        "name": "get_current_weather",
        "description": "Get the current weather in a given location",
        "parameters": {"type": "object", "properties": {"location": location, "unit": unit}},
    }
    system = "You are a helpful assistant that can answer to questions about the weather."
    messages = [
        {"role": "system", "content": system},
        {"role": "user", "content": "What's the weather like in San Francisco?"},
    ]
    request = {"model": "gpt-4o", "tools": [{"type": "function", "function": function}], "messages": messages}
    assert COUNTS["openai"](request, False) == 101
