"""A retriever for LangChain, which finds what the memory of a conversation no longer contains::

    from chatmemory.contrib.search.frameworks.langchain import ConversationRetriever

    retriever = ConversationRetriever(memory_id="support-42", owner=request.user)
    retriever.invoke("penicillin allergy")

``page_content`` is a quotation as ``chatmemory.contrib.search.tool`` writes it, whose text is escaped, so that a prompt
may contain it. The text of the message itself is in the metadata.
"""

from __future__ import annotations

from typing import Any

from chatmemory.contrib.native_memory import left_as_found
from chatmemory.contrib.search.recall import Scope, results, written
from chatmemory.core.asynchronous import as_async_read
from chatmemory.core.exceptions import extra

with extra("langchain"):
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever


class ConversationRetriever(BaseRetriever):
    """The evicted messages of a conversation, or the messages of an owner, by relevance."""

    memory_id: str | None = None
    """The memory ID of the conversation; None for all conversations of the owner."""

    owner: Any = None
    """The user who owns it; None for a conversation without an owner."""

    of_owner: bool = False
    """Whether to search the owner's other conversations, too."""

    k: int = 5
    """The maximum number of documents."""

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        with left_as_found():
            return self._find(query)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        return await as_async_read(self._find)(query)

    def _find(self, query: str) -> list[Document]:
        scope = Scope.named(self.memory_id, self.owner, of_owner=self.of_owner)
        return [
            Document(written([result], current=scope.current), metadata=result.to_data())
            for result in results(scope, query, most=self.k)
        ]
