"""The requests of a conversation, each compared with the one before."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, starmap
from statistics import fmean

from benchmarks.prompt_cache.contenders.base import Contender, Request
from benchmarks.prompt_cache.conversations import Conversation
from benchmarks.prompt_cache.counting import ESTIMATOR, tokens_of_request
from chatmemory import UserMessage

__all__ = ["ANTHROPIC_WRITE", "CACHED", "Figures", "simulate"]

CACHED = 0.1
"""The price of a cached token of input, where an uncached one costs 1: OpenAI's and Anthropic's."""

ANTHROPIC_WRITE = 1.25
"""The price of a token that Anthropic writes to its cache. OpenAI takes 1."""


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The figures of one contender in one conversation."""

    requests: int
    """Requests to the model: one for each AI message."""

    cacheable: float
    """Tokens of the messages with which a request and the one before begin alike: the mean of all requests."""

    hit_share: float
    """Those tokens, of all requests together, over the tokens of their input."""

    breaks: float
    """The share of requests that do not begin with the whole request before them."""

    fill: float
    """The tokens of a request over the limit: the mean of all requests."""

    most: float
    """The tokens of the largest request over the limit."""

    turns: float
    """The user messages in a request: the mean of all requests."""

    lost: float
    """The share of requests without the message that they are to answer."""

    @property
    def price(self) -> float:
        """The price of all input over that of the same input without a cache, where cache writes cost nothing more."""
        return self.hit_share * CACHED + (1 - self.hit_share)

    @property
    def anthropic_price(self) -> float:
        """The same where all that was not cached is written to the cache, at Anthropic's price."""
        return self.hit_share * CACHED + (1 - self.hit_share) * ANTHROPIC_WRITE


def simulate(contender: Contender, conversation: Conversation) -> Figures:
    """Return the figures of a contender that gets all turns of a conversation, and is closed after them.

    Raises:
        AssertionError: a turn did not make a request for each of its AI messages.
    """
    requests: list[Request] = []
    lost: list[bool] = []
    try:
        for turn in conversation.turns:
            made = contender.turn(turn)
            newest = [turn.user, *(step.result for step in turn.steps)]
            assert len(made) == len(newest), f"{len(made)} requests in a turn of {len(newest)}"
            requests += made
            lost += [request[-1:] != [message] for request, message in zip(made, newest, strict=True)]
    finally:
        contender.close()
    inputs = [tokens_of_request(request) for request in requests]
    common = [0, *starmap(_common, pairwise(requests))]
    cacheable = [_tokens(request[:count]) for request, count in zip(requests, common, strict=True)]
    whole = [count == len(before) for before, count in zip(requests, common[1:], strict=False)]
    return Figures(
        requests=len(requests),
        cacheable=fmean(cacheable),
        hit_share=sum(cacheable) / sum(inputs),
        breaks=whole.count(False) / len(requests),
        fill=fmean(inputs) / contender.limit,
        most=max(inputs) / contender.limit,
        turns=fmean(sum(isinstance(message, UserMessage) for message in request) for request in requests),
        lost=fmean(lost),
    )


def _tokens(messages: Request) -> int:
    return sum(map(ESTIMATOR.estimate_token_count_in_message, messages))


def _common(before: Request, after: Request) -> int:
    """Return the number of messages with which both begin."""
    count = 0
    for one, other in zip(before, after, strict=False):
        if one is not other and one != other:
            break
        count += 1
    return count
