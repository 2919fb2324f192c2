"""The settings that are compared."""

from __future__ import annotations

from typing import Any

__all__ = ["MARKED", "PER_MESSAGE", "SETTINGS"]

PER_MESSAGE = "per message"
MARKED = "mark of 70"

SETTINGS: dict[str, dict[str, Any]] = {PER_MESSAGE: {}, MARKED: {"low_water": 70, "whole_turns": True}}
"""By name, what a conversation has beside the defaults."""
