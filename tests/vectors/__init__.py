"""What the real LangChain4j did, recorded: the judge of the semantics.

LangChain4j has no low-water marks, whole turns, pins or cleared tool results: the scenarios of ``windows.json`` were
thought up by hand, and their outcomes computed by ``tests/support/naive_window.py``, which is itself judged by the
recordings.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from chatmemory import (
    AiMessage,
    ChatMessage,
    CustomMessage,
    SystemMessage,
    TextContent,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.core.serialization import read_message

__all__ = ["OracleEstimator", "as_messages", "load", "snake_case"]


@cache
def load(name: str) -> Any:
    """One of the recorded files."""
    return json.loads((Path(__file__).parent / f"{name}.json").read_text(encoding="utf-8", errors="surrogatepass"))


def as_messages(data: list[Any]) -> list[ChatMessage]:
    """Recorded messages as ours."""
    return [read_message(item) for item in data]


def snake_case(text: str) -> str:
    """LangChain4j's wording of an error in the names of Python."""
    return re.sub(r"(?<=[a-z])[A-Z]", lambda found: "_" + found[0].lower(), text)


def _words(text: str | None) -> int:
    return len(re.findall("[^ \\t\\n\\x0b\\x0c\\r]+", text or ""))


class OracleEstimator:
    """``oracle_words_v1``, the estimator that the recordings were made with."""

    def __init__(self, **overrides: Any) -> None:
        self.constants = load("named")["estimator"]["defaults"] | overrides

    def estimate_token_count_in_text(self, text: str) -> int:
        return _words(text)

    def estimate_token_count_in_messages(self, messages: Any) -> int:
        return self.constants["per_request"] + sum(map(self.estimate_token_count_in_message, messages))

    def estimate_token_count_in_message(self, message: ChatMessage) -> int:
        c = self.constants
        match message:
            case SystemMessage():
                count = _words(message.text)
            case UserMessage():
                count = self._contents(message.contents) + (c["per_name"] + _words(message.name) if message.name else 0)
            case AiMessage():
                count = _words(message.text) + sum(
                    c["per_tool_request"] + _words(request.name) + _words(request.arguments)
                    for request in message.tool_execution_requests
                )
            case ToolExecutionResultMessage():
                count = self._contents(message.contents)
            case CustomMessage():
                if c["raise_on_custom"]:
                    raise ValueError("Unknown message type: CUSTOM")
                count = c["custom_message"]
        return c["per_message"] + count

    def _contents(self, contents: Any) -> int:
        constant = self.constants["non_text_content"]
        return sum(_words(item.text) if isinstance(item, TextContent) else constant for item in contents)
