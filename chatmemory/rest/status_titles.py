"""The titles of problems: the names of their HTTP statuses."""

from __future__ import annotations

from http import HTTPStatus

from django.utils.translation import gettext, gettext_noop

__all__ = ["status_title"]

# As RFC 9110 has them; Python changed two of them in 3.13.
_TITLES = {
    400: gettext_noop("Bad Request"),
    401: gettext_noop("Unauthorized"),
    403: gettext_noop("Forbidden"),
    404: gettext_noop("Not Found"),
    405: gettext_noop("Method Not Allowed"),
    406: gettext_noop("Not Acceptable"),
    409: gettext_noop("Conflict"),
    411: gettext_noop("Length Required"),
    412: gettext_noop("Precondition Failed"),
    413: gettext_noop("Content Too Large"),
    415: gettext_noop("Unsupported Media Type"),
    422: gettext_noop("Unprocessable Content"),
    429: gettext_noop("Too Many Requests"),
    500: gettext_noop("Internal Server Error"),
    502: gettext_noop("Bad Gateway"),
    503: gettext_noop("Service Unavailable"),
}


def status_title(status: int) -> str:
    """Return the name of an HTTP status in the active language."""
    if status in _TITLES:
        return gettext(_TITLES[status])
    return next((each.phrase for each in HTTPStatus if each.value == status), "Error")
