"""The texts of the search field in the chat."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext


def texts() -> dict[str, Any]:
    """Return the texts that the script shows, by name, in the active language."""
    return {
        "search-field": _("Search this conversation"),
        "search-results": _("Messages found"),
        "search-close": _("Close the search"),
        "search-none": _("No message has these words."),
        "search-found": [ngettext("%(number)s message found", "%(number)s messages found", n) for n in (1, 2)],
        "search-more": [
            ngettext("More than %(number)s message found", "More than %(number)s messages found", n) for n in (1, 2)
        ],
        "search-too-far": _("This message is too far up to show it here."),
    }
