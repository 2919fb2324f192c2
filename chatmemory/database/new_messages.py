"""The messages that a change adds, encoded once, and counted before anything is locked.

Another framework's native forms of the messages may be stored with them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
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
    """One framework's native forms of messages."""

    framework: str
    """The name of the framework, which is its key in the column."""

    forms: Sequence[Any]
    """A JSON value for each message; None if the framework can derive it from the message."""

    def columns(self) -> list[str | None]:
        """Return the column ``native`` of each message.

        Raises:
            ValueError: a form is not JSON, for example a float that is not finite.
            TypeError: a value in a form is not JSON.
        """
        return [
            # All non-ASCII characters are escaped, so every database accepts the text.
            None if form is None else json.dumps({self.framework: form}, allow_nan=False, separators=(",", ":"))
            for form in self.forms
        ]

    def comparable(self, column: str | None) -> str | None:
        """Return this framework's form as canonical text for comparisons, or None."""
        form = None if column is None else json.loads(column).get(self.framework)
        return None if form is None else json.dumps(form, sort_keys=True)

    def onto(self, column: str | None, new: str | None) -> str | None:
        """Return ``column`` with this framework's form replaced by the one in ``new``.

        The forms of other frameworks stay, because the message is the same.
        """
        kept = {} if column is None else json.loads(column)
        kept.pop(self.framework, None)
        forms = kept | ({} if new is None else json.loads(new))
        return json.dumps(forms, separators=(",", ":")) if forms else None


class NewMessages(Sequence[ChatMessage]):
    """Messages with the columns of their rows, and with the token counts that are known."""

    def __init__(
        self,
        messages: Iterable[ChatMessage],
        native: NativeForms | None = None,
        *,
        copy_of: int | None = None,
        written_by: str | Mapping[str, str] = "",
    ) -> None:
        """Args:
            messages: the messages, in order.
            native: another framework's forms of them.
            copy_of: the position of the message of which these are copies. Copies are not in the history.
            written_by: the ``WrittenBy`` of all, or of each type.

        Raises:
            TypeError: an item is not a message.
            ValueError: databases cannot store a text, or a form is not JSON.
        """
        self.native = native
        self._state: dict[str, Any] = {}
        if copy_of is not None:
            self._state = {"origin": Origin.COPY, "covers_from": copy_of, "covers_to": copy_of}
        self._messages = require_messages(messages)
        self._columns = [to_columns(message) for message in self._messages]
        for columns in self._columns:
            columns["written_by"] = written_by if isinstance(written_by, str) else written_by.get(columns["type"], "")
        if native is not None:
            for columns, text in zip(self._columns, native.columns(), strict=True):
                columns["native"] = text
        self._counts: dict[str, list[int]] = {}

    @classmethod
    def of(cls, messages: Iterable[ChatMessage], native: NativeForms | None = None) -> NewMessages:
        """Encode ``messages``, unless they are already encoded."""
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
        """A hash of the messages without native forms: 64 hexadecimal digits."""
        columns = [(each["type"], each["text"], each["payload"]) for each in self._columns]
        return hashlib.sha256(dumps(columns).encode()).hexdigest()

    def token_counts(self, estimator: TokenCountEstimator) -> list[int]:
        """Return the tokens of each message. Only the first call for a model counts.

        Counting is the slow part of a change, so make the first call before any lock.
        """
        model = model_name_of(estimator)
        if model not in self._counts:
            self._counts[model] = [tokens_of(message, estimator) for message in self._messages]
        return self._counts[model]

    def rows(self, estimator: TokenCountEstimator) -> list[Message]:
        """Return new unsaved rows without positions, counted by ``estimator``."""
        counts = self.token_counts(estimator)
        return [
            Message(**columns, token_count=count, **self._state)
            for columns, count in zip(self._columns, counts, strict=True)
        ]
