"""Random turns of an assistant, in pieces and in messages, as streams get them."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from chatmemory import (
    AiMessage,
    ChatMessage,
    ImageContent,
    SystemMessage,
    TextContent,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.formats.ai_sdk.stream import DONE, UIMessageStream, sse

__all__ = ["RandomTurn"]

_WORDS = [
    "Hello",
    " ",
    "世界",
    "🎉",
    "👩\u200d👧",
    "\n",
    "\r\n\r\n",
    '"',
    "\\",
    "data: x\n\n",
    "\u2028",
    "</p>",
    "\x7f",
]
_IDS = ["a", "b", "call_0", "call_1", "", None, "constructor", "a b/ü"]
_NAMES = ["now", "look up!", "", None, "a/b.c", "天気", "tool-x"]
_JSON = [
    "{}",
    "{ }",
    '{"city":"München"}',
    '{"city": "München"}',
    '{"a":1e999}',
    '{"n":1.0,"n":2}',
    "[1]",
    "no JSON",
    "",
]


@dataclass
class RandomTurn:
    """One turn: what was stored of it, and the stream that tells it."""

    random: Random
    stream: UIMessageStream
    stored: list[ChatMessage] = field(default_factory=list)
    events: list[bytes] = field(default_factory=list)
    is_cut: bool = False
    """Whether it ended within an answer, so that pieces of this one were streamed, and nothing was stored."""

    def run(self) -> None:
        self._send(self.stream.start())
        if self.random.random() < 0.3:
            opening = [ToolExecutionResultMessage("a", "now", "?", is_error=True), SystemMessage("S"), UserMessage("U")]
            self._send(self.stream.said(opening[self.random.randrange(3) :]))
        for _ in range(self.random.choice([0, 1, 1, 1, 2, 2, 3, 5])):
            if self.random.random() < 0.1:
                self._tell_pieces(self._answer())
                self.is_cut = True
                break
            self._step()
        end = self.random.choice([self.stream.finish, self.stream.abort, lambda: self.stream.error("It failed.")])
        self._send(end())
        self.events.append(DONE)

    def _step(self) -> None:
        answer = self._answer()
        if self.random.random() < 0.8:
            self._tell_pieces(answer)
        self._store([answer])
        if self.random.random() < 0.3:
            self._send(self.stream.memory({"added": [], "evicted": [{"position": 1}], "version": 2}))
        results: list[ChatMessage] = [self._result(request) for request in answer.tool_execution_requests]
        if self.random.random() < 0.1:
            self.random.shuffle(results)
        if self.random.random() < 0.1:
            results = results[1:]
        if self.random.random() < 0.05:
            results.append(self._result(ToolExecutionRequest(self._pick(_IDS), self._pick(_NAMES), "{}")))
        if self.random.random() < 0.5:
            self._store(results)
        else:
            for result in results:
                self._store([result])

    def _answer(self) -> AiMessage:
        requests = [
            ToolExecutionRequest(
                self._pick(_IDS) if self.random.random() < 0.5 else f"c{self.random.random()}",
                self._pick(_NAMES),
                self._pick([*_JSON, None, self._text()]),
            )
            for _ in range(self._pick([0, 0, 0, 1, 1, 2, 3]))
        ]
        attributes = self._pick([{}, {}, {"thinking_signature": "s" * 9, "x": [None, {"y": 0.5}]}])
        return AiMessage(
            self._pick([None, "", self._text(), self._text()]),
            requests,
            thinking=self._pick([None, None, "", self._text()]),
            attributes=attributes,
        )

    def _result(self, request: ToolExecutionRequest) -> ToolExecutionResultMessage:
        id = request.id if self.random.random() < 0.95 else self._pick(_IDS)
        name = request.name if self.random.random() < 0.95 else self._pick(_NAMES)
        is_error = self._pick([None, None, None, False, True])
        if self.random.random() < 0.2:
            contents = [TextContent(self._text()), ImageContent(base64_data="aGk=", mime_type="image/png")]
            return ToolExecutionResultMessage(id, name, contents=contents[self._pick([0, 1]) :], is_error=is_error)
        attributes = self._pick([{}, {}, {}, {"x": 1}])
        return ToolExecutionResultMessage(
            id, name, self._pick([*_JSON, self._text()]), is_error=is_error, attributes=attributes
        )

    def _tell_pieces(self, answer: AiMessage) -> None:
        """Stream what an answer says; at times in another order, or not quite the same."""
        told = [(self.stream.thinking, answer.thinking or ""), (self.stream.text, answer.text or "")]
        chance = self.random.random()
        if chance < 0.05:
            told.reverse()
        elif chance < 0.1:
            told.append((self.stream.thinking, self._text()))
        elif chance < 0.15:
            told = [(say, text[: len(text) // 2]) for say, text in told]
        for say, text in told:
            for piece in self._pieces(text):
                self._send(say(piece))

    def _pieces(self, text: str) -> list[str]:
        pieces = [""]
        for character in text:
            if self.random.random() < 0.3:
                pieces.append("")
            pieces[-1] += character
        return pieces

    def _text(self) -> str:
        return "".join(self.random.choices(_WORDS, k=self.random.randrange(6)))

    def _store(self, messages: list[ChatMessage]) -> None:
        if messages:
            self.stored += messages
            self._send(self.stream.said(messages))

    def _send(self, chunks: list[dict[str, Any]]) -> None:
        self.events += [sse(chunk) for chunk in chunks]

    def _pick(self, choices: list[Any]) -> Any:
        return self.random.choice(choices)
