"""The places up to which Anthropic keeps a request in its prompt cache: at most four ``cache_control`` marks.

- behind the tools and the system text, which every request of a conversation begins with
- behind the summary, because it stays when the window evicts what follows
- where the request before ended, because Anthropic looks back for only 20 blocks
- at the end, for the next request

Source: https://platform.claude.com/docs/en/build-with-claude/prompt-caching.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from chatmemory.core.summaries import is_summary_text

Cache: TypeAlias = 'bool | Literal["5m", "1h"]'
"""Whether to mark, and for how long the start of every request is kept: True is ``"5m"``. The rest is kept for 5 min.

Anthropic requires the longer times to come first.
"""

_MARKABLE = ("text", "image", "document", "tool_use", "tool_result")


def check_cache(cache: Any) -> Cache:
    """Return ``cache``.

    Raises:
        ValueError: it is something else.
    """
    if isinstance(cache, bool) or cache in ("5m", "1h"):
        return cache  # type: ignore[no-any-return]
    raise ValueError(f'cache must be a boolean, "5m" or "1h", got {cache!r:.100}')


def mark_request(request: dict[str, Any], cache: Cache) -> dict[str, Any]:
    """Return a request with marks.

    Args:
        request: ``messages``, and perhaps ``system`` and ``tools``. It stays as it is.
        cache: see ``Cache``. False: nothing is marked.
    """
    if cache is False:
        return request
    long = {"type": "ephemeral", "ttl": "1h"} if cache == "1h" else {"type": "ephemeral"}
    marked = dict(request)
    if marked.get("system"):
        marked["system"] = _marked(marked["system"], long)
    elif marked.get("tools"):
        *others, last = marked["tools"]
        marked["tools"] = [*others, {**last, "cache_control": long}]
    messages = list(marked["messages"])
    if (at := _summary(messages)) is not None:
        turn, block = at
        messages[turn] = {**messages[turn], "content": _marked(messages[turn]["content"], long, block)}
    short = {"type": "ephemeral"}
    for index in (-3, -1):
        if len(messages) >= -index:
            messages[index] = {**messages[index], "content": _marked(messages[index]["content"], short)}
    return {**marked, "messages": messages}


def _summary(messages: list[dict[str, Any]]) -> tuple[int, int] | None:
    """Return the indexes of the turn and of the block that is the first summary."""
    for turn, message in enumerate(messages):
        if message["role"] == "user":
            for index, block in enumerate(_blocks(message["content"])):
                if block.get("type") == "text" and is_summary_text(block["text"]):
                    return turn, index
    return None


def _blocks(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _marked(content: str | list[dict[str, Any]], mark: dict[str, str], at: int | None = None) -> Any:
    """Return content whose block at an index, by default the last that can have one, has a mark."""
    blocks = list(_blocks(content))
    places = range(len(blocks) - 1, -1, -1) if at is None else [at]
    for index in places:
        if blocks[index]["type"] in _MARKABLE:
            if "cache_control" not in blocks[index]:  # the one before it is kept longer
                blocks[index] = {**blocks[index], "cache_control": mark}
            return blocks
    return content
