"""System messages of control characters only: SystemMessage refuses them, though Python does not strip them."""

from __future__ import annotations

import pytest
from agent_framework import Message as FrameworkMessage
from langchain_core.messages import SystemMessage as LangChainSystemMessage
from llama_index.core.base.llms.types import ChatMessage as LlamaIndexMessage
from pydantic_ai.messages import ModelRequest, SystemPromptPart

from chatmemory import CustomMessage
from chatmemory.contrib.agent_framework.messages import said_in as from_agent_framework
from chatmemory.contrib.langchain.messages import to_chat_message as from_langchain
from chatmemory.contrib.llama_index.messages import to_chat_message as from_llama_index
from chatmemory.formats.agents_items import messages_of
from chatmemory.formats.pydantic_ai import said_in

BLANK = ["\x1b", "\x00 \x1f", "\n"]


@pytest.mark.parametrize("text", BLANK)
def test_they_are_custom_messages(text: str) -> None:
    assert isinstance(from_langchain(LangChainSystemMessage(text)), CustomMessage)
    assert isinstance(from_llama_index(LlamaIndexMessage(role="system", content=text)), CustomMessage)
    assert [type(said.message) for said in said_in(ModelRequest([SystemPromptPart(text)]))] == [CustomMessage]
    [[(said, _form)]] = from_agent_framework([FrameworkMessage("system", [text])])
    assert isinstance(said, CustomMessage)
    assert [type(said) for said in messages_of([[{"role": "system", "content": text}]])] == [CustomMessage]
