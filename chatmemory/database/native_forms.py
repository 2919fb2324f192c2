"""Another framework's own forms of messages, which are stored beside their text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["NativeForms"]


@dataclass(frozen=True)
class NativeForms:
    """One framework's own forms of some messages."""

    framework: str
    """The key of its forms in the column."""

    forms: Sequence[Any]
    """A JSON value for each message; None if the framework can make it of the message alone."""

    def columns(self) -> list[str | None]:
        """Return the column ``native`` of each message.

        Raises:
            ValueError: a form is no JSON; a float that is not finite, for one.
            TypeError: the same, of another type.
        """
        return [
            # Everything beyond ASCII is escaped: no database refuses it.
            None if form is None else json.dumps({self.framework: form}, allow_nan=False, separators=(",", ":"))
            for form in self.forms
        ]

    def comparable(self, column: str | None) -> str | None:
        """Return this framework's form as canonical text, to compare it; None if the column has none."""
        form = None if column is None else json.loads(column).get(self.framework)
        return None if form is None else json.dumps(form, sort_keys=True)

    def onto(self, column: str | None, new: str | None) -> str | None:
        """Return the column of a message that had ``column``, and of which this framework now has the form in ``new``.

        The forms of other frameworks stay: the message is the same.
        """
        kept = {} if column is None else json.loads(column)
        kept.pop(self.framework, None)
        forms = kept | ({} if new is None else json.loads(new))
        return json.dumps(forms, separators=(",", ":")) if forms else None
