"""The messages that a change brings in, encoded once, and counted before anything is locked.

Another framework's own forms of them may come along, and are stored beside their text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

from chatmemory.core.json_text import dumps
from chatmemory.core.messages import ChatMessage, require_messages
from chatmemory.core.tokens import TokenCountEstimator, tokens_of
from chatmemory.database.stored_windows import model_name_of
from chatmemory.models import Message, Origin
from chatmemory.models.message import to_columns


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


class NewMessages(Sequence[ChatMessage]):
    """Messages with the columns of their rows, and with their tokens as far as they were counted."""

    def __init__(
        self, messages: Iterable[ChatMessage], native: NativeForms | None = None, *, copy_of: int | None = None
    ) -> None:
        """
        Args:
            messages: in order.
            native: another framework's forms of them.
            copy_of: the position of the message that they are copies of, so that the history leaves them out.

        Raises:
            TypeError: one of ``messages`` is no message.
            ValueError: a text that no database can hold, or a form that is no JSON.
        """
        self.native = native
        self._state: dict[str, Any] = {}
        if copy_of is not None:
            self._state = {"origin": Origin.COPY, "covers_from": copy_of, "covers_to": copy_of}
        self._messages = require_messages(messages)
        self._columns = [to_columns(message) for message in self._messages]
        if native is not None:
            for columns, text in zip(self._columns, native.columns(), strict=True):
                columns["native"] = text
        self._counts: dict[str, list[int]] = {}

    @classmethod
    def of(cls, messages: Iterable[ChatMessage], native: NativeForms | None = None) -> NewMessages:
        """Return ``messages`` if they are encoded already, else encode them."""
        if isinstance(messages, cls) and (native is None or native is messages.native):
            return messages
        return cls(messages, native)

    @overload
    def __getitem__(self, index: int) -> ChatMessage: ...
    @overload
    def __getitem__(self, index: slice) -> list[ChatMessage]: ...
    def __getitem__(self, index: int | slice) -> ChatMessage | list[ChatMessage]:
        return self._messages[index]

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def lengths(self) -> list[int]:
        """The number of characters that each message takes in the database, without its native form."""
        return [len(columns["text"]) + len(columns["payload"] or "") for columns in self._columns]

    @cached_property
    def fingerprint(self) -> str:
        """A hash that differs if a message differs: 64 hexadecimal digits. Native forms do not count."""
        columns = [(each["type"], each["text"], each["payload"]) for each in self._columns]
        return hashlib.sha256(dumps(columns).encode()).hexdigest()

    def token_counts(self, estimator: TokenCountEstimator) -> list[int]:
        """Return the tokens of each message. Only the first call for a model counts.

        Counting is what takes time in a change, so the first call belongs before any lock.
        """
        model = model_name_of(estimator)
        if model not in self._counts:
            self._counts[model] = [tokens_of(message, estimator) for message in self._messages]
        return self._counts[model]

    def rows(self, estimator: TokenCountEstimator) -> list[Message]:
        """Return unsaved rows without positions, counted by ``estimator``; each call returns new ones."""
        counts = self.token_counts(estimator)
        return [
            Message(**columns, token_count=count, **self._state)
            for columns, count in zip(self._columns, counts, strict=True)
        ]
