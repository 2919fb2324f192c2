"""The common part of LangGraph's checkpointers."""

from __future__ import annotations

from itertools import chain
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import START, MessagesState, StateGraph

from benchmarks.contenders.base import SyncContender
from benchmarks.contenders.langchain_window import batches, texts, trim

__all__ = ["LangGraphCheckpointer"]

_CONFIG: Any = {"configurable": {"thread_id": "1"}}


class LangGraphCheckpointer(SyncContender):
    """A graph of one node, which trims the messages and answers. A turn is one ``invoke``, which adds both messages."""

    def compile(self, checkpointer: BaseCheckpointSaver[Any], history: int) -> None:
        """Make the graph, and put ``history`` messages into its state at once."""
        graph: Any = StateGraph(MessagesState)
        graph.add_node("answer", self._answer)
        graph.add_edge(START, "answer")
        self.graph = graph.compile(checkpointer=checkpointer)
        messages = list(chain.from_iterable(batches(history)))  # at once, for each update writes the whole state
        if messages:
            self.graph.update_state(_CONFIG, {"messages": messages})

    def _answer(self, state: MessagesState) -> dict[str, Any]:
        self.model_input = trim(list(state["messages"]), self.window)
        return {"messages": [AIMessage(self.ai_text)]}

    def turn(self, user_text: str, ai_text: str) -> Any:
        self.ai_text = ai_text
        return self.graph.invoke({"messages": [HumanMessage(user_text)]}, _CONFIG)

    def texts(self, window: Any) -> list[str]:
        assert texts(self.model_input)[-1] == window["messages"][-2].content  # the user's message
        return texts(trim(window["messages"], self.window))
