"""Messages as another framework has them, kept beside what they say."""

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
    """The name that its forms are kept under."""

    forms: Sequence[Any]
    """A JSON value for each message; None where the message alone says all of it."""

    def columns(self) -> list[str | None]:
        """The column ``native`` of each message.

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
        """What is equal for equal forms of this framework; None where a column has none."""
        form = None if column is None else json.loads(column).get(self.framework)
        return None if form is None else json.dumps(form, sort_keys=True)
