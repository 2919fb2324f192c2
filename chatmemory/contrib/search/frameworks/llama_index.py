"""A retriever and a memory block for LlamaIndex, which find what the memory of a conversation no longer contains::

    from chatmemory.contrib.search.frameworks.llama_index import ConversationRetriever, RecalledMessages

    ConversationRetriever("support-42", owner=user).retrieve("penicillin allergy")

    store = DjangoAsyncChatStore(user)
    block = RecalledMessages(memory_id="support-42", owner=user)
    memory = Memory.from_defaults(chat_store=store, session_id="support-42", memory_blocks=[block])

The block takes the place of a ``VectorMemoryBlock``, and needs no embeddings. It stores nothing: the conversation has
the messages already. Texts are quotations as ``chatmemory.contrib.search.tool`` writes them.
"""

from __future__ import annotations

from typing import Any

from chatmemory.contrib.native_memory import left_as_found
from chatmemory.contrib.search.preload import query_of
from chatmemory.contrib.search.recall import PREFACE, Scope, results, written
from chatmemory.core.asynchronous import as_async_read
from chatmemory.core.exceptions import extra

with extra("llama-index"):
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.base.llms.types import ChatMessage, MessageRole
    from llama_index.core.bridge.pydantic import Field
    from llama_index.core.memory import BaseMemoryBlock
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode


class ConversationRetriever(BaseRetriever):
    """The evicted messages of a conversation, or the messages of an owner, by relevance.

    A node has the quotation as its text, and the message itself in its metadata, which models are not shown.
    """

    def __init__(
        self,
        memory_id: str | None = None,
        *,
        owner: Any = None,
        of_owner: bool = False,
        similarity_top_k: int = 5,
        **options: Any,
    ) -> None:
        """
        Args:
            memory_id: the memory ID of the conversation; None for all conversations of the owner.
            owner: the user who owns it; None for a conversation without an owner.
            of_owner: whether to search the owner's other conversations, too.
            similarity_top_k: the maximum number of nodes.
            options: those of every retriever.
        """
        super().__init__(**options)
        self._memory_id, self._owner, self._of_owner = memory_id, owner, of_owner
        self._most = similarity_top_k

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        with left_as_found():
            return self._find(query_bundle)

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await as_async_read(self._find)(query_bundle)

    def _find(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        scope = Scope.named(self._memory_id, self._owner, of_owner=self._of_owner)
        nodes = []
        for result in results(scope, query_bundle.query_str, most=self._most):
            data = result.to_data()
            node = TextNode(
                id_=f"{data['conversation']}-{data['position']}",
                text=written([result], current=scope.current),
                metadata=data,
                excluded_llm_metadata_keys=list(data),
                excluded_embed_metadata_keys=list(data),
            )
            nodes.append(NodeWithScore(node=node, score=float(data["score"])))
        return nodes


class RecalledMessages(BaseMemoryBlock[str]):
    """Quotations of the evicted messages of a conversation that fit the user's last message."""

    name: str = Field(default="RecalledMessages", description="The name of the memory block.")
    memory_id: str | None = Field(default=None, description="The memory ID of the conversation; None for all.")
    owner: Any = Field(default=None, description="The user who owns the conversation.", exclude=True)
    of_owner: bool = Field(default=False, description="Whether to search the owner's other conversations, too.")
    similarity_top_k: int = Field(default=3, description="The maximum number of results.")

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        said = [message.content for message in messages or [] if message.role == MessageRole.USER]
        query = query_of(said[-1] or "") if said else ""
        return await as_async_read(self._find)(query) if query else ""

    async def _aput(self, messages: list[ChatMessage]) -> None:
        """Do nothing, because the conversation has the messages already."""

    def _find(self, query: str) -> str:
        scope = Scope.named(self.memory_id, self.owner, of_owner=self.of_owner)
        found = results(scope, query, most=self.similarity_top_k)
        return f"{PREFACE}\n{written(found, current=scope.current)}" if found else ""
