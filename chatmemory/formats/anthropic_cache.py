"""The places up to which Anthropic keeps a request in its prompt cache: at most four ``cache_control`` marks.

- behind the tools and the system text, which every request of a conversation begins with
- behind pinned messages and the summary, because they stay when the window evicts what follows
- between pinned messages and the summary, because these pinned messages stay when there is a new summary
- where the request before ended, because Anthropic looks at only 20 blocks for each mark
- at the end, for the next request

If these are five, one is left out: where the request before ended, if the mark at the end is near enough to find it;
otherwise the mark between pinned messages and the summary.

Source: https://platform.claude.com/docs/en/build-with-claude/prompt-caching.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from chatmemory.core.summaries import is_summary_text

Cache: TypeAlias = 'bool | Literal["5m", "1h"]'
"""Whether to mark, and for how long the start of every request is kept: True is ``"5m"``. The rest is kept for 5 min.

Anthropic requires the longer times to come first.
"""

_MOST = 4

_LOOKED_AT = 20
"""The blocks at which Anthropic looks for each mark: the one with the mark, and those before it."""

_MARKABLE = ("text", "image", "document", "tool_use", "tool_result")


def check_cache(cache: Any) -> Cache:
    """Return ``cache``.

    Raises:
        ValueError: it is something else.
    """
    if isinstance(cache, bool) or cache in ("5m", "1h"):
        return cache  # type: ignore[no-any-return]
    raise ValueError(f'cache must be a boolean, "5m" or "1h", got {cache!r:.100}')


def mark_lasting(messages: list[dict[str, Any]], count: int, cache: Cache) -> list[dict[str, Any]]:
    """Return the messages of a request with marks at the pinned messages and the summary.

    Args:
        messages: the messages. They stay as they are.
        count: the number of blocks at the start that the window does not evict; 0 if it is unknown, or there are none.
        cache: see ``Cache``. False: nothing is marked.
    """
    marked = list(messages)
    if cache is False:
        return marked
    blocks = _blocks(messages)
    summary = next((index for index, block in enumerate(blocks) if block.is_summary), None)
    behind = count or (0 if summary is None else summary + 1)
    for end in {summary or 0, behind}:
        if end <= behind and (index := _last_markable(blocks[:end])) is not None:
            _mark(marked, blocks[index], _long(cache))
    return marked


def mark_request(request: dict[str, Any], cache: Cache) -> dict[str, Any]:
    """Return a request with all its marks.

    Args:
        request: ``messages`` of ``mark_lasting``, and perhaps ``system`` and ``tools``. It stays as it is.
        cache: see ``Cache``. False: nothing is marked.
    """
    if cache is False:
        return request
    marked = dict(request)
    first = next((name for name in ("system", "tools") if marked.get(name)), None)
    if first is not None:
        *others, last = _as_blocks(marked[first])
        marked[first] = [*others, {**last, "cache_control": _long(cache)}]
    messages = marked["messages"] = list(marked["messages"])
    blocks = _blocks(messages)
    lasting = [index for index, block in enumerate(blocks) if "cache_control" in block.content]
    ends = [_last_markable([block for block in blocks if block.turn <= len(messages) - back]) for back in (3, 1)]
    new = [end for end in ends if end is not None and end not in lasting]
    if len(lasting) + len(new) + (first is not None) > _MOST:
        before, last_one = new
        if last_one - before < _LOOKED_AT:
            new = [last_one]
        else:
            _mark(messages, blocks[lasting[0]], None)
    for index in new:
        is_before = bool(lasting) and index < lasting[-1]
        _mark(messages, blocks[index], _long(cache) if is_before else {"type": "ephemeral"})
    return marked


@dataclass(frozen=True)
class _Block:
    """A block of a request's messages."""

    turn: int
    """The index of the turn."""

    index: int
    """The index in the turn."""

    role: str

    content: dict[str, Any]

    @property
    def is_summary(self) -> bool:
        return self.role == "user" and self.content["type"] == "text" and is_summary_text(self.content["text"])


def _blocks(messages: list[dict[str, Any]]) -> list[_Block]:
    return [
        _Block(turn, index, message["role"], content)
        for turn, message in enumerate(messages)
        for index, content in enumerate(_as_blocks(message["content"]))
    ]


def _as_blocks(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _last_markable(blocks: list[_Block]) -> int | None:
    """Return the index of the last block that can have a mark."""
    return next((index for index in reversed(range(len(blocks))) if blocks[index].content["type"] in _MARKABLE), None)


def _mark(messages: list[dict[str, Any]], block: _Block, mark: dict[str, str] | None) -> None:
    """Give a block a mark in ``messages``; None takes it away."""
    content = list(_as_blocks(messages[block.turn]["content"]))
    bare = {key: value for key, value in content[block.index].items() if key != "cache_control"}
    content[block.index] = bare if mark is None else {**bare, "cache_control": mark}
    messages[block.turn] = {**messages[block.turn], "content": content}


def _long(cache: Cache) -> dict[str, str]:
    return {"type": "ephemeral", "ttl": "1h"} if cache == "1h" else {"type": "ephemeral"}
