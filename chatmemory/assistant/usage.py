"""The tokens that a call of a model really used."""

from __future__ import annotations

from dataclasses import asdict, dataclass

__all__ = ["Usage"]


@dataclass(frozen=True, kw_only=True)
class Usage:
    """The tokens of one call, as the model's server counted them; None for what it did not say."""

    input_tokens: int | None = None
    """All tokens of the request, those from a cache included."""

    output_tokens: int | None = None
    """All tokens of the answer, those of its reasoning included."""

    cached_input_tokens: int | None = None
    """The tokens of the request that were read from a cache."""

    reasoning_tokens: int | None = None
    """The tokens of the answer that were reasoning."""

    def to_data(self) -> dict[str, int | None]:
        """Return the figures as JSON has them, under the names of the fields."""
        return asdict(self)
