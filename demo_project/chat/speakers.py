"""Who answers in the chat: the embedded bot, or a model behind OpenAI's protocol."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Generator, Sequence
from typing import Protocol

from chatmemory.messages import AiMessage, ChatMessage
from demo_project.chat.bot import answer

__all__ = ["EmbeddedBot", "Speaker", "SpeakerError", "chosen_speaker"]

PAUSE = 0.02
"""Seconds between the bot's words, so that they can be seen to come one by one."""


class SpeakerError(Exception):
    """Why there is no answer, in words for the one who waits for it."""

    def __init__(self, detail: str, *, again: bool = True) -> None:
        super().__init__(detail)
        self.again = again
        """Whether the same memory may have an answer another time."""


class Speaker(Protocol):
    """A model."""

    name: str
    """What the page calls it."""

    def speak(self, messages: Sequence[ChatMessage]) -> Generator[str, None, AiMessage]:
        """Yield the answer as it comes, and return it whole.

        Raises:
            SpeakerError: it failed.
        """
        ...


class EmbeddedBot:
    """Needs no key and no network."""

    name = "the built-in bot, no network"

    def speak(self, messages: Sequence[ChatMessage]) -> Generator[str, None, AiMessage]:
        whole = answer(messages)
        for word in re.findall(r"\s*\S+\s*", whole.text or ""):
            yield word
            time.sleep(PAUSE)
        return whole


def chosen_speaker() -> Speaker:
    """The model that the environment names, or the embedded one.

    ``CHATMEMORY_DEMO_MODEL`` is what decides: a key that lies about for other programs must not cost anybody money.
    """
    model = os.environ.get("CHATMEMORY_DEMO_MODEL")
    if not model:
        return EmbeddedBot()
    from demo_project.chat.openai_speaker import OpenAiSpeaker

    return OpenAiSpeaker(model)
