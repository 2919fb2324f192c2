"""The assistant of a server: it says what the user's message asks for, and waits for signals of another process.

A signal is a file in the folder ``CHATMEMORY_TEST_SIGNALS``. The model notes its calls there, in ``notes``.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

from chatmemory import AiMessage, ChatMessage
from chatmemory.assistant import Assistant, ChatModel, ToolSpecification, turn
from chatmemory.rest.turns import stream
from tests.support.assistants import text_of

__all__ = ["Signals", "assistant"]

_PATIENCE = 60  # seconds, for what takes milliseconds
_PAUSE = 0.01  # seconds


class Signals:
    """The signals in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def give(self, name: str) -> None:
        """Give a signal."""
        (self.folder / name).touch()

    def has(self, name: str) -> bool:
        """Return whether a signal was given."""
        return (self.folder / name).exists()

    def note(self, act: str, text: str) -> None:
        """Note what happens, after all that was noted before, in whatever process."""
        log = os.open(self.folder / "notes", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            os.write(log, (json.dumps([act, text]) + "\n").encode())  # in one piece, whoever is killed
        finally:
            os.close(log)

    def notes(self) -> list[tuple[str, str]]:
        """Return what was noted, in order."""
        path = self.folder / "notes"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(act, text) for act, text in map(json.loads, lines)]

    def calls(self) -> list[str]:
        """Return the texts that the model was asked to answer, in order."""
        return [text for act, text in self.notes() if act == "called"]


class Signalled(ChatModel):
    """A model that answers ``wait NAME``, ``hush NAME`` and ``talk NAME``, and repeats everything else in words.

    It waits for the signal NAME after its first piece, or before, or talks until it comes. It gives the signal
    ``NAME.over`` when it has ended or was left.
    """

    def __init__(self, signals: Signals) -> None:
        self._signals = signals

    def chat(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> AiMessage:
        *_, last = self.stream(messages, tools)
        assert isinstance(last, AiMessage)
        return last

    def stream(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]) -> Iterator[str | AiMessage]:
        for piece in self._speak(text_of(messages[-1])):
            if piece is None:
                time.sleep(_PAUSE)
            else:
                yield piece

    async def astream(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]
    ) -> AsyncIterator[str | AiMessage]:
        for piece in self._speak(text_of(messages[-1])):
            if piece is None:
                await asyncio.sleep(_PAUSE)
            else:
                yield piece

    def _speak(self, said: str) -> Iterator[str | AiMessage | None]:
        """Yield pieces and the answer, and None where a moment shall pass."""
        self._signals.note("called", said)
        act, _, name = said.partition(" ")
        try:
            if act == "wait":
                yield "One "
                yield from self._wait(name)
                yield "two."
                yield AiMessage("One two.")
            elif act == "hush":
                yield from self._wait(name)
                yield "At last."
                yield AiMessage("At last.")
            elif act == "talk":
                said_so_far = ""
                for _ in self._wait(name):
                    said_so_far += "word "
                    yield "word "
                    yield None
                yield AiMessage(said_so_far)
            else:
                yield "Re:"
                for word in said.split(" "):
                    yield f" {word}"
                    yield from [None] * random.randrange(4)
                yield AiMessage(f"Re: {said}")
        finally:
            if act in ("wait", "hush", "talk"):
                self._signals.give(f"{name}.over")

    def _wait(self, name: str) -> Iterator[None]:
        until = time.monotonic() + _PATIENCE
        while not self._signals.has(name):
            if time.monotonic() > until:
                raise TimeoutError(f"nobody gave the signal {name}")
            yield None


def assistant(request: Any) -> Assistant:
    """Return the assistant that ``CHATMEMORY["ASSISTANT"]`` of ``tests.settings.turns`` names."""
    # A test does not wait for 15 seconds of silence, nor 1 until a turn looks whether it was interrupted. Only the
    # processes of servers come here.
    stream.SILENCE = 0.3
    turn._LONGEST_DEAFNESS = 0.5
    timeout = float(os.environ.get("CHATMEMORY_TEST_TURN_TIMEOUT", "90"))
    return Assistant(Signalled(Signals(Path(os.environ["CHATMEMORY_TEST_SIGNALS"]))), turn_timeout=timeout)
