"""The rows of the tables: contenders with their settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from benchmarks.prompt_cache.contenders.base import Contender
from benchmarks.prompt_cache.conversations import Conversation, Kind

__all__ = ["OURS", "PER_MESSAGE", "ROWS", "Row", "ours"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Row:
    """A contender with settings."""

    name: str

    package: str
    """The distribution that is driven."""

    path: str
    """The module in ``contenders``, and the class."""

    settings: dict[str, Any] = field(default_factory=dict)
    """Arguments of the class."""

    kinds: tuple[Kind, ...] = tuple(Kind)
    """The conversations that the row is for."""

    def contender(self, conversation: Conversation, limit: int) -> Contender:
        """Return a new contender.

        Raises:
            ImportError: the package is missing.
        """
        name, _, kind = self.path.partition(".")
        module = import_module(f"benchmarks.prompt_cache.contenders.{name}")
        contender: Contender = getattr(module, kind)(conversation, limit, **self.settings)
        return contender


def ours(name: str, *, kinds: tuple[Kind, ...] = tuple(Kind), **settings: Any) -> Row:
    """Return a row of chatmemory."""
    return Row(
        name=f"chatmemory, {name}",
        package="django-chatmemory",
        path="chatmemory_window.ChatMemoryWindow",
        settings=settings,
        kinds=kinds,
    )


PER_MESSAGE = ours("per message")
"""The default: LangChain4j's rule."""

OURS = {
    Kind.CHAT: ours("`low_water=70, whole_turns`", kinds=(Kind.CHAT,), low_water=70, whole_turns=True),
    Kind.TOOLS: ours(
        "`low_water=70, whole_turns, keep_tool_results=3`",
        kinds=(Kind.TOOLS,),
        low_water=70,
        whole_turns=True,
        keep_tool_results=3,
    ),
}
"""The settings that are recommended, by kind of conversation."""

_AGENT_FRAMEWORK = "agent_framework_compaction.AgentFrameworkCompaction"

ROWS = [
    PER_MESSAGE,
    ours("`low_water=85, whole_turns`", low_water=85, whole_turns=True),
    OURS[Kind.CHAT],
    ours("`low_water=70, whole_turns`", kinds=(Kind.TOOLS,), low_water=70, whole_turns=True),
    OURS[Kind.TOOLS],
    ours("`low_water=50, whole_turns`", low_water=50, whole_turns=True),
    Row(
        name="LangChain, `trim_messages`",
        package="langchain-core",
        path="langchain_trimming.LangChainTrimming",
    ),
    Row(
        name="OpenAI Agents, limit of a session",
        package="openai-agents",
        path="openai_agents_session.OpenAiAgentsSession",
    ),
    Row(
        name="LlamaIndex `Memory`, defaults",
        package="llama-index-core",
        path="llama_index_memory.LlamaIndexMemory",
    ),
    Row(
        name="LlamaIndex `Memory`, flushes 30 %",
        package="llama-index-core",
        path="llama_index_memory.LlamaIndexMemory",
        settings={"flush": 0.3, "chat_history_token_ratio": 1.0},
    ),
    Row(
        name="Agent Framework, truncation to 70 %",
        package="agent-framework-core",
        path=_AGENT_FRAMEWORK,
        settings={"strategy": "truncation"},
    ),
    Row(
        name="Agent Framework, `ContextWindowCompactionStrategy`",
        package="agent-framework-core",
        path=_AGENT_FRAMEWORK,
        settings={"strategy": "context_window"},
    ),
]
"""All rows, in the order of the tables."""
