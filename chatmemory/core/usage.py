"""The tokens of one call of a model, with one meaning for all providers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
"""The counts of a ``Usage``."""


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What the model's server reported about one call. A count is None if the server did not report it.

    ``chatmemory.formats.usage`` reads it from a provider's response.
    """

    input_tokens: int | None = None
    """All tokens of the request, including those that were read from a cache or written to it."""

    output_tokens: int | None = None
    """All tokens of the answer, including those of its reasoning."""

    cache_read_tokens: int | None = None
    """The tokens of the request that were read from a cache."""

    cache_write_tokens: int | None = None
    """The tokens of the request that were written to a cache."""

    reasoning_tokens: int | None = None
    """The tokens of the answer that were reasoning."""

    tier: str = ""
    """The service tier, such as ``"priority"``, ``"flex"`` or ``"batch"``; empty if the server did not report it."""

    details: Mapping[str, int] = field(default_factory=dict, hash=False)
    """Further numbers, such as ``cache_write_1h_tokens``, ``input_audio_tokens`` or ``web_searches``."""

    response_id: str = field(default="", compare=False)
    """The provider's ID of the response."""

    model: str = field(default="", compare=False)
    """The model that answered, which the provider may name more precisely than the request."""

    provider: str = field(default="", compare=False)
    """The provider, such as ``"openai"``, or the host of another server."""

    def __add__(self, other: Usage) -> Usage:
        """Return the tokens of both; None only for what neither says."""
        if not isinstance(other, Usage):
            return NotImplemented
        counts = self.to_data()
        for name, count in other.to_data().items():
            if count is not None:
                counts[name] = (counts[name] or 0) + count
        details = dict(self.details)
        for name, number in other.details.items():
            details[name] = details.get(name, 0) + number
        texts = {
            name: getattr(other, name) or getattr(self, name) for name in ("tier", "response_id", "model", "provider")
        }
        return Usage(**counts, **texts, details=details)  # type: ignore[arg-type]

    def to_data(self) -> dict[str, int | None]:
        """Return the counts as JSON has them, under the names of the fields."""
        return {name: getattr(self, name) for name in TOKENS}

    def to_open_telemetry(self) -> dict[str, str | int]:
        """Return the counts that are known as attributes of OpenTelemetry's conventions for generative AI."""
        names = {
            "gen_ai.usage.input_tokens": self.input_tokens,
            "gen_ai.usage.output_tokens": self.output_tokens,
            "gen_ai.usage.cache_read.input_tokens": self.cache_read_tokens,
            "gen_ai.usage.cache_creation.input_tokens": self.cache_write_tokens,
            "gen_ai.usage.reasoning.output_tokens": self.reasoning_tokens,
            "gen_ai.response.id": self.response_id or None,
            "gen_ai.response.model": self.model or None,
        }
        return {name: value for name, value in names.items() if value is not None}
