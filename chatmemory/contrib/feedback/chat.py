"""The texts of the thumbs in the chat."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _

from chatmemory.contrib.feedback.models import LONGEST_COMMENT, Thumb


def texts() -> dict[str, Any]:
    """Return the texts that the script shows, by name, in the active language."""
    return {
        "feedback-up": str(Thumb.UP.label),
        "feedback-down": str(Thumb.DOWN.label),
        "feedback-comment": _("What was wrong? (optional)"),
        "feedback-edit": _("Comment"),
        "feedback-send": _("Send"),
        "feedback-cancel": _("Cancel"),
        "feedback-saved": _("Your feedback was saved."),
        "feedback-withdrawn": _("Your feedback was withdrawn."),
        "feedback-longest": str(LONGEST_COMMENT),
    }
