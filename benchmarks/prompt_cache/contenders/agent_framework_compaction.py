"""Microsoft's Agent Framework."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    CompactionProvider,
    CompactionStrategy,
    Content,
    ContextWindowCompactionStrategy,
    FunctionInvocationLayer,
    FunctionTool,
    InMemoryHistoryProvider,
    Message,
    TruncationStrategy,
    included_messages,
)

from benchmarks.prompt_cache.contenders.base import Contender, Request, Said
from benchmarks.prompt_cache.conversations import TOOL, Conversation, Step, Turn
from benchmarks.prompt_cache.counting import ESTIMATOR
from benchmarks.texts import PER_MESSAGE

__all__ = ["AgentFrameworkCompaction"]


class _Tokenizer:
    """A counter of the texts in a message, which the framework passes as JSON of all its fields."""

    def count_tokens(self, text: str) -> int:
        counted = 0
        for content in json.loads(text)["contents"]:
            texts = (content.get(name) for name in ("text", "name", "arguments", "result"))
            counted += sum(ESTIMATOR.estimate_token_count_in_text(str(given)) for given in texts if given)
        return counted + PER_MESSAGE


def _truncation(room: int) -> CompactionStrategy:
    return TruncationStrategy(max_n=room, compact_to=room * 70 // 100, tokenizer=_Tokenizer())


def _context_window(room: int) -> CompactionStrategy:
    return ContextWindowCompactionStrategy(max_context_window_tokens=room, max_output_tokens=0, tokenizer=_Tokenizer())


_STRATEGIES = {"truncation": _truncation, "context_window": _context_window}


class _Client(FunctionInvocationLayer, BaseChatClient):  # type: ignore[misc,type-arg]
    """A client that notes what it gets and says what it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.script: list[Message] = []
        self.requests: list[list[Message]] = []

    def _inner_get_response(self, *, messages: Any, **_options: Any) -> Awaitable[ChatResponse]:
        async def respond() -> ChatResponse:
            self.requests.append(list(messages))
            return ChatResponse(messages=[self.script.pop(0)])

        return respond()


class AgentFrameworkCompaction(Contender):
    """An ``Agent`` with a scripted client, whose stored history is compacted after each run.

    The strategy counts all but the instructions.
    """

    def __init__(
        self,
        conversation: Conversation,
        limit: int,
        *,
        strategy: str,
    ) -> None:
        """
        Args:
            strategy: ``truncation``, from the limit to 70 % of it; or ``context_window``, the framework's own
                composition with its default thresholds: tool results first, then truncation.
        """
        super().__init__(conversation, limit)
        self._said = Said()
        self._results: dict[str, str] = {}
        self._client = _Client()
        self._history = InMemoryHistoryProvider(skip_excluded=True)
        compaction = CompactionProvider(
            after_strategy=_STRATEGIES[strategy](self.room), history_source_id=self._history.source_id
        )
        self._agent = Agent(
            client=self._client,
            instructions=self.system.text,
            tools=[FunctionTool(name=TOOL, description="Look up", func=self._look_up)],
            context_providers=[self._history, compaction],
        )
        self._session = self._agent.create_session()
        self._runner = asyncio.Runner()

    def _look_up(self, query: str) -> str:
        return self._results[query]

    def turn(self, turn: Turn) -> list[Request]:
        self._said.add(turn)
        self._results = {_query(step): str(step.result.text) for step in turn.steps}
        self._client.script = [*map(_call, turn.steps), Message(role="assistant", contents=[turn.answer.text])]
        self._client.requests = []
        self._runner.run(self._run(str(turn.user.text)))
        return [[self.system, *map(self._original, request)] for request in self._client.requests]

    async def _run(self, text: str) -> None:
        await self._agent.run(text, session=self._session)
        # What is excluded is never sent again, and would make each run slower than the one before. Without it the
        # hit share differs by less than 0.1 %, and only where summaries stand for what is excluded.
        stored = self._session.state[self._history.source_id]["messages"]
        stored[:] = included_messages(stored)

    def _original(self, message: Message) -> Any:
        (content,) = message.contents
        if content.type == "function_call":
            return self._said.call(str(content.call_id))
        if content.type == "function_result":
            return self._said.result(str(content.call_id), str(content.result))
        return self._said.message(message.text)

    def close(self) -> None:
        self._runner.close()


def _query(step: Step) -> str:
    return str(json.loads(str(step.call.tool_execution_requests[0].arguments))["query"])


def _call(step: Step) -> Message:
    (request,) = step.call.tool_execution_requests
    content = Content.from_function_call(call_id=str(request.id), name=TOOL, arguments=str(request.arguments))
    return Message(role="assistant", contents=[content])
