"""LlamaIndex's ``Memory``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, MessageRole, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.memory import Memory
from llama_index.core.tools import FunctionTool

from benchmarks.prompt_cache.contenders.base import Contender, Request, Said
from benchmarks.prompt_cache.conversations import TOOL, Conversation, Step, Turn
from benchmarks.prompt_cache.counting import ESTIMATOR
from benchmarks.texts import PER_MESSAGE

__all__ = ["LlamaIndexMemory"]


class LlamaIndexMemory(Contender):
    """A ``FunctionAgent`` with a scripted model, which adds the messages of a turn to its ``Memory``."""

    def __init__(self, conversation: Conversation, limit: int, *, flush: float | None = None, **settings: Any) -> None:
        """
        Args:
            flush: ``token_flush_size`` as a part of ``token_limit``; the framework's default if it is missing.
            settings: more arguments of ``Memory.from_defaults()``.
        """
        super().__init__(conversation, limit)
        self._said = Said()
        self._requests: list[Request] = []
        self._script: list[ChatMessage] = []
        self._results: dict[str, str] = {}
        if flush is not None:
            settings["token_flush_size"] = int(flush * self.room)
        self._memory = Memory.from_defaults(
            session_id="1",
            token_limit=self.room,
            tokenizer_fn=lambda text: range(ESTIMATOR.estimate_token_count_in_text(text) + PER_MESSAGE),  # type: ignore[arg-type,return-value]
            **settings,
        )
        self._agent = FunctionAgent(
            llm=MockFunctionCallingLLM(response_generator=self._respond, is_chat_model=True),
            tools=[FunctionTool.from_defaults(self._look_up, name=TOOL, description="Look up")],
            system_prompt=self.system.text,
            streaming=False,
        )
        self._runner = asyncio.Runner()

    def _look_up(self, query: str) -> str:
        return self._results[query]

    def _respond(self, messages: Sequence[ChatMessage], **_settings: Any) -> ChatMessage:
        self._requests.append([self._original(message) for message in messages])
        return self._script.pop(0)

    def turn(self, turn: Turn) -> list[Request]:
        self._said.add(turn)
        self._requests = []
        self._results = {_query(step): str(step.result.text) for step in turn.steps}
        self._script = [*map(_call, turn.steps), ChatMessage(role="assistant", content=turn.answer.text)]
        self._runner.run(self._run(str(turn.user.text)))
        return self._requests

    async def _run(self, text: str) -> None:
        await self._agent.run(user_msg=text, memory=self._memory)

    def _original(self, message: ChatMessage) -> Any:
        calls = [block for block in message.blocks if isinstance(block, ToolCallBlock)]
        if message.role == MessageRole.SYSTEM:
            return self.system
        if calls:
            return self._said.call(str(calls[0].tool_call_id))
        if message.role == MessageRole.TOOL:
            return self._said.result(message.additional_kwargs["tool_call_id"], str(message.content))
        return self._said.message(str(message.content))

    def close(self) -> None:
        self._runner.close()


def _query(step: Step) -> str:
    return str(json.loads(str(step.call.tool_execution_requests[0].arguments))["query"])


def _call(step: Step) -> ChatMessage:
    block = ToolCallBlock(tool_call_id=step.result.id, tool_name=TOOL, tool_kwargs={"query": _query(step)})
    return ChatMessage(role="assistant", blocks=[block])
