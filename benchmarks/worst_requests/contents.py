"""Messages that are costly to parse, count, write or show."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

__all__ = ["KINDS", "MOST_BYTES", "batch", "text"]

_LONG = 390_000  # characters; a little less than MAX_MESSAGE_CHARS
MOST_BYTES = 5_800_000
"""The bytes of a body, a little less than ``MAX_BODY_BYTES``."""

_TEXTS: dict[str, Callable[[int], str]] = {
    "words": lambda n: "the quick brown fox jumps over it, " * (n // 35),
    "one letter": lambda n: "a" * n,
    "spaces": lambda n: " " * n,
    "ideographs": lambda n: "你好，世界" * (n // 5),
    "emoji": lambda n: "🎉👩‍🚀" * (n // 4),
    "words with one emoji": lambda n: "🎉" + "the quick brown fox " * (n // 20),
    "controls": lambda n: "\x01" * (n // 6),
    "markup": lambda n: "<b>&\"'" * (n // 6),
    "line breaks": lambda n: "\n" * n,
    "digits": lambda n: ("1" * 899 + "a") * (n // 900),
    "accents": lambda n: "e" + "\u0301\u0316" * (n // 2),
    "backslashes": lambda n: "\\" * (n // 2),
    "data": lambda n: "data:" + "a" * n,
    "brackets": lambda n: "[{" * (n // 2),
}


def text(random: Random, most: int = _LONG) -> str:
    """Return a text of at most about ``most`` characters."""
    return _TEXTS[random.choice(list(_TEXTS))](random.choice([most, most, most // 10, 100]))


def _calls(id: Callable[[int], str | None], count: int = 5_000) -> list[dict[str, Any]]:
    return [{"id": id(number), "name": "f", "arguments": "{}"} for number in range(count)]


def _calls_and_results(random: Random) -> list[dict[str, Any]]:
    """Return an answer with many calls, and as many results as one request may add."""
    id: Callable[[int], str | None] = random.choice([lambda n: f"c{n}", lambda n: "c", lambda n: None])
    results = [
        {"type": "TOOL_EXECUTION_RESULT", "id": id(number), "toolName": "f", "text": "x"} for number in range(99)
    ]
    random.shuffle(results)
    return [{"type": "AI", "text": "t", "toolExecutionRequests": _calls(id)}, *results]


def _deep(random: Random) -> Any:
    value: Any = "x"
    for _ in range(450):
        value = [value] if random.random() < 0.5 else {"a": value}
    return value


def _user(*contents: dict[str, Any]) -> dict[str, Any]:
    return {"type": "USER", "contents": list(contents)}


_SAMPLES: dict[str, Callable[[Random], list[dict[str, Any]]]] = {
    "texts": lambda random: [_user({"type": "TEXT", "text": text(random)})],
    "words": lambda random: [_user({"type": "TEXT", "text": _TEXTS["words with one emoji"](_LONG)})],
    "short": lambda random: [{"type": "AI", "text": ""}],
    "contents": lambda random: [_user(*[{"type": "TEXT", "text": "x"}] * 10_000)],
    "images": lambda random: [_user({"type": "IMAGE", "image": {"url": _TEXTS["data"](_LONG)}, "detailLevel": "AUTO"})],
    "image data": lambda random: [
        _user({"type": "IMAGE", "image": {"base64Data": "A" * _LONG, "mimeType": "image/png"}, "detailLevel": "AUTO"})
    ],
    "thinking": lambda random: [{"type": "AI", "text": "t", "thinking": text(random, 195_000)}],
    "attributes": lambda random: [
        {"type": "AI", "text": "t", "attributes": {"list": list(range(1_500)), "deep": _deep(random)}}
    ],
    "keys": lambda random: [{"type": "AI", "text": "t", "attributes": {f"key{n}": {} for n in range(1_800)}}],
    "calls": _calls_and_results,
    "arguments": lambda random: [
        {
            "type": "AI",
            "toolExecutionRequests": [{"id": "c", "name": "f", "arguments": json.dumps({"x": text(random, 30_000)})}],
        }
    ],
    "argument keys": lambda random: [
        {
            "type": "AI",
            "toolExecutionRequests": [
                {"id": str(n), "name": "f", "arguments": json.dumps({f"key{k}": k for k in range(3_000)})}
                for n in range(7)
            ],
        }
    ],
    "kept parts": lambda random: [
        {
            "type": "AI",
            "text": "t" * 5_000,
            "attributes": {"gemini": {"parts": [{"text": "t", "thoughtSignature": "AAAA"}] * 5_000}},
        }
    ],
    "custom": lambda random: [{"type": "CUSTOM", "attributes": {"x": _TEXTS["digits"](_LONG)}}],
    "system": lambda random: [{"type": "SYSTEM", "text": text(random) + "."}],
}

KINDS = list(_SAMPLES)
"""The kinds of messages."""


def batch(random: Random, kind: str, most_bytes: int = MOST_BYTES) -> list[dict[str, Any]]:
    """Return as many messages of a kind as one request may have, within ``most_bytes``."""
    messages: list[dict[str, Any]] = []
    size = 0
    for _ in range(100):
        some = _SAMPLES[kind](random)
        size += len(json.dumps(some, ensure_ascii=False).encode())
        if messages and (size > most_bytes or len(messages) + len(some) > 100):
            break
        messages += some
    return messages
