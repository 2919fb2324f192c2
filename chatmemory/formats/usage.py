"""The usage that providers and frameworks report, read into ``chatmemory.core.usage.Usage``.

Providers disagree about what their figures include. Anthropic's ``input_tokens`` excludes what was read from the cache
and written to it; OpenAI's and Gemini's include both. Gemini counts thoughts, and what its own tools put into the
request, beside the others. In a ``Usage``, the input and the output include everything.

Objects are recognised by their attributes, so no package of a provider is imported. Servers may send anything: a figure
that is no number of tokens is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass, replace
from typing import Any

from chatmemory.core.usage import TOKENS, Usage

_MOST = 2**31 - 1
"""The most that a column of a database holds. No model reads more."""

_MODALITIES = ("AUDIO", "IMAGE", "VIDEO")
"""The modalities of Gemini that may have their own price."""

_TEXTS = ("tier", "response_id", "model", "provider")


def from_openai(usage: Any, *, tier: Any = "") -> Usage:
    """Return the usage of OpenAI's chat completions and Responses, and of the Agents SDK.

    Args:
        usage: a ``CompletionUsage``, a ``ResponseUsage``, a ``Usage`` of the Agents SDK, or their fields.
        tier: the ``service_tier`` of the response.
    """
    figures = fields_of(usage)
    request, answer = ("prompt", "completion") if "prompt_tokens" in figures else ("input", "output")
    of_input, of_output = figures.get(f"{request}_tokens_details"), figures.get(f"{answer}_tokens_details")
    written = _count(of_input, "cache_write_tokens_details", "ttl_30m_tokens")
    written_for_long = _count(of_input, "cache_write_tokens_details", "ttl_12h_tokens")
    return Usage(
        input_tokens=_count(figures, f"{request}_tokens"),
        output_tokens=_count(figures, f"{answer}_tokens"),
        cache_read_tokens=_count(of_input, "cached_tokens"),
        cache_write_tokens=_count(of_input, "cache_write_tokens"),
        reasoning_tokens=_count(of_output, "reasoning_tokens"),
        tier=_text(tier),
        details=_details(
            cache_write_30m_tokens=written,
            cache_write_12h_tokens=written_for_long,
            input_audio_tokens=_count(of_input, "audio_tokens"),
            input_image_tokens=_count(of_input, "image_tokens"),
            output_audio_tokens=_count(of_output, "audio_tokens"),
            accepted_prediction_tokens=_count(of_output, "accepted_prediction_tokens"),
            rejected_prediction_tokens=_count(of_output, "rejected_prediction_tokens"),
        ),
    )


def from_anthropic(usage: Any) -> Usage:
    """Return the usage of Anthropic's Messages: a ``Usage``, a ``MessageDeltaUsage``, or the fields of both."""
    figures = fields_of(usage)
    uncached, read = _count(figures, "input_tokens"), _count(figures, "cache_read_input_tokens")
    written = _count(figures, "cache_creation_input_tokens")
    tier = _text(figures.get("service_tier"))
    if figures.get("speed") == "fast":
        tier = "fast"
    if figures.get("inference_geo") == "us":  # it has its own price
        tier = f"{tier}-us" if tier else "us"
    return Usage(
        input_tokens=None if uncached is None else uncached + (read or 0) + (written or 0),
        output_tokens=_count(figures, "output_tokens"),
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=_count(figures, "output_tokens_details", "thinking_tokens"),
        tier=tier,
        details=_details(
            cache_write_5m_tokens=_count(figures, "cache_creation", "ephemeral_5m_input_tokens"),
            cache_write_1h_tokens=_count(figures, "cache_creation", "ephemeral_1h_input_tokens"),
            web_searches=_count(figures, "server_tool_use", "web_search_requests"),
            web_fetches=_count(figures, "server_tool_use", "web_fetch_requests"),
        ),
    )


def from_gemini(usage: Any) -> Usage:
    """Return the usage of Gemini: a ``GenerateContentResponseUsageMetadata``, or its fields in either spelling."""
    figures = {_snake(name): value for name, value in fields_of(usage).items()}
    prompt, of_tools = _count(figures, "prompt_token_count"), _count(figures, "tool_use_prompt_token_count")
    answer, thoughts = _count(figures, "candidates_token_count"), _count(figures, "thoughts_token_count")
    traffic = _text(figures.get("traffic_type")).lower()
    return Usage(
        input_tokens=None if prompt is None else prompt + (of_tools or 0),
        output_tokens=None if answer is None and thoughts is None else (answer or 0) + (thoughts or 0),
        cache_read_tokens=_count(figures, "cached_content_token_count"),
        reasoning_tokens=thoughts,
        tier=traffic.removeprefix("on_demand_") if traffic != "traffic_type_unspecified" else "",
        details=_details(
            tool_use_prompt_tokens=of_tools,
            **_of_modalities("input_{}_tokens", figures.get("prompt_tokens_details")),
            **_of_modalities("output_{}_tokens", figures.get("candidates_tokens_details")),
            **_of_modalities("cache_{}_read_tokens", figures.get("cache_tokens_details")),
            **_of_modalities("tool_use_{}_tokens", figures.get("tool_use_prompt_tokens_details")),
        ),
    )


