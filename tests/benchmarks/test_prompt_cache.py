"""The figures of the simulated prompt cache, where they can be reckoned by hand."""

from __future__ import annotations

import pytest

from benchmarks.prompt_cache.contenders.base import MessageByMessage, Request
from benchmarks.prompt_cache.conversations import Conversation, Kind, Sizes
from benchmarks.prompt_cache.counting import tokens_of_request
from benchmarks.prompt_cache.simulation import simulate
from chatmemory import ChatMessage


class Everything(MessageByMessage):
    """Forgets nothing."""

    def __init__(self, conversation: Conversation, limit: int) -> None:
        super().__init__(conversation, limit)
        self.kept: Request = [self.system]

    def add(self, message: ChatMessage) -> None:
        self.kept.append(message)

    def window(self) -> Request:
        return list(self.kept)


class Newest(Everything):
    """Sends the system message and the newest one."""

    def window(self) -> Request:
        return [self.system, self.kept[-1]]


class Deaf(Everything):
    """Sends the system message only."""

    def window(self) -> Request:
        return [self.system]


@pytest.fixture(params=list(Kind))
def conversation(request: pytest.FixtureRequest) -> Conversation:
    return Conversation.of(request.param, 5, sizes=Sizes())


def test_a_conversation_is_the_same_in_every_run(conversation: Conversation) -> None:
    kind = Kind.TOOLS if conversation.turns[0].steps else Kind.CHAT
    assert Conversation.of(kind, 5, sizes=Sizes()) == conversation
    assert Conversation.of(kind, 5, sizes=Sizes(), seed=2) != conversation


def test_who_only_adds_pays_only_for_what_is_new(conversation: Conversation) -> None:
    figures = simulate(Everything(conversation, 1000), conversation)
    everything = Everything(conversation, 1000)
    inputs = [tokens_of_request(request) for turn in conversation.turns for request in everything.turn(turn)]
    before = [0, *(tokens - tokens_of_request([]) for tokens in inputs[:-1])]
    assert figures.requests == sum(1 + len(turn.steps) for turn in conversation.turns)
    assert (figures.breaks, figures.lost) == (0, 0)
    assert figures.hit_share == pytest.approx(sum(before) / sum(inputs))
    assert figures.cacheable == pytest.approx(sum(before) / len(inputs))
    assert figures.most == inputs[-1] / 1000
    assert figures.price == pytest.approx(1 - 0.9 * figures.hit_share)


def test_who_sends_something_else_each_time_gets_the_system_message_only(conversation: Conversation) -> None:
    figures = simulate(Newest(conversation, 1000), conversation)
    system = tokens_of_request([conversation.system]) - tokens_of_request([])
    assert figures.breaks == pytest.approx(1 - 1 / figures.requests)
    assert figures.cacheable == pytest.approx(system * (1 - 1 / figures.requests))
    assert figures.anthropic_price == pytest.approx(0.1 * figures.hit_share + 1.25 * (1 - figures.hit_share))


def test_what_is_to_be_answered_may_be_lost(conversation: Conversation) -> None:
    assert simulate(Deaf(conversation, 1000), conversation).lost == 1
