"""How many examples and parameters a test gets: fewer in the quick suite, and on a server."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import HealthCheck, settings

__all__ = ["examples", "load_profile", "steps", "thinned"]

_QUICK_EXAMPLES = 10
_QUICK_STEPS = 20
_is_quick = False


def load_profile(*, quick: bool) -> None:
    """Choose what hypothesis does by default, and what this module answers, before tests are imported."""
    global _is_quick
    _is_quick = quick
    usual = settings.get_profile(settings.get_current_profile_name())
    settings.register_profile(
        "chatmemory",
        usual,
        # A machine that is shared may be slow at any moment, and that says nothing of a strategy or of what is tested.
        suppress_health_check=[HealthCheck.too_slow],
        deadline=None,
        max_examples=_QUICK_EXAMPLES if quick else usual.max_examples,
        stateful_step_count=_QUICK_STEPS if quick else usual.stateful_step_count,
    )
    settings.load_profile("chatmemory")


def examples(usual: int) -> int:
    """Return how many examples a test gets that has ``usual`` of them in the full suite on SQLite.

    On a server they are a sixth, because each statement takes longer. ``CHATMEMORY_TEST_EXAMPLES`` sets the number.
    """
    if chosen := int(os.environ.get("CHATMEMORY_TEST_EXAMPLES", "0")):
        return chosen
    if _is_quick:
        return min(usual, _QUICK_EXAMPLES)
    return usual if os.environ.get("CHATMEMORY_TEST_DATABASE", "sqlite") == "sqlite" else max(1, usual // 6)


def steps(usual: int) -> int:
    """Return how many steps an example of a state machine has."""
    return min(usual, _QUICK_STEPS) if _is_quick else usual


def thinned(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """Of each test with parameters, leave the first two and every fourth."""
    numbers: Counter[str] = Counter()
    for item in items:
        test, _, parameters = item.nodeid.partition("[")
        if not parameters or numbers[test] < 2 or numbers[test] % 4 == 0:
            yield item
        numbers[test] += 1
