"""Replay the history of a conversation as it was, and under other windows, in one walk through its rows."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

from django.db import router

from chatmemory.database.connections import retry
from chatmemory.database.operations.replay.figures import Replay
from chatmemory.database.operations.replay.memory_walks import RecordedWalk, SimulatedWalk, Walk
from chatmemory.database.operations.replay.past import versions_of
from chatmemory.database.stored_windows import apply_window_settings, check_window_settings, window_of
from chatmemory.models import Conversation, WindowSettings

__all__ = ["check_variant", "replay"]


def check_variant(settings: WindowSettings) -> None:
    """Raise if a history cannot be replayed with these settings.

    Raises:
        TypeError: a setting that does not exist; ``model``, for the tokens of a replay are those that are stored; or
            ``compact_at``, for its summaries are those that were made.
        ValueError: a setting has no meaning.
    """
    if "model" in settings:
        raise TypeError("a replay takes no model: it uses the tokens that are stored; chatmemory_recount counts anew")
    if "compact_at" in settings:
        raise TypeError("a replay takes no compact_at: it repeats the summaries that were made, and makes no others")
    check_window_settings(settings)


def replay(conversation: Conversation, variants: Sequence[WindowSettings | None]) -> list[Replay]:
    """Return the figures of each variant, in one walk through the history.

    Args:
        conversation: is read anew.
        variants: settings that the window would have had from the start, the row's where they are missing; None for
            what really happened.

    Raises:
        Conversation.DoesNotExist: the conversation has been erased.
        TypeError: a setting that does not exist, or ``model``.
        ValueError: a setting has no meaning.
    """
    for settings in variants:
        check_variant(settings or {})
    # Never a replica, which may not have the latest messages yet.
    database = router.db_for_write(Conversation, instance=conversation)
    row = retry(database, lambda: Conversation.objects.using(database).get(pk=conversation.pk))
    walks = [_walk(row, settings) for settings in variants]
    for version in versions_of(row):
        for walk in walks:
            walk.go_to(version)
    return [walk.meter.figures(missing=row.purged_count) for walk in walks]


def _walk(conversation: Conversation, settings: WindowSettings | None) -> Walk:
    if settings is None:
        return RecordedWalk(window_of(conversation))
    variant = copy(conversation)
    apply_window_settings(variant, settings)
    return SimulatedWalk(window_of(variant))
