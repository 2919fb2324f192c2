"""The choice of the model that answers in the chat: the embedded bot, or one behind somebody's API."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator, Iterator, Sequence

from django.utils.translation import gettext as _

from chatmemory import AiMessage, ChatMessage
from chatmemory.assistant import ToolSpecification
from demo_project.chat.bot import answer
from demo_project.chat.speaker import Speaker

__all__ = ["EmbeddedBot", "chosen_speaker"]

PAUSE = 0.02
"""Seconds between the bot's words, so that the stream can be seen."""


class EmbeddedBot(Speaker):
    """The embedded bot, which needs no key and no network."""

    def __init__(self) -> None:
        self.name = _("the built-in bot, no network")

    def stream(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> Iterator[str | AiMessage]:
        whole = answer(messages, tools)
        for word in _words(whole):
            yield word
            time.sleep(PAUSE)
        yield whole

    async def astream(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]
    ) -> AsyncIterator[str | AiMessage]:
        whole = answer(messages, tools)
        for word in _words(whole):
            yield word
            await asyncio.sleep(PAUSE)
        yield whole


def _words(whole: AiMessage) -> list[str]:
    return re.findall(r"\s*\S+\s*", whole.text or "")


def chosen_speaker() -> Speaker:
    """Return the model that the environment names, or the embedded bot.

    Only ``CHATMEMORY_DEMO_MODEL`` decides: an API key that is set for other programs must not cost anybody money.
    ``anthropic:`` and ``gemini:`` before the model's name say whose it is; any other is one behind OpenAI's protocol,
    whose names may have colons, too.
    """
    chosen = os.environ.get("CHATMEMORY_DEMO_MODEL")
    if not chosen:
        return EmbeddedBot()
    whose, _colon, model = chosen.partition(":")
    if whose == "anthropic":
        from demo_project.chat.anthropic_speaker import AnthropicSpeaker

        return AnthropicSpeaker(model)
    if whose == "gemini":
        from demo_project.chat.gemini_speaker import GeminiSpeaker

        return GeminiSpeaker(model)
    from demo_project.chat.openai_speaker import OpenAiSpeaker

    return OpenAiSpeaker(chosen)
