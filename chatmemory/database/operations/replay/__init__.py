"""Replay what a conversation sent to its model: as it was, or as another window would have had it.

The walk needs the positions, types, tokens and versions of the history, and no text. A provider that caches prompts
charges little for the part of a request that the request before began with; so the figures say what a window costs.
"""

from chatmemory.database.operations.replay.memory_walks import (
    FIGURES,
    REPLAYED,
    Replay,
    RequestFigures,
    check_variant,
    replay,
)

__all__ = ["FIGURES", "REPLAYED", "Replay", "RequestFigures", "check_variant", "replay"]
