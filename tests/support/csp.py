"""A content security policy as strict as can be, for the pages that keep to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["strict_admin"]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


def strict_admin(get_response: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Middleware that puts it on the admin's pages, and on the page that describes the API."""

    def middleware(request: Any) -> Any:
        response = get_response(request)
        if request.path.startswith(("/admin/", "/api/docs/")):
            response["Content-Security-Policy"] = POLICY
        return response

    return middleware
