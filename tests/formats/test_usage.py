"""The usage of each provider and framework: what each field of a report becomes.

The figures are invented; the shapes are those that servers send. The types are the packages' own.
"""

from __future__ import annotations

import dataclasses
from typing import Any, get_type_hints

import pytest
from agent_framework import AgentResponse, ChatResponse, ChatResponseUpdate, UsageDetails
from agents.items import ModelResponse as AgentsResponse
from agents.usage import Usage as AgentsUsage
from anthropic.types import Message as AnthropicMessage
from anthropic.types import MessageDeltaUsage
from anthropic.types import Usage as AnthropicUsage
from google.genai import types as gemini
from langchain_core.messages import AIMessage
from langchain_core.messages.ai import InputTokenDetails, OutputTokenDetails, UsageMetadata
from openai.types import CompletionUsage
from openai.types.chat import ChatCompletion
from openai.types.completion_usage import CompletionTokensDetails, PromptTokensDetails
from openai.types.responses import Response, ResponseUsage
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.usage import RequestUsage, RunUsage

from chatmemory.core.usage import TOKENS, Usage
from chatmemory.formats.usage import (
    from_agent_framework,
    from_anthropic,
    from_gemini,
    from_langchain,
    from_openai,
    from_pydantic_ai,
    read_usage,
)

OPENAI_CHAT = {
    "prompt_tokens": 1200,
    "completion_tokens": 340,
    "total_tokens": 1540,
    "prompt_tokens_details": {
        "audio_tokens": 15,
        "cache_write_tokens": 128,
        "cached_tokens": 1024,
        "image_tokens": 30,
        "text_tokens": 1155,
    },
    "completion_tokens_details": {
        "accepted_prediction_tokens": 11,
        "audio_tokens": 12,
        "reasoning_tokens": 200,
        "rejected_prediction_tokens": 13,
        "text_tokens": 328,
    },
}
OPENAI_RESPONSES = {
    "input_tokens": 1200,
    "input_tokens_details": {
        "cache_write_tokens": 128,
        "cached_tokens": 1024,
        "cache_write_tokens_details": {"ttl_12h_tokens": 100, "ttl_30m_tokens": 28},
    },
    "output_tokens": 340,
    "output_tokens_details": {"reasoning_tokens": 200},
    "total_tokens": 1540,
}
ANTHROPIC = {
    "input_tokens": 48,
    "cache_creation": {"ephemeral_1h_input_tokens": 100, "ephemeral_5m_input_tokens": 28},
    "cache_creation_input_tokens": 128,
    "cache_read_input_tokens": 1024,
    "inference_geo": "global",
    "output_tokens": 340,
    "output_tokens_details": {"thinking_tokens": 200},
    "server_tool_use": {"web_fetch_requests": 1, "web_search_requests": 3},
    "service_tier": "priority",
    "speed": "standard",
}
GEMINI = {
    "promptTokenCount": 1160,
    "cachedContentTokenCount": 1024,
    "candidatesTokenCount": 140,
    "thoughtsTokenCount": 200,
    "toolUsePromptTokenCount": 40,
    "totalTokenCount": 1540,
    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 1000}, {"modality": "AUDIO", "tokenCount": 160}],
    "cacheTokensDetails": [{"modality": "AUDIO", "tokenCount": 24}],
    "candidatesTokensDetails": [{"modality": "IMAGE", "tokenCount": 90}],
    "toolUsePromptTokensDetails": [{"modality": "VIDEO", "tokenCount": 8}],
    "trafficType": "ON_DEMAND_FLEX",
}
COUNTS = {
    "input_tokens": 1200,
    "output_tokens": 340,
    "cache_read_tokens": 1024,
    "cache_write_tokens": 128,
    "reasoning_tokens": 200,
}


def test_openai_chat_completions() -> None:
    expected = Usage(
        **COUNTS,
        tier="flex",
        details={
            "input_audio_tokens": 15,
            "input_image_tokens": 30,
            "output_audio_tokens": 12,
            "accepted_prediction_tokens": 11,
            "rejected_prediction_tokens": 13,
        },
    )
    for given in (OPENAI_CHAT, CompletionUsage.model_validate(OPENAI_CHAT)):
        assert from_openai(given, tier="flex") == expected


def test_openai_responses() -> None:
    details = {"cache_write_30m_tokens": 28, "cache_write_12h_tokens": 100}
    for given in (OPENAI_RESPONSES, ResponseUsage.model_validate(OPENAI_RESPONSES)):
        assert from_openai(given) == Usage(**COUNTS, details=details)


