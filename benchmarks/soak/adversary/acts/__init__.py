"""Everything that the package does to its tables, or reads from them, as acts that can be disturbed."""

from __future__ import annotations

from benchmarks.soak.adversary.acts.act import Act

__all__ = ["every_act"]


def every_act() -> list[Act]:
    """Return all acts. Django must be set up."""
    from benchmarks.soak.adversary.acts import adapters, compaction, maintenance, memory, rest, stores, transfer, turns

    parts = (memory, stores, compaction, maintenance, transfer, turns, rest, adapters)
    return [act for part in parts for act in part.ACTS]
