"""A talk as LangChain has it, for processes that know nothing of this app as well."""

from __future__ import annotations

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

__all__ = ["langchain_talk"]


def langchain_talk() -> list[BaseMessage]:
    """With a picture, a tool that is called, and what only LangChain keeps."""
    call = {"name": "weather", "args": {"city": "Rome"}, "id": "c1", "type": "tool_call"}
    return [
        SystemMessage("Be kind."),
        HumanMessage(
            [{"type": "text", "text": "Weather here?"}, {"type": "image", "url": "https://example.com/a.png"}]
        ),
        AIMessage("", tool_calls=[call], response_metadata={"model": "m"}, usage_metadata=None),
        ToolMessage("sunny", tool_call_id="c1", name="weather", artifact={"raw": 1}),
        AIMessage("Sunny.", id="run-1"),
    ]
