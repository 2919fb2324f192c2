"""The rates at which one user may read, write, preview and search."""

from __future__ import annotations

from rest_framework.throttling import UserRateThrottle

from chatmemory.conf import setting

__all__ = ["throttles"]


class _ScopeThrottle(UserRateThrottle):
    def __init__(self, scope: str, rate: str) -> None:
        self.scope = f"chatmemory-{scope}"
        self.rate = rate
        super().__init__()


def throttles(scope: str) -> list[UserRateThrottle]:
    """Return the throttles of a key of ``THROTTLE_RATES``: one, or none if it has no rate."""
    rate = setting("THROTTLE_RATES").get(scope)
    return [_ScopeThrottle(scope, rate)] if rate else []
