"""Conversations and windows that were thought up by hand, one for each sentence of the rules and each edge of them."""

from __future__ import annotations

from tests.tools.window_scenarios import clearing, clearing_by_hand, defaults, marks, mixes, pins, turns
from tests.tools.window_scenarios.scenario import Scenario

__all__ = ["SCENARIOS", "Scenario"]

SCENARIOS = [
    scenario
    for module in (defaults, marks, turns, pins, clearing, clearing_by_hand, mixes)
    for scenario in module.SCENARIOS
]
