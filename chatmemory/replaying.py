"""Replay the requests of many conversations, as they were, and with other windows.

Each function yields after every conversation, so that the caller can show progress or stop. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal

from django.db.models import QuerySet

from chatmemory.conf import setting
from chatmemory.core.asynchronous import as_async_iterator
from chatmemory.database.operations.replay import FIGURES, REPLAYED, Replay, RequestFigures, check_variant
from chatmemory.database.operations.replay import replay as replay_one
from chatmemory.database.reading import on_primary, pages
from chatmemory.models import Conversation, WindowSettings

__all__ = ["FIGURES", "MOST_AT_ONCE", "REPLAYED", "Replay", "Replayed", "areplay", "replay"]

MOST_AT_ONCE = 10_000
"""The maximum number of messages of a conversation that a page or a request replays."""

_MILLION = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Replayed(RequestFigures):
    """The figures of the requests of conversations with one window."""

    conversations: int = 0

    cost: Decimal = Decimal(0)
    """The price of the input of the requests whose model is in ``PRICES``."""

    priced_requests: int = 0
    """The number of requests whose model is in ``PRICES``."""

    def __add__(self, other: Replayed) -> Replayed:
        return Replayed(**{name: value + getattr(other, name) for name, value in vars(self).items()})


def replay(
    conversations: QuerySet[Conversation] | None = None, variants: Sequence[WindowSettings | None] = (None,)
) -> Iterator[list[Replayed]]:
    """Replay ``conversations``. Yield a list of figures for each, one item for each variant, in the order of
    ``variants``.

    Args:
        conversations: the conversations; by default all.
        variants: the settings of the windows from the start; missing settings are those of the conversation. None means
            what really happened.

    Raises:
        TypeError: a setting is unknown or is ``model``, because a replay uses stored token counts.
        ValueError: a setting is invalid.
    """
    for settings in variants:
        check_variant(settings or {})
    return _replay(on_primary(conversations), variants)


areplay = as_async_iterator(replay)
"""Async version of ``replay``."""


def _replay(
    conversations: QuerySet[Conversation], variants: Sequence[WindowSettings | None]
) -> Iterator[list[Replayed]]:
    for page in pages(conversations):
        for conversation in page:
            try:
                figures = replay_one(conversation, variants)
            except Conversation.DoesNotExist:  # it has been erased
                continue
            yield [_account(conversation.model, one) for one in figures]


def _account(model: str, figures: Replay) -> Replayed:
    prices = setting("PRICES").get(model)
    cost = Decimal(0)
    if prices is not None:
        full, cached = (Decimal(str(prices[name])) for name in ("input", "cached_input"))
        cost = (figures.full_price_tokens * full + figures.cacheable_tokens * cached) / _MILLION
    shared = {field.name: getattr(figures, field.name) for field in fields(RequestFigures)}
    return Replayed(**shared, conversations=1, cost=cost, priced_requests=figures.requests if prices is not None else 0)