def test_anthropic() -> None:
    details = {
        "cache_write_5m_tokens": 28,
        "cache_write_1h_tokens": 100,
        "web_searches": 3,
        "web_fetches": 1,
    }
    for given in (ANTHROPIC, AnthropicUsage.model_validate(ANTHROPIC)):
        assert from_anthropic(given) == Usage(**COUNTS, tier="priority", details=details)


@pytest.mark.parametrize(
    ("fields", "tier"),
    [
        ({"service_tier": "batch"}, "batch"),
        ({"speed": "fast"}, "fast"),
        ({"inference_geo": "us"}, "priority-us"),
        ({"service_tier": None, "inference_geo": "us"}, "us"),
        ({"service_tier": None}, ""),
    ],
)
def test_what_changes_anthropics_prices_is_the_tier(fields: dict[str, Any], tier: str) -> None:
    assert from_anthropic({**ANTHROPIC, **fields}).tier == tier


def test_gemini() -> None:
    expected = Usage(
        **{**COUNTS, "cache_write_tokens": None},
        tier="flex",
        details={
            "tool_use_prompt_tokens": 40,
            "input_audio_tokens": 160,
            "cache_audio_read_tokens": 24,
            "output_image_tokens": 90,
            "tool_use_video_tokens": 8,
        },
    )
    for given in (GEMINI, gemini.GenerateContentResponseUsageMetadata.model_validate(GEMINI)):
        assert from_gemini(given) == expected


def test_pydantic_ai() -> None:
    usage = RequestUsage(
        input_tokens=1200,
        output_tokens=340,
        cache_read_tokens=1024,
        cache_write_tokens=128,
        cache_write_1h_tokens=100,
        output_reasoning_tokens=200,
        input_audio_tokens=15,
        cache_audio_read_tokens=4,
        output_audio_tokens=12,
    )
    details = {
        "cache_write_5m_tokens": 28,
        "cache_write_1h_tokens": 100,
        "input_audio_tokens": 15,
        "cache_audio_read_tokens": 4,
        "output_audio_tokens": 12,
    }
    assert from_pydantic_ai(usage) == Usage(**COUNTS, details=details)
    assert from_pydantic_ai(RequestUsage()) == Usage()  # 0 is what it has for nothing


def test_langchain() -> None:
    usage: UsageMetadata = {
        "input_tokens": 1200,
        "output_tokens": 340,
        "total_tokens": 1540,
        "input_token_details": {"audio": 15, "cache_creation": 128, "cache_read": 1024},
        "output_token_details": {"audio": 12, "reasoning": 200},
    }
    assert from_langchain(usage) == Usage(**COUNTS, details={"input_audio_tokens": 15, "output_audio_tokens": 12})


def test_agent_framework() -> None:
    usage: UsageDetails = {
        "input_token_count": 1200,
        "output_token_count": 340,
        "total_token_count": 1540,
        "cache_creation_input_token_count": 128,
        "cache_read_input_token_count": 1024,
        "reasoning_output_token_count": 200,
    }
    assert from_agent_framework(usage) == Usage(**COUNTS)
    claude = {
        "input_token_count": 48,
        "output_token_count": 340,
        "cache_creation_input_token_count": 128,
        "anthropic.cache_creation_input_tokens": 128,
        "cache_read_input_token_count": 1024,
        "anthropic.cache_read_input_tokens": 1024,
    }
    assert from_agent_framework(claude) == Usage(**{**COUNTS, "reasoning_tokens": None})


def _leaves(kind: Any) -> set[str]:
    """Return the fields of a package's type."""
    if hasattr(kind, "model_fields"):
        return set(kind.model_fields)
    if dataclasses.is_dataclass(kind):
        return {one.name for one in dataclasses.fields(kind)}
    return set(get_type_hints(kind))


