"""OpenAI's Agents SDK."""

from __future__ import annotations

import asyncio
from statistics import fmean
from typing import Any

from agents import Agent, FunctionTool, RunConfig, Runner, SessionSettings, SQLiteSession
from agents.testing import ScriptedModel, assistant_message, function_call
from agents.tool_context import ToolContext

from benchmarks.prompt_cache.contenders.base import Contender, Request, Said
from benchmarks.prompt_cache.conversations import TOOL, Conversation, Step, Turn
from benchmarks.prompt_cache.counting import ESTIMATOR

__all__ = ["OpenAiAgentsSession"]

_SCHEMA = {
    "type": "object",
    "properties": {"query": {"type": "string"}},
    "required": ["query"],
    "additionalProperties": False,
}


class OpenAiAgentsSession(Contender):
    """``Runner.run()`` with a scripted model and a session that is limited to the newest items.

    The SDK limits by items only. The limit is so many as fill the window with messages of mean size.
    """

    def __init__(self, conversation: Conversation, limit: int) -> None:
        super().__init__(conversation, limit)
        self._said = Said()
        self._results: dict[str, str] = {}
        tool = FunctionTool(name=TOOL, description="Look up", params_json_schema=_SCHEMA, on_invoke_tool=self._look_up)
        self._agent = Agent(name="agent", instructions=self.system.text, tools=[tool])
        messages = [message for turn in conversation.turns for message in turn.messages()]
        items = int(self.room / fmean(map(ESTIMATOR.estimate_token_count_in_message, messages)))
        self._session = SQLiteSession("1", session_settings=SessionSettings(limit=items))
        self._runner = asyncio.Runner()

    async def _look_up(self, context: ToolContext[Any], arguments: str) -> str:
        return self._results[context.tool_call_id]

    def turn(self, turn: Turn) -> list[Request]:
        self._said.add(turn)
        self._results = {str(step.result.id): str(step.result.text) for step in turn.steps}
        model = ScriptedModel([*map(_call, turn.steps), [assistant_message(str(turn.answer.text))]])
        self._runner.run(
            Runner.run(
                self._agent.clone(model=model),
                str(turn.user.text),
                session=self._session,
                run_config=RunConfig(tracing_disabled=True),
            )
        )
        return [[self.system, *map(self._original, call.input)] for call in model.calls]

    def _original(self, item: dict[str, Any]) -> Any:
        match item:
            case {"type": "function_call", "call_id": id}:
                return self._said.call(id)
            case {"type": "function_call_output", "call_id": id, "output": text}:
                return self._said.result(id, text)
            case {"content": str(text)} | {"content": [{"text": text}]}:
                return self._said.message(text)
        raise ValueError(f"an item of an unknown kind: {item}")

    def close(self) -> None:
        self._session.close()
        self._runner.close()


def _call(step: Step) -> list[Any]:
    (request,) = step.call.tool_execution_requests
    return [function_call(TOOL, str(request.arguments), call_id=str(request.id))]
