"""Messages of frameworks that hold a text that no database can store."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.messages import ChatMessage
from chatmemory.core.serialization.reader import read_message
from chatmemory.core.serialization.storable import with_replacements
from chatmemory.core.serialization.writer import message_to_data
from chatmemory.database.change import Change
from chatmemory.database.new_messages import NativeForms, NewMessages
from chatmemory.database.write_change import after_commit
from chatmemory.formats.rules import Repair, RepairReason
from chatmemory.signals import memory_repaired

__all__ = ["NativeMessages"]


class NativeMessages:
    """Messages that a framework adds, often in the middle of a run, which an error would end.

    So U+FFFD takes the place of each character that no database can store, in the message and in its form.
    """

    def __init__(
        self,
        framework: str,
        messages: Sequence[ChatMessage],
        forms: Sequence[Any],
        replaced: Collection[int] = (),
    ) -> None:
        """
        Args:
            framework: the framework of the native forms.
            messages: the messages, in order.
            forms: the framework's own form of each, a JSON value; None if the message expresses all of it.
            replaced: the indexes of messages in which the caller has replaced characters.

        Raises:
            TypeError: one of ``messages`` is no message.
            ValueError: a form is no JSON.
        """
        self._framework = framework
        changed = set(replaced)
        try:
            self.encoded = NewMessages(messages, NativeForms(framework, forms))
        except InvalidMessageError:
            cleaned = list(map(_cleaned, messages))
            changed |= {index for index, message in enumerate(messages) if cleaned[index] != message}
            self.encoded = NewMessages(cleaned, NativeForms(framework, list(map(with_replacements, forms))))
        what = "U+FFFD took the place of a character that no database can store"
        self._repairs = [Repair(index, RepairReason.CHARACTER, what) for index in sorted(changed)]

    def tell_repairs(self, change: Change) -> None:
        """Send the signal ``memory_repaired`` once a change that stored these messages is committed."""
        if self._repairs:
            after_commit(memory_repaired, change.conversation, format=self._framework, repairs=self._repairs)


def _cleaned(message: ChatMessage) -> ChatMessage:
    data = message_to_data(message)
    replaced = with_replacements(data)
    return message if replaced == data else read_message(replaced)