KNOWN: dict[Any, set[str]] = {
    CompletionUsage: set(OPENAI_CHAT),
    PromptTokensDetails: set(OPENAI_CHAT["prompt_tokens_details"]),  # type: ignore[call-overload]
    CompletionTokensDetails: set(OPENAI_CHAT["completion_tokens_details"]),  # type: ignore[call-overload]
    ResponseUsage: set(OPENAI_RESPONSES),
    AnthropicUsage: set(ANTHROPIC),
    MessageDeltaUsage: set(ANTHROPIC),
    gemini.GenerateContentResponseUsageMetadata: {
        "".join(f"_{char.lower()}" if char.isupper() else char for char in name) for name in GEMINI
    },
    # What is not read: seconds of audio, a cost of another program, and the numbers of requests.
    RequestUsage: {
        *("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "cache_write_1h_tokens"),
        *("output_reasoning_tokens", "input_audio_tokens", "cache_audio_read_tokens", "output_audio_tokens"),
        *("details", "audio_seconds", "cost", "unmeasured_requests"),
    },
    AgentsUsage: {*OPENAI_RESPONSES, "requests", "request_usage_entries"},
    UsageMetadata: {"input_tokens", "output_tokens", "total_tokens", "input_token_details", "output_token_details"},
    UsageDetails: {
        *("input_token_count", "output_token_count", "total_token_count", "reasoning_output_token_count"),
        *("cache_creation_input_token_count", "cache_read_input_token_count"),
    },
    InputTokenDetails: {"audio", "cache_creation", "cache_read"},
    OutputTokenDetails: {"audio", "reasoning"},
}


@pytest.mark.parametrize("kind", KNOWN, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_no_field_of_a_package_is_overlooked(kind: Any) -> None:
    assert _leaves(kind) <= KNOWN[kind]


READERS = [from_openai, from_anthropic, from_gemini, from_pydantic_ai, from_langchain, from_agent_framework]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("given", [None, "lots", [], {}, 7, {"input_tokens": "5", "prompt_tokens": -1}])
def test_what_is_no_number_of_tokens_is_unknown(read: Any, given: Any) -> None:
    assert read(given) == Usage()


def test_no_cache_was_told_is_not_no_cache() -> None:
    assert from_openai({"prompt_tokens": 5, "completion_tokens": 6}) == Usage(input_tokens=5, output_tokens=6)
    told = from_openai({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 0}})
    assert (told.cache_read_tokens, told.cache_write_tokens) == (0, None)


CHAT = ChatCompletion.model_validate(
    {
        "id": "chatcmpl-7",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-5-2026",
        "service_tier": "flex",
        "choices": [],
        "usage": OPENAI_CHAT,
    }
)
RESPONSE = Response.model_construct(
    id="resp_7", model="gpt-5-2026", service_tier="priority", usage=ResponseUsage.model_validate(OPENAI_RESPONSES)
)
CLAUDE = AnthropicMessage.model_construct(
    id="msg_7", model="claude-7", type="message", content=[], usage=AnthropicUsage.model_validate(ANTHROPIC)
)
GENERATED = gemini.GenerateContentResponse.model_validate(
    {"responseId": "g7", "modelVersion": "gemini-7", "usageMetadata": GEMINI}
)
PYDANTIC = ModelResponse(
    [TextPart("Hi")],
    usage=RequestUsage(input_tokens=1200, output_tokens=340),
    model_name="mistral-7",
    provider_name="mistral",
    provider_response_id="m7",
    provider_details={"service_tier": "flex"},
)
LANGCHAIN = AIMessage(
    "Hi",
    id="run-7",
    usage_metadata={"input_tokens": 1200, "output_tokens": 340, "total_tokens": 1540},
    response_metadata={"model_name": "gpt-5", "model_provider": "openai", "id": "chatcmpl-7", "service_tier": "flex"},
)
AGENTS = AgentsResponse(
    output=[], usage=AgentsUsage(requests=1, input_tokens=1200, output_tokens=340), response_id="resp_7"
)
FRAMEWORK_USAGE: UsageDetails = {"input_token_count": 1200, "output_token_count": 340}
CHAT_RESPONSE = ChatResponse(response_id="af7", model="gpt-5", usage_details=FRAMEWORK_USAGE)
RESPONSES = [
    (CHAT, ("openai", "gpt-5-2026", "chatcmpl-7", "flex")),
    (CHAT.model_dump(), ("openai", "gpt-5-2026", "chatcmpl-7", "flex")),
    (RESPONSE, ("openai", "gpt-5-2026", "resp_7", "priority")),
    (CLAUDE, ("anthropic", "claude-7", "msg_7", "priority")),
    (GENERATED, ("google", "gemini-7", "g7", "flex")),
    (GENERATED.model_dump(), ("google", "gemini-7", "g7", "flex")),
    ({"responseId": "g7", "modelVersion": "gemini-7", "usageMetadata": GEMINI}, ("google", "gemini-7", "g7", "flex")),
    (PYDANTIC, ("mistral", "mistral-7", "m7", "flex")),
    (LANGCHAIN, ("openai", "gpt-5", "chatcmpl-7", "flex")),
    (LANGCHAIN.model_dump(), ("openai", "gpt-5", "chatcmpl-7", "flex")),
    (AGENTS, ("openai", "", "resp_7", "")),
    (CHAT_RESPONSE, ("", "gpt-5", "af7", "")),
    (CHAT_RESPONSE.to_dict(), ("", "gpt-5", "af7", "")),
    (
        AgentResponse(response_id="af7", usage_details=FRAMEWORK_USAGE, raw_representation=CHAT_RESPONSE),
        ("", "gpt-5", "af7", ""),
    ),
    (
        AgentResponse(
            usage_details=FRAMEWORK_USAGE,
            raw_representation=[ChatResponseUpdate(), ChatResponseUpdate(model="gpt-5")],
        ),
        ("", "gpt-5", "", ""),
    ),
]


@pytest.mark.parametrize(("response", "expected"), RESPONSES)
def test_a_response_tells_who_answered(response: Any, expected: tuple[str, ...]) -> None:
    usage = read_usage(response)
    assert (usage.provider, usage.model, usage.response_id, usage.tier) == expected
    assert (usage.input_tokens, usage.output_tokens) == (1200, 340)


@pytest.mark.parametrize(
    "usage",
    [
        *(CompletionUsage.model_validate(OPENAI_CHAT), ResponseUsage.model_validate(OPENAI_RESPONSES)),
        *(OPENAI_CHAT, OPENAI_RESPONSES, ANTHROPIC, GEMINI),
        AnthropicUsage.model_validate(ANTHROPIC),
        gemini.GenerateContentResponseUsageMetadata.model_validate(GEMINI),
        RunUsage(input_tokens=1200, output_tokens=340, requests=2),
        AgentsUsage(requests=2, input_tokens=1200, output_tokens=340),
        {"input_tokens": 1200, "output_tokens": 340, "total_tokens": 1540},
        FRAMEWORK_USAGE,
        {"input_tokens": 1200, "output_tokens": 340, "model": "x"},
        Usage(input_tokens=1200, output_tokens=340),
    ],
    ids=lambda usage: f"{type(usage).__module__}.{type(usage).__name__}",
)
def test_a_usage_alone(usage: Any) -> None:
    found = read_usage(usage)
    assert (found.input_tokens, found.output_tokens) == (1200, 340)


@pytest.mark.parametrize(
    ("given", "error", "problem"),
    [
        (object(), TypeError, "expected a response with its usage"),
        ("Hello", TypeError, "expected a response with its usage"),
        ({"input_tokens": 5, "tokens": 6}, TypeError, "unknown field 'tokens'; expected one of input_tokens"),
        ({"input_tokens": -5}, ValueError, "input_tokens must be a whole number from 0"),
        ({"output_tokens": True}, ValueError, "output_tokens must be a whole number from 0"),
        ({"input_tokens": 5, "model": 6}, ValueError, "model must be a string"),
        ({"input_tokens": 5, "details": {"searches": "many"}}, ValueError, "details must be a dict of whole numbers"),
    ],
)
def test_what_is_none(given: Any, error: type[Exception], problem: str) -> None:
    with pytest.raises(error, match=problem):
        read_usage(given)


def test_the_sum_of_two() -> None:
    one = Usage(input_tokens=5, cache_read_tokens=2, details={"web_searches": 1}, response_id="a", model="m")
    other = Usage(input_tokens=6, output_tokens=1, tier="flex", details={"web_searches": 2}, response_id="b")
    both = one + other
    assert both == Usage(
        input_tokens=11, output_tokens=1, cache_read_tokens=2, tier="flex", details={"web_searches": 3}
    )
    assert (both.response_id, both.model) == ("b", "m")


def test_names_of_open_telemetry() -> None:
    usage = Usage(**COUNTS, response_id="r", model="m")
    assert usage.to_open_telemetry() == {
        "gen_ai.usage.input_tokens": 1200,
        "gen_ai.usage.output_tokens": 340,
        "gen_ai.usage.cache_read.input_tokens": 1024,
        "gen_ai.usage.cache_creation.input_tokens": 128,
        "gen_ai.usage.reasoning.output_tokens": 200,
        "gen_ai.response.id": "r",
        "gen_ai.response.model": "m",
    }
    assert Usage().to_open_telemetry() == {}
    assert list(usage.to_data()) == list(TOKENS)
