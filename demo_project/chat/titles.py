"""Titles of chats with the embedded bot, which can name nothing: the first words that the user said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.dispatch import receiver

from chatmemory import UserMessage
from chatmemory.conf import setting
from chatmemory.models import Conversation, Message
from chatmemory.signals import messages_added
from demo_project.chat.speakers import EmbeddedBot, chosen_speaker

__all__ = ["name_by_first_words"]

_ASSISTANT = "demo_project.chat.assistant.assistant"
"""The assistant of the demo: in the tests' process others answer, too."""

_LONGEST = 60


@receiver(messages_added, sender=Conversation)
def name_by_first_words(conversation: Conversation, messages: Sequence[Message], **kwargs: Any) -> None:
    """Name an untitled conversation by the first line that its user says."""
    if setting("ASSISTANT") != _ASSISTANT:
        return
    said = next((row.text for row in messages if row.type == UserMessage.type and row.text.strip()), None)
    if said is None or conversation.title or not isinstance(chosen_speaker(), EmbeddedBot):
        return
    line = said.strip().splitlines()[0]
    title = line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
    # A user may have named it in the meantime.
    Conversation.objects.filter(pk=conversation.pk, title="").update(title=title)