def from_pydantic_ai(usage: Any) -> Usage:
    """Return the usage of Pydantic AI: a ``RequestUsage`` or a ``RunUsage``, which have 0 for what is unknown."""
    figures = fields_of(usage)
    reasoning = _count(figures, "output_reasoning_tokens") or _count(figures, "details", "reasoning_tokens")
    written = _count(figures, "cache_write_tokens") or None
    for_long = _count(figures, "cache_write_1h_tokens") or None
    return Usage(
        input_tokens=_count(figures, "input_tokens") or None,
        output_tokens=_count(figures, "output_tokens") or None,
        cache_read_tokens=_count(figures, "cache_read_tokens") or None,
        cache_write_tokens=written,
        reasoning_tokens=reasoning or None,
        details=_details(
            cache_write_5m_tokens=written - for_long if written and for_long else None,
            cache_write_1h_tokens=for_long,
            input_audio_tokens=_count(figures, "input_audio_tokens"),
            cache_audio_read_tokens=_count(figures, "cache_audio_read_tokens"),
            output_audio_tokens=_count(figures, "output_audio_tokens"),
        ),
    )


def from_langchain(usage: Any) -> Usage:
    """Return the usage of LangChain: the ``usage_metadata`` of an ``AIMessage``."""
    figures = fields_of(usage)
    return Usage(
        input_tokens=_count(figures, "input_tokens"),
        output_tokens=_count(figures, "output_tokens"),
        cache_read_tokens=_count(figures, "input_token_details", "cache_read"),
        cache_write_tokens=_count(figures, "input_token_details", "cache_creation"),
        reasoning_tokens=_count(figures, "output_token_details", "reasoning"),
        details=_details(
            cache_write_5m_tokens=_count(figures, "input_token_details", "ephemeral_5m_input_tokens"),
            cache_write_1h_tokens=_count(figures, "input_token_details", "ephemeral_1h_input_tokens"),
            input_audio_tokens=_count(figures, "input_token_details", "audio"),
            output_audio_tokens=_count(figures, "output_token_details", "audio"),
        ),
    )


def from_agent_framework(usage: Any) -> Usage:
    """Return the usage of Agent Framework: the ``usage_details`` of a response."""
    figures = fields_of(usage)
    given = _count(figures, "input_token_count")
    read, written = (_count(figures, f"cache_{what}_input_token_count") for what in ("read", "creation"))
    # Its client for Anthropic counts these apart, and also has them under Anthropic's names.
    apart = any(name.startswith("anthropic.") for name in figures)
    return Usage(
        input_tokens=given + (read or 0) + (written or 0) if apart and given is not None else given,
        output_tokens=_count(figures, "output_token_count"),
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=_count(figures, "reasoning_output_token_count"),
    )


def read_usage(response: Any) -> Usage:
    """Return the usage of a response, with its ID, its model and its provider as far as the response tells them.

    Args:
        response: a response of OpenAI (chat completions or Responses), Anthropic, Gemini, Pydantic AI
            (``ModelResponse``), LangChain (``AIMessage``), the Agents SDK (``ModelResponse``) or Agent Framework
            (``AgentResponse``, ``ChatResponse``), or its JSON object; or its usage alone; or a ``Usage``, or a dict of
            its fields.

    Raises:
        TypeError: the object is none of these, or a dict has unknown fields.
        ValueError: a field is no number of tokens.
    """
    if isinstance(response, Usage):
        return response
    if isinstance(response, Mapping) and (response.keys() & {*TOKENS, "details"}) and not _is_report(response):
        return _from_fields(response)
    metadata = _get(response, "usage_metadata", _get(response, "usageMetadata"))
    if metadata is not None and (_has(metadata, "prompt_token_count") or _has(metadata, "promptTokenCount")):
        model = _get(response, "model_version", _get(response, "modelVersion"))
        response_id = _get(response, "response_id", _get(response, "responseId"))
        return _named(from_gemini(metadata), "google", response_id, model)
    if metadata is not None:
        return _of_langchain_message(response, metadata)
    if (figures := _get(response, "usage_details")) is not None:
        model = next(filter(None, map(_text, _models_of_agent_framework(response))), "")
        return _named(from_agent_framework(figures), None, _get(response, "response_id"), model)
    usage = _get(response, "usage")
    if callable(usage):  # a method of older results of Pydantic AI
        usage = usage()
    if usage is None:
        return _read_report(response)
    found = _read_report(usage)
    if _has(response, "provider_response_id"):
        tier = _get(_get(response, "provider_details"), "service_tier")
        named = _named(found, response.provider_name, response.provider_response_id, response.model_name)
        return replace(named, tier=_text(tier))
    response_id = _get(response, "id", _get(response, "response_id"))
    tier = _text(_get(response, "service_tier")) or found.tier
    return _named(replace(found, tier=tier), found.provider, response_id, _get(response, "model"))


