"""The deltas of a model beside plain text: its thinking, its whole answer, and the tokens that the call used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from chatmemory.core.messages import AiMessage

_ATTRIBUTE = "usage"


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

    def __add__(self, other: Usage) -> Usage:
        """Return the tokens of both; None only for what neither says."""
        if not isinstance(other, Usage):
            return NotImplemented
        mine, theirs = self.to_data(), other.to_data()
        return Usage(
            **{
                name: None if count is None and theirs[name] is None else (count or 0) + (theirs[name] or 0)
                for name, count in mine.items()
            }
        )

    def to_data(self) -> dict[str, int | None]:
        """Return the figures as JSON has them, under the names of the fields."""
        return asdict(self)


@dataclass(frozen=True)
class Thinking:
    """A delta of the model's thinking, as it comes."""

    text: str


@dataclass(frozen=True)
class Answered:
    """A whole answer of a model, with the tokens that the call used."""

    message: AiMessage

    usage: Usage | None = None
    """None if the model does not say what it used."""


def as_answered(answer: AiMessage | Answered) -> Answered:
    """Return ``answer`` with its usage, which is unknown if the model gave none."""
    return answer if isinstance(answer, Answered) else Answered(answer)


@contextmanager
def told_by_errors(known: Callable[[], Usage | None]) -> Iterator[None]:
    """Let any exception that leaves the ``with`` block tell what the call used, also ``GeneratorExit``.

    Args:
        known: returns the usage as far as the server has told it.
    """
    try:
        yield
    except BaseException as error:
        if (usage := known()) is not None:
            setattr(error, _ATTRIBUTE, usage)
        raise


def usage_told_by(error: BaseException | None) -> Usage | None:
    """Return the usage that the exception of a call tells; None if it tells none."""
    usage = getattr(error, _ATTRIBUTE, None)
    return usage if isinstance(usage, Usage) else None
