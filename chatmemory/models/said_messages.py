"""The attribute ``conversation.messages``, whose methods do not add rows, but say how messages are added."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from django.db.models.fields.related_descriptors import ReverseManyToOneDescriptor
from django.utils.functional import cached_property

__all__ = ["SaidMessages", "refuse_to_add"]


def refuse_to_add(*args: Any, **kwargs: Any) -> NoReturn:
    """Refuse to insert or move a row of a message.

    Raises:
        TypeError: always.
    """
    raise TypeError(
        'messages are not added as rows: use conversation.memory.add(UserMessage("Hi")), which also counts them and '
        "bounds the memory"
    )


if TYPE_CHECKING:
    Descriptor = ReverseManyToOneDescriptor[Any]
else:
    Descriptor = ReverseManyToOneDescriptor


class SaidMessages(Descriptor):
    """The descriptor of ``conversation.messages``."""

    @cached_property
    def related_manager_cls(self) -> Any:
        # Django's methods take rows only, so their own errors about a message would be misleading.
        refused = dict.fromkeys(["add", "aadd", "create", "acreate", "set", "aset"], staticmethod(refuse_to_add))
        return type("SaidMessagesManager", (super().related_manager_cls,), refused)
