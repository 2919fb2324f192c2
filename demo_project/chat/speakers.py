"""The choice of the model that answers in the chat: the embedded bot, or one behind OpenAI's protocol."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence

from chatmemory import AiMessage, ChatMessage
from chatmemory.assistant import ToolSpecification
from demo_project.chat.bot import answer
from demo_project.chat.speaker import Speaker

__all__ = ["EmbeddedBot", "chosen_speaker"]

PAUSE = 0.02
"""Seconds between the bot's words, so that the stream can be seen."""


class EmbeddedBot(Speaker):
    """The embedded bot, which needs no key and no network."""

    name = "the built-in bot, no network"

    def stream(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> Iterator[str | AiMessage]:
        whole = answer(messages)
        for word in re.findall(r"\s*\S+\s*", whole.text or ""):
            yield word
            time.sleep(PAUSE)
        yield whole


def chosen_speaker() -> Speaker:
    """Return the model that the environment names, or the embedded bot.

    Only ``CHATMEMORY_DEMO_MODEL`` decides: an API key that is set for other programs must not cost anybody money.
    """
    model = os.environ.get("CHATMEMORY_DEMO_MODEL")
    if not model:
        return EmbeddedBot()
    from demo_project.chat.openai_speaker import OpenAiSpeaker

    return OpenAiSpeaker(model)
