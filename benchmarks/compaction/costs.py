"""What the input costs under windows and summaries: simulated conversations, counted by the package's own replay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.compaction.heads import AnchoredWalk
from benchmarks.compaction.ways import LIMITS, LONGEST_SUMMARY, WAYS, Way
from benchmarks.places import new_place
from benchmarks.prompt_cache import conversations
from benchmarks.prompt_cache.conversations import Kind, Sizes
from benchmarks.texts import text_of
from chatmemory import AiMessage, ChatMessage, OpenAiTokenCountEstimator
from chatmemory.assistant import ChatModelSummarizer
from chatmemory.compaction import compact_due
from chatmemory.database.operations.replay import Replay, versions_of
from chatmemory.database.stored_windows import window_of
from chatmemory.models import Conversation
from chatmemory.models.branch import BranchTree

__all__ = ["measure_costs"]

_TURNS = {Kind.CHAT: 4, Kind.TOOLS: 1}
"""The turns of a conversation, as a multiple of the number that is asked for: both kinds have about as many tokens."""

_UNBOUNDED = 10**8
_ESTIMATOR = OpenAiTokenCountEstimator("gpt-4o")


@dataclass
class _Writer:
    """A summarizer's model, which writes ``size`` tokens and counts what it reads and writes."""

    size: int
    summaries: int = 0
    read: int = 0
    written: int = 0

    def __call__(self, messages: Sequence[ChatMessage], tools: Sequence[object]) -> AiMessage:
        self.summaries += 1
        answer = AiMessage(text_of(self.size, self.summaries))
        self.read += _ESTIMATOR.estimate_token_count_in_messages(messages)
        self.written += _ESTIMATOR.estimate_token_count_in_message(answer)
        return answer


def measure_costs(kind: str, *, turns: int, seed: int = 1) -> list[dict[str, Any]]:
    """Simulate a conversation under each way and limit. The same arguments always give the same figures.

    Args:
        kind: ``chat`` or ``tools``.
        turns: the turns, before they are multiplied by ``_TURNS``.
        seed: makes the sizes of texts.

    Returns:
        for each limit and way the tokens of the input at the full price (``full``) and from the cache (``cached``), the
        tokens that the summarizer ``read`` and has ``written`` in so many ``summaries``, and the mean ``fill`` of the
        window by a request, as a share of the limit.
    """
    script = conversations.Conversation.of(Kind(kind), turns * _TURNS[Kind(kind)], sizes=Sizes(), seed=seed)
    rows: list[dict[str, Any]] = []
    with new_place("sqlite"):
        whole, _ = _played(script, WAYS["chat"], _UNBOUNDED)
        for limit in LIMITS:
            for key, way in WAYS.items():
                writer = _Writer(0)
                if way.summarizes:
                    conversation, writer = _played(script, way, limit)
                    found = conversation.memory.replay()
                elif way.keep_first:
                    found = _replay_with_head(whole, way, limit)
                else:
                    found = whole.memory.replay(limit=limit, **way.settings)
                rows.append(
                    {
                        **{"kind": kind, "limit": limit, "way": key},
                        **{"full": found.full_price_tokens, "cached": found.cacheable_tokens, "fill": found.mean_fill},
                        **{"read": writer.read, "written": writer.written, "summaries": writer.summaries},
                    }
                )
    return rows


def _played(script: conversations.Conversation, way: Way, limit: int) -> tuple[Conversation, _Writer]:
    """Play a conversation turn by turn. After each turn, a summary that is due is made."""
    conversation = Conversation.objects.create()
    conversation.memory.set_window(limit=limit, **way.settings)
    writer = _Writer(min(LONGEST_SUMMARY, limit // 10))
    summarizer = ChatModelSummarizer(writer, max_tokens=writer.size, estimator=_ESTIMATOR)
    conversation.memory.add(script.system)
    for turn in script.turns:
        for message in turn.messages():
            conversation.memory.add(message)
        if way.summarizes:
            for made in compact_due(Conversation.objects.filter(pk=conversation.pk), summarizer):
                assert made.error is None, made.error
    conversation.refresh_from_db()
    return conversation, writer


def _replay_with_head(conversation: Conversation, way: Way, limit: int) -> Replay:
    walk = AnchoredWalk(replace(window_of(conversation), limit=limit, **way.settings), keep_first=way.keep_first)
    for version in versions_of(conversation, BranchTree.read(conversation).branches):
        walk.go_to(version)
    return walk.figures(missing=0)
