"""The texts of the figures in the chat."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _


def texts() -> dict[str, Any]:
    """Return the texts that the script shows, by name, in the active language."""
    return {
        "usage-seconds": _("%(seconds)s s"),
        "usage-tokens": _("%(input)s + %(output)s tokens"),
    }
