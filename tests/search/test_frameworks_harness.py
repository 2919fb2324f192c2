"""The history that Pydantic AI's harness searches, tried with its own search, where it is installed."""

from __future__ import annotations

import pytest

pytest.importorskip("pydantic_ai_harness", reason="the harness needs its own release of Pydantic AI")

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai_harness.conversation_search import ConversationSearch, HistorySource

from chatmemory import AiMessage, UserMessage
from chatmemory.contrib.search.frameworks.pydantic_ai_harness import DjangoHistorySource
from tests.database.test_async import run
from tests.support.factories import ConversationFactory

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.filterwarnings("ignore")]


def test_its_own_search_finds_what_the_memory_lost() -> None:
    conversation = ConversationFactory(window="messages", limit=2, memory_id="mine")
    conversation.memory.add(
        UserMessage("The kiwi is mine."), AiMessage("Noted."), UserMessage("A new kiwi."), AiMessage("Yes.")
    )
    ConversationFactory(window="messages", limit=1).memory.add(UserMessage("The kiwi of a stranger."), AiMessage("No."))
    source = DjangoHistorySource(owner=conversation.owner)
    assert isinstance(source, HistorySource)
    [record] = run(source.list_runs())
    assert (record.run_id, record.conversation_id) == (str(conversation.pk), "mine")
    assert len(run(source.run_history(run_id=record.run_id))) == 2
    assert run(source.run_history(run_id="unknown")) == []
    results: list[str] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        results.extend(str(part.content) for part in messages[-1].parts if isinstance(part, ToolReturnPart))
        if results:
            return ModelResponse([TextPart("Well.")])
        return ModelResponse([ToolCallPart("search_conversation_history", {"query": "kiwi"})])

    agent = Agent(FunctionModel(model), capabilities=[ConversationSearch(source=source)])
    run(agent.run("Which kiwi?", conversation_id="mine"))
    [result] = results
    assert "The kiwi is mine." in result
    assert "stranger" not in result
    assert "new kiwi" not in result
