"""What we write for the AI SDK, judged by the AI SDK's own readers."""

# ruff: noqa: F811 - fixtures that are imported

from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from chatmemory import ChatMessage, UserMessage
from chatmemory.formats.ai_sdk import each_to_ai_sdk, from_ai_sdk, to_ai_sdk
from chatmemory.formats.ai_sdk.stream import UIMessageStream
from tests.support import budget
from tests.support.ai_sdk import Judge, judge, node_modules  # noqa: F401
from tests.support.ai_sdk_turns import RandomTurn
from tests.support.strategies import messages, tool_groups

pytestmark = pytest.mark.npm

TURNS = 10_000
LISTS = 1_000


def test_what_a_page_has_of_a_stream_is_what_was_stored(judge: Judge) -> None:
    for seed in range(TURNS):
        turn = RandomTurn(Random(seed), UIMessageStream("answer-7"))
        turn.run()
        answer = judge.ask("stream", events=b"".join(turn.events).decode(), size=1 + seed % 50)
        _, *stored = to_ai_sdk([UserMessage("Hi"), *turn.stored], ids=["7"] + ["?"] * len(turn.stored))
        wanted = stored[0] if stored else {"id": "answer-7", "role": "assistant", "parts": []}
        got = answer["message"]
        if turn.is_cut:
            unstored = got["parts"][len(wanted["parts"]) :]
            assert {part["type"] for part in unstored} <= {"step-start", "text", "reasoning"}, seed
            got = {**got, "parts": got["parts"][: len(wanted["parts"])]}
        assert got == json.loads(json.dumps(wanted)), seed
        assert from_ai_sdk([got]) == turn.stored, seed
        assert answer["errors"] in ([], ["It failed."]), seed


def test_messages_are_valid_and_say_all(judge: Judge) -> None:
    groups = st.lists(messages().map(lambda message: [message]) | tool_groups(), min_size=1, max_size=6)

    @settings(max_examples=budget.examples(LISTS))
    @given(groups)
    def check(groups: list[list[ChatMessage]]) -> None:
        said = [message for group in groups for message in group]
        for write in (to_ai_sdk, each_to_ai_sdk):
            written = json.loads(json.dumps(write(said)))
            assume('"__proto__"' not in json.dumps(written))  # the AI SDK drops this key, which is JavaScript's own
            judge.ask("messages", messages=written)
            assert from_ai_sdk(written) == said

    check()
