"""Where the messages of a memory stand: its beginning, the running total of tokens, and what is out of order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from chatmemory.core.messages import ChatMessageType
from chatmemory.models import STAND_INS, Conversation


@dataclass(frozen=True, kw_only=True)
class MemoryMap:
    """The places of a memory's messages, by position."""

    edge: int | None
    """The position at which the memory begins, not counting a system message in front; None if it is empty."""

    totals: dict[int, int]
    """Tokens of the memory up to and with each message."""

    places: dict[int, int] = field(default_factory=dict)
    """The places in the memory, counted from 1, of messages that did not arrive in that order."""

    @classmethod
    def of(
        cls, memory: Iterable[tuple[int, str, int]], placeholders: Mapping[int, int] = MappingProxyType({})
    ) -> MemoryMap:
        """Return the map of a memory.

        Args:
            memory: position, type and tokens of each message, in memory order.
            placeholders: the position that each message stands for which took the place of others, by its position.
                They alone do not change the order of the others.
        """
        totals: dict[int, int] = {}
        total = 0
        leads = None
        for position, kind, tokens in memory:
            if not totals and kind == ChatMessageType.SYSTEM.value:
                leads = position
            total += tokens
            totals[position] = total
        in_order = sorted(totals)
        stands = [placeholders.get(position, position) for position in totals]
        places = {
            position: place
            for place, (position, stand, arrived) in enumerate(zip(totals, stands, sorted(stands), strict=True), 1)
            if stand != arrived or position in placeholders
        }
        edge = next((position for position in in_order if position != leads), leads)
        return cls(edge=edge, totals=totals, places=places)

    @classmethod
    def now(cls, conversation: Conversation) -> MemoryMap:
        """Return the map of what the model gets now."""
        columns = ("position", "type", "token_count", "origin", "covers_to")
        rows = list(conversation.messages.retained().values_list(*columns))
        placeholders = {
            position: stand for position, *_, origin, stand in rows if origin in STAND_INS and stand is not None
        }
        return cls.of((row[:3] for row in rows), placeholders)
