"""The page's content security policy."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpResponseBase

__all__ = ["POLICY", "strict"]

POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        # What people and models say never becomes markup.
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
)


def strict(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Send the policy with every answer of ``view``."""

    @wraps(view)
    def with_policy(*args: Any, **kwargs: Any) -> HttpResponseBase:
        response = view(*args, **kwargs)
        response["Content-Security-Policy"] = POLICY
        return response

    return with_policy
