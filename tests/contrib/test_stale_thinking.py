"""Adapters return Anthropic's thinking only behind what it was written behind."""

from __future__ import annotations

from typing import Any

import pytest
from agent_framework import Content
from agent_framework import Message as FrameworkMessage
from agents.models.chatcmpl_converter import Converter
from asgiref.sync import async_to_sync
from langchain_core import messages as lc
from llama_index.core.base.llms import types as li
from openai.types.chat import ChatCompletionMessage
from pydantic_ai import messages as pa

from chatmemory import SystemMessage
from chatmemory.contrib.agent_framework import DjangoHistoryProvider
from chatmemory.contrib.langchain import DjangoChatMessageHistory
from chatmemory.contrib.llama_index import DjangoAsyncChatStore, DjangoChatStore
from chatmemory.contrib.openai_agents import DjangoSession
from chatmemory.contrib.pydantic_ai import DjangoMessageHistory
from chatmemory.models import Conversation

pytestmark = pytest.mark.django_db(transaction=True)

ID = "thoughtful"
Told = tuple[str, str]
"""``question`` or ``answer``, ``call`` or ``result``; and a text, which signs the thinking of an answer or a call."""


class LangChain:
    def add(self, told: Told) -> None:
        DjangoChatMessageHistory(ID).add_messages([self._message(*told)])

    def _message(self, kind: str, text: str) -> lc.BaseMessage:
        match kind:
            case "question":
                return lc.HumanMessage(text)
            case "result":
                return lc.ToolMessage(text, tool_call_id="a")
        thought = {"type": "thinking", "thinking": "Hm.", "signature": text}
        redacted = {"type": "redacted_thinking", "data": f"{text}."}
        calls = [lc.ToolCall(name="now", args={}, id="a")] if kind == "call" else []
        return lc.AIMessage([thought, redacted, {"type": "text", "text": "OK"}], tool_calls=calls)

    def signatures(self) -> list[str]:
        answers = [message for message in DjangoChatMessageHistory(ID).messages if isinstance(message, lc.AIMessage)]
        assert all(isinstance(answer.content, list) and answer.content[-1]["text"] == "OK" for answer in answers)  # type: ignore[index]
        found = [block for answer in answers for block in answer.content if isinstance(block, dict)]
        signed = [block["signature"] for block in found if "signature" in block]
        assert [block["data"] for block in found if "data" in block] == [f"{signature}." for signature in signed]
        return signed


class LangChainsOwnBlocks(LangChain):
    def _message(self, kind: str, text: str) -> lc.BaseMessage:
        message = super()._message(kind, text)
        if isinstance(message, lc.AIMessage):
            redacted = {"type": "non_standard", "value": {"type": "redacted_thinking", "data": text}}
            thought = {"type": "reasoning", "reasoning": "Hm.", "extras": {"signature": text}}
            message = message.model_copy(update={"content": [redacted, thought, {"type": "text", "text": "OK"}]})
        return message

    def signatures(self) -> list[str]:
        answers = [message for message in DjangoChatMessageHistory(ID).messages if isinstance(message, lc.AIMessage)]
        found: list[Any] = [block for answer in answers for block in answer.content]
        signed = [block["extras"]["signature"] for block in found if block["type"] == "reasoning"]
        assert [block["value"]["data"] for block in found if block["type"] == "non_standard"] == signed
        return signed


class LlamaIndex:
    def add(self, told: Told) -> None:
        DjangoChatStore().add_message(ID, self._message(*told))

    def _message(self, kind: str, text: str) -> li.ChatMessage:
        match kind:
            case "question":
                return li.ChatMessage(text, role="user")
            case "result":
                return li.ChatMessage(text, role="tool", additional_kwargs={"tool_call_id": "a"})
        thought = li.ThinkingBlock(content="Hm.", additional_information={"signature": text})
        calls = [li.ToolCallBlock(tool_call_id="a", tool_name="now", tool_kwargs={})] if kind == "call" else []
        return li.ChatMessage(role="assistant", blocks=[thought, li.TextBlock(text="OK"), *calls])

    def signatures(self) -> list[str]:
        return self._signatures(DjangoChatStore().get_messages(ID))

    def _signatures(self, messages: list[li.ChatMessage]) -> list[str]:
        blocks = [block for message in messages for block in message.blocks]
        return [block.additional_information["signature"] for block in blocks if isinstance(block, li.ThinkingBlock)]


class LlamaIndexAsync(LlamaIndex):
    def signatures(self) -> list[str]:
        return self._signatures(async_to_sync(DjangoAsyncChatStore().get_messages)(ID))


class OpenAiAgents:
    def add(self, told: Told) -> None:
        async_to_sync(DjangoSession(ID).add_items)(self._items(*told))

    def _items(self, kind: str, text: str) -> list[Any]:
        match kind:
            case "question":
                return [{"role": "user", "content": text}]
            case "result":
                return [{"type": "function_call_output", "call_id": "a", "output": text}]
        thoughts = [{"type": "thinking", "thinking": "Hm.", "signature": text}]
        call = {"id": "a", "type": "function", "function": {"name": "now", "arguments": "{}"}}
        said = {"role": "assistant", "content": "OK", "thinking_blocks": thoughts, "reasoning_content": "Hm."}
        answer = ChatCompletionMessage.model_validate(said | ({"tool_calls": [call]} if kind == "call" else {}))
        items = Converter.message_to_output_items(answer, provider_data={"model": "anthropic/claude"})
        return [item.model_dump() for item in items]

    def signatures(self) -> list[str]:
        items = async_to_sync(DjangoSession(ID).get_items)()
        return [str(item["encrypted_content"]) for item in items if item.get("type") == "reasoning"]


