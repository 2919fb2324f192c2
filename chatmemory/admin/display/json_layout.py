"""JSON laid out for reading: a line for each value, the values unchanged."""

from __future__ import annotations

import json
import re

from chatmemory.core.json_text import loads

__all__ = ["lay_out"]

# An object in a thousand levels of lists must not become a megabyte of indentation.
_LONGEST = 20_000
_DEEPEST = 12

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\{\s*\}|\[\s*\]|[{}\[\],:]|[^\s{}\[\],:"]+')


def lay_out(text: str) -> str:
    """Return JSON with line breaks and indentation, and any other text unchanged.

    Repeated keys and the digits of numbers stay as they are, which parsing and dumping would not keep.
    """
    if len(text) > _LONGEST:
        return text
    try:
        loads(text)
    except ValueError:
        return text
    laid_out: list[str] = []
    depth = 0
    for token in _TOKEN.findall(text):
        if token in "{[":
            depth += 1
            laid_out += token, _new_line(depth)
        elif token in "}]":
            depth -= 1
            laid_out += _new_line(depth), token
        elif token == ",":
            laid_out += token, _new_line(depth)
        elif token == ":":
            laid_out.append(": ")
        elif token[0] in "{[":
            laid_out.append(token[0] + token[-1])
        else:
            laid_out.append(_readable(token))
    return "".join(laid_out)


def _new_line(depth: int) -> str:
    return "\n" + "  " * min(depth, _DEEPEST)


def _readable(token: str) -> str:
    r"""Return a string with 你 for ``\u4F60``; invisible characters, and those that turn text around, stay escaped."""
    if r"\u" not in token:
        return token
    value = json.loads(token)
    return json.dumps(value, ensure_ascii=False) if value.isprintable() else token
