"""The counts of requests."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from statistics import fmean, quantiles
from typing import Any

from benchmarks.counts.conversations import MODELS, TOOLS, turns
from benchmarks.counts.providers import COUNTS
from benchmarks.prompt_cache.counting import CachingEstimator
from chatmemory import AiMessage, ChatMessage, InMemoryChatMemoryStore, TokenWindowChatMemory, UserMessage
from chatmemory.core.json_text import dumps
from chatmemory.core.tokens import tool_tokens
from chatmemory.formats.anthropic import to_anthropic
from chatmemory.formats.gemini import to_gemini
from chatmemory.formats.openai import to_openai
from chatmemory.formats.responses import to_responses

__all__ = ["Counted", "count", "measure"]


@dataclass(frozen=True, kw_only=True)
class Counted:
    """One request, counted twice."""

    counted: int
    """The tokens that the window counts, with those of the tools."""

    sent: int
    """The tokens that the provider counts."""

    kept: int
    """The tokens that the provider counts if the model drops the thinking of earlier turns."""

    limit: int
    reserve: int

    stale: bool
    """Whether thinking was left out, because something before it had been evicted."""

    @property
    def error(self) -> float:
        """The part of ``sent`` that is counted too much; below zero, too little."""
        return self.counted / self.sent - 1


def count(format: str, seed: int) -> Counted | None:
    """Make a random conversation in a window, and count its last request; None if no question fits the window."""
    random = Random(f"{format} {seed}")
    model, tools = random.choice(MODELS[format]), TOOLS[format] if random.random() < 0.6 else []
    estimator = CachingEstimator(model)
    of_tools = tool_tokens(dumps(tools), estimator) if tools else 0
    limit = round(10 ** random.uniform(3.2, 4.8))
    memory = TokenWindowChatMemory(
        max_tokens=limit,
        token_count_estimator=estimator,
        store=InMemoryChatMemoryStore(),
        always_keep_system_message_first=True,
        low_water=random.choice([100, 70, 40]),
        whole_turns=random.random() < 0.5,
        reserve=of_tools + limit // random.choice([4, 6, 10]),
    )
    fresh: set[int] = set()
    kept: list[ChatMessage] = []
    for messages in turns(format, random):
        memory.add(*messages)
        before, kept = [*kept, *messages], memory.messages()
        if len(kept) < len(before):
            fresh.clear()
        else:
            fresh.update(map(id, messages))
    if not any(isinstance(message, UserMessage) for message in kept):
        return None
    answers = [index for index, message in enumerate(kept) if isinstance(message, AiMessage)]
    whole = [index for index in answers if id(kept[index]) in fresh]
    request = {"model": model, "tools": tools, **_written(format, kept, whole)}
    window = memory.window()
    return Counted(
        counted=estimator.estimate_token_count_in_messages(kept) + of_tools,
        sent=COUNTS[format](request, False),
        kept=COUNTS[format](request, True),
        limit=limit,
        reserve=window.reserved,
        stale=format == "anthropic" and len(whole) < len(answers),
    )


def _written(format: str, messages: list[Any], fresh: list[int]) -> dict[str, Any]:
    match format:
        case "openai":
            return {"messages": to_openai(messages)}
        case "openai_responses":
            return {"input": to_responses(messages)}
        case "anthropic":
            return to_anthropic(messages, thinking=fresh)
    return to_gemini(messages)


def measure(format: str, conversations: int) -> dict[str, Any]:
    """Count the last requests of so many conversations.

    Returns:
        ``requests``, their number, ``mean``, ``p95``, ``too_much`` and ``too_little``, the largest errors, ``of_all``,
        that of all requests together; ``over_limit`` and ``over_reserve``, the requests whose tokens are more than the
        limit, and than the limit and the reserve; ``fresh``, the mean where no thinking is stale, and ``dropped``,
        where the model drops the thinking of earlier turns. Errors are parts of what the provider counts.
    """
    requests = [request for seed in range(conversations) if (request := count(format, seed))]
    errors = [request.error for request in requests]
    return {
        "format": format,
        "requests": len(requests),
        "mean": fmean(map(abs, errors)),
        "p95": quantiles(map(abs, errors), n=20)[-1],
        "too_much": max(errors),
        "too_little": -min(errors),
        "of_all": sum(request.counted for request in requests) / sum(request.sent for request in requests) - 1,
        "fresh": fmean(abs(request.error) for request in requests if not request.stale),
        "dropped": fmean(abs(request.counted / request.kept - 1) for request in requests),
        "over_limit": sum(request.sent > request.limit for request in requests),
        "over_reserve": sum(request.sent > request.limit + request.reserve for request in requests),
    }
