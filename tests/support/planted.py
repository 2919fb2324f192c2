"""A conversation with a word of its own in every place where there can be words, and staff with permissions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, combinations
from typing import Any

from django.contrib.auth.models import Permission

from chatmemory import AiMessage, SystemMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory.models import Conversation
from tests.support.factories import ConversationFactory, UserFactory

__all__ = [
    "EVICTED",
    "HIDDEN",
    "METADATA",
    "NOBODY_SAID",
    "PERMISSIONS",
    "RETAINED",
    "SUMMARIZE",
    "TITLE",
    "member",
    "planted",
    "said_in",
    "subsets",
]

EVICTED = {"plantedEvicted", "plantedAttribute"}
RETAINED = {"plantedSystem", "plantedArgument", "plantedThinking", "plantedResult", "plantedRetained"}
METADATA = {"plantedKey", "plantedValue"}
HIDDEN = EVICTED | RETAINED | METADATA
"""What staff may read with ``read_message_text`` only."""

TITLE = "plantedTitle"
NOBODY_SAID = "plantedNowhere"

PERMISSIONS = (
    "view_conversation",
    "add_conversation",
    "change_conversation",
    "delete_conversation",
    "read_message_text",
    "write_message_text",
)


def planted(**settings: Any) -> Conversation:
    """Make it. One message is evicted, at position 1, and four are retained."""
    made = ConversationFactory(
        title=TITLE, metadata={"plantedKey": "plantedValue"}, window="messages", limit=4, **settings
    )
    call = ToolExecutionRequest("1", "look_up", '{"what": "plantedArgument"}')
    made.memory.add(
        SystemMessage("plantedSystem"),
        UserMessage("plantedEvicted", attributes={"note": "plantedAttribute"}),
        AiMessage(None, [call], thinking="plantedThinking"),
        ToolExecutionResultMessage("1", "look_up", "plantedResult"),
    )
    made.memory.add(UserMessage("plantedRetained"))
    made.refresh_from_db()
    return made


SUMMARIZE = "compact_conversation"
"""The permission to have a summary made; apart, because every further one doubles the subsets."""


def subsets() -> Iterator[tuple[str, ...]]:
    """Every set of permissions."""
    return chain.from_iterable(combinations(PERMISSIONS, size) for size in range(len(PERMISSIONS) + 1))


def member(codenames: Iterable[str] = (*PERMISSIONS, SUMMARIZE), **more: Any) -> Any:
    """Make a member of staff with permissions."""
    user = UserFactory(**{"is_staff": True, **more})
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    return user


def said_in(answer: Any) -> set[str]:
    """The planted words in an answer: in its body, and in its headers."""
    body = b"".join(answer.streaming_content) if answer.streaming else answer.content
    whole = body.decode() + repr(answer.headers)
    return {word for word in {*HIDDEN, TITLE} if word in whole}