class PydanticAi:
    def add(self, told: Told) -> None:
        DjangoMessageHistory(ID).add([self._message(*told)])

    def _message(self, kind: str, text: str) -> pa.ModelMessage:
        match kind:
            case "question":
                return pa.ModelRequest([pa.UserPromptPart(text)])
            case "result":
                return pa.ModelRequest([pa.ToolReturnPart("now", text, "a")])
        thought = pa.ThinkingPart("Hm.", signature=text, provider_name="anthropic")
        calls = [pa.ToolCallPart("now", {}, "a")] if kind == "call" else []
        return pa.ModelResponse([thought, pa.TextPart("OK"), *calls])

    def signatures(self) -> list[str]:
        parts = [part for message in DjangoMessageHistory(ID).messages() for part in message.parts]
        return [part.signature or "" for part in parts if isinstance(part, pa.ThinkingPart)]


class AgentFramework:
    def add(self, told: Told) -> None:
        async_to_sync(DjangoHistoryProvider().save_messages)(ID, [self._message(*told)])

    def _message(self, kind: str, text: str) -> FrameworkMessage:
        match kind:
            case "question":
                return FrameworkMessage("user", [text])
            case "result":
                return FrameworkMessage("tool", [Content.from_function_result("a", result=text)])
        thought = Content.from_text_reasoning(text="Hm.", protected_data=text)
        calls = [Content.from_function_call("a", "now", arguments="{}")] if kind == "call" else []
        return FrameworkMessage("assistant", [thought, "OK", *calls])

    def signatures(self) -> list[str]:
        found = async_to_sync(DjangoHistoryProvider().get_messages)(ID)
        return [one.protected_data or "" for each in found for one in each.contents if one.type == "text_reasoning"]


ADAPTERS = [LangChain, LangChainsOwnBlocks, LlamaIndex, LlamaIndexAsync, OpenAiAgents, PydanticAi, AgentFramework]


@pytest.fixture(params=ADAPTERS)
def adapter(request: Any) -> Any:
    return request.param()


def _tell(adapter: Any, *told: Told) -> None:
    for one in told:
        adapter.add(one)


def _conversation(limit: int) -> None:
    Conversation.objects.create(memory_id=ID, window="messages", limit=limit)


@pytest.mark.slow
def test_what_only_grows_keeps_all_thinking(adapter: Any) -> None:
    _conversation(20)
    _tell(adapter, ("question", "Hi"), ("answer", "1"), ("question", "The time?"), ("call", "2"), ("result", "noon"))
    _tell(adapter, ("answer", "3"), ("question", "Thanks."))
    assert adapter.signatures() == ["1", "2", "3"]


def test_after_a_cut_only_what_was_said_since_keeps_its_thinking(adapter: Any) -> None:
    _conversation(4)
    _tell(adapter, ("question", "Hi"), ("answer", "1"), ("question", "Go on"), ("answer", "2"), ("question", "Go on"))
    assert adapter.signatures() == []
    Conversation.objects.get().memory.set_window(limit=20)
    _tell(adapter, ("answer", "3"), ("question", "Go on"))
    assert adapter.signatures() == ["3"]
    assert Conversation.objects.get().messages.history().count() == 7


def test_the_turn_under_way_keeps_its_thinking(adapter: Any) -> None:
    _conversation(4)
    _tell(adapter, ("question", "Hi"), ("answer", "1"), ("question", "Go on"), ("question", "The time?"))
    _tell(adapter, ("call", "2"), ("result", "noon"))
    assert adapter.signatures() == ["2"]
    _tell(adapter, ("answer", "3"))
    assert adapter.signatures() == []


@pytest.mark.slow
def test_the_turn_under_way_keeps_its_thinking_behind_a_system_message(adapter: Any) -> None:
    """It ended in a tool, the instructions were changed, and it goes on."""
    _conversation(20)
    _tell(adapter, ("question", "Hi"), ("answer", "1"), ("question", "The time?"), ("call", "2"))
    Conversation.objects.get().memory.add(SystemMessage("Be brief."))
    assert adapter.signatures() == ["2"]
    _tell(adapter, ("result", "noon"))
    Conversation.objects.get().memory.add(SystemMessage("Be kind."))
    assert adapter.signatures() == ["2"]
    _tell(adapter, ("answer", "3"))
    assert adapter.signatures() == [], "the last answer thought behind the stale one"


@pytest.mark.parametrize("provider", ["openai", "google-gla"])
def test_thinking_that_others_signed_stays(provider: str) -> None:
    """OpenAI's must stay beside what follows it, and Gemini binds none."""
    _conversation(2)
    history = DjangoMessageHistory(ID)
    history.add([pa.ModelRequest([pa.UserPromptPart("Hi")])])
    history.add([pa.ModelResponse([pa.ThinkingPart("Hm.", id="rs", signature="1", provider_name=provider)])])
    history.add([pa.ModelRequest([pa.UserPromptPart("Go on")])])
    assert PydanticAi().signatures() == ["1"]


def test_what_openai_signed_stays_with_agent_framework() -> None:
    _conversation(2)
    thought = Content.from_text_reasoning(id="rs_1", text="Hm.", protected_data="1")
    told = [FrameworkMessage("user", ["Hi"]), FrameworkMessage("assistant", [thought, "OK"])]
    async_to_sync(DjangoHistoryProvider().save_messages)(ID, [*told, FrameworkMessage("user", ["Go on"])])
    assert AgentFramework().signatures() == ["1"]