def _read_report(usage: Any) -> Usage:
    """Return a usage that stands alone."""
    if _has(usage, "prompt_tokens") or _has(usage, "input_tokens_details"):
        return replace(from_openai(usage), provider="openai")
    if _has(usage, "prompt_token_count") or _has(usage, "promptTokenCount"):
        return replace(from_gemini(usage), provider="google")
    if _has(usage, "cache_read_input_tokens") or _has(usage, "cache_creation_input_tokens"):
        return replace(from_anthropic(usage), provider="anthropic")
    if _has(usage, "cache_read_tokens"):
        return from_pydantic_ai(usage)
    if _has(usage, "input_token_count") or _has(usage, "output_token_count"):
        return from_agent_framework(usage)
    if _has(usage, "input_token_details") or (_has(usage, "input_tokens") and _has(usage, "total_tokens")):
        return from_langchain(usage)
    if _has(usage, "input_tokens"):
        return replace(from_anthropic(usage), provider="anthropic")
    raise TypeError(
        "expected a response with its usage, of OpenAI, Anthropic, Gemini, Pydantic AI, LangChain, the Agents SDK or "
        "Agent Framework, "
        f"or a dict such as {{'model': '…', 'input_tokens': 12}}, got: {type(usage).__name__}"
    )


def _is_report(fields: Mapping[str, Any]) -> bool:
    """Return whether fields are a provider's, under names that are also fields of ``Usage``."""
    names = {"input_tokens_details", "input_token_details", "cache_read_input_tokens", "cache_creation_input_tokens"}
    return bool(fields.keys() & {*names, "usage", "usage_metadata", "total_tokens"})


def _from_fields(fields: Mapping[str, Any]) -> Usage:
    known = (*TOKENS, "details", *_TEXTS)
    for name, value in fields.items():
        if name not in known:
            raise TypeError(f"unknown field {name!r}; expected one of {', '.join(known)}")
        if name in TOKENS and value is not None and not _is_count(value):
            raise ValueError(f"{name} must be a whole number from 0 to {_MOST}, or None, got {value!r:.100}")
        if name in _TEXTS and not isinstance(value, str):
            raise ValueError(f"{name} must be a string, got {value!r:.100}")
    details = fields.get("details", {})
    if not isinstance(details, Mapping) or not all(map(_is_count, details.values())):
        raise ValueError(f"details must be a dict of whole numbers from 0 to {_MOST}, got {details!r:.100}")
    return Usage(**fields)


def _of_langchain_message(message: Any, metadata: Any) -> Usage:
    response = _get(message, "response_metadata", {})
    model = _get(response, "model_name", _get(response, "model"))
    response_id = _get(response, "id", _get(message, "id"))
    found = _named(from_langchain(metadata), _get(response, "model_provider"), response_id, model)
    return replace(found, tier=_text(_get(response, "service_tier")))


def _models_of_agent_framework(response: Any) -> Iterator[Any]:
    """Yield the model that a response names, or those of what an agent's response was made of."""
    yield _get(response, "model")
    made_of = _get(response, "raw_representation")
    for each in made_of if isinstance(made_of, list) else [made_of]:
        yield _get(each, "model")


def _named(usage: Usage, provider: Any, response_id: Any, model: Any) -> Usage:
    return replace(usage, provider=_text(provider), response_id=_text(response_id), model=_text(model))


def fields_of(value: Any) -> Mapping[str, Any]:
    """Return the fields of an object that a package has read; an empty mapping if the server sent no object."""
    if hasattr(value, "model_dump"):
        value = value.model_dump(warnings=False)
    elif is_dataclass(value) and not isinstance(value, type):
        value = vars(value)
    return value if isinstance(value, Mapping) else {}


def _count(value: Any, *path: str) -> int | None:
    """Return a figure by its name, behind those of the objects that it is in. If it is no number, it is unknown."""
    for key in path:
        value = fields_of(value).get(key)
    return value if _is_count(value) else None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST


def _details(**numbers: int | None) -> dict[str, int]:
    return {name: number for name, number in numbers.items() if number}


def _of_modalities(name: str, details: Any) -> dict[str, int | None]:
    """Return the tokens by modality, of a list with an object for each."""
    found: dict[str, int | None] = {}
    for each in details if isinstance(details, (list, tuple)) else ():
        figures = {_snake(key): value for key, value in fields_of(each).items()}
        if (modality := _text(figures.get("modality")).upper()) in _MODALITIES:
            found[name.format(modality.lower())] = _count(figures, "token_count")
    return found


def _snake(name: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name)


def _text(value: Any) -> str:
    """Return a text, or that of an enum of texts; empty for anything else."""
    value = getattr(value, "value", value)
    return value if isinstance(value, str) else ""


def _get(value: Any, name: str, default: Any = None) -> Any:
    found = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
    return default if found is None else found


def _has(value: Any, name: str) -> bool:
    return name in value if isinstance(value, Mapping) else hasattr(value, name)
