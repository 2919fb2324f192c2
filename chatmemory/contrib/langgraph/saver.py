"""LangGraph's checkpoints on the ORM::

    # INSTALLED_APPS = ["chatmemory", "chatmemory.contrib.langgraph", …], then manage.py migrate
    from chatmemory.contrib.langgraph.saver import DjangoSaver

    graph = builder.compile(checkpointer=DjangoSaver(owner=request.user))
    graph.invoke({"messages": [("user", "Hi")]}, {"configurable": {"thread_id": "support-42"}})

A thread is the owner's conversation whose memory ID is the thread's ID. The channel ``messages`` of the root graph is
mirrored in its memory, in the transaction of the checkpoint, by the IDs of the messages and in their order: a new
message is added, a changed one takes the place of the old, a removed one is evicted as rewritten. So the admin, REST
and every other framework read it. History keeps all, and has each message once: one that moved, returned, or changed
only its ID or metadata, is a copy.

- The state of the graph belongs to the graph: only its own nodes trim it. The window of the conversation bounds the
  memory that other programs read, and a memory holds one system message at a time.
- The memory follows the checkpoint from which the next run continues: a fork in the past evicts the messages after it,
  and of two runs at once, the memory has what the newest checkpoint has. What the window evicted stays evicted.
  Deleting a thread evicts its messages. To delete them, erase the conversation, which deletes its checkpoints too.
- Messages of other programs stay where they are, but a graph does not read them automatically:
  ``DjangoSaver.messages`` starts or continues one with them.
- A channel of another name, or with values that are not LangChain's messages, is stored and not mirrored; a
  ``DeltaChannel`` is mirrored whenever it takes a snapshot.

A graph that runs synchronously saves from LangGraph's threads, each with a connection of its own, which is closed
afterwards; a pool makes that cheap. So do not invoke one within a transaction: the threads do not see what it wrote,
and if it changed the same conversation, each waits for the other. Async methods run where all of Django's ORM does.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Unpack

from asgiref.sync import sync_to_async

from chatmemory.contrib.native_memory import (
    ConversationSettings,
    NativeMemory,
    async_change,
    async_read,
    left_as_found,
    settings_of_new,
    valid_rows,
)
from chatmemory.core.exceptions import extra
from chatmemory.models import require_owner

with extra("langgraph"):
    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        BaseCheckpointSaver,
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        DeltaChannelHistory,
    )
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from chatmemory.contrib.langchain.messages import FRAMEWORK
    from chatmemory.contrib.langgraph import pruning, reading, writing
    from chatmemory.contrib.langgraph.mirror import as_graph_message
    from chatmemory.contrib.langgraph.threads import Threads


class DjangoSaver(BaseCheckpointSaver[str]):
    """The checkpoints of one owner's threads, each of which is a conversation.

    The ``a…`` methods are async versions. A thread is changed under the lock of its conversation, in one transaction,
    which is retried if it collides with another: any number of tasks and processes may write.

    A thread's ID that is None, empty or too long raises a ``ValueError``.
    """

    def __init__(
        self,
        owner: Any = None,
        *,
        serde: SerializerProtocol | None = None,
        **settings: Unpack[ConversationSettings],
    ) -> None:
        """
        Args:
            owner: the user who owns the threads; None for threads without an owner.
            serde: serialises states and values; LangGraph's ``JsonPlusSerializer`` by default. It must not fall back
                on pickle.
            settings: of a conversation that a thread creates, see
                ``ConversationSettings``.

        Raises:
            TypeError: there is no such setting.
            ValueError: an anonymous or unsaved user, or settings that no conversation can have.
        """
        super().__init__(serde=serde)
        self._owner, self._settings = require_owner(owner), settings_of_new(**settings)

    @property
    def _threads(self) -> Threads:
        return Threads(self._owner, self._settings, self.serde)  # LangGraph copies a saver for another serde

    @left_as_found()
    def messages(self, thread_id: Any) -> list[BaseMessage]:
        """Return the memory of a thread's conversation, including messages of other programs.

        Each message has an ID by which the saver recognises it. With the input
        ``{"messages": [*saver.messages(thread_id), new]}`` a graph reads the messages that other programs added
        meanwhile, and none is stored twice.
        """
        memory = NativeMemory(FRAMEWORK, thread_id, self._owner)
        return [as_graph_message(row, message) for row, message in valid_rows(memory)]

    amessages = async_read(messages)

    @left_as_found()
    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that ``config`` names; without a checkpoint ID the latest of its namespace; or None."""
        return reading.read_latest(self._threads, config)

    aget_tuple = async_read(get_tuple)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, the latest first; with ``config=None`` those of all threads of the owner.

        Args:
            config: names a thread, and may name a namespace and a checkpoint.
            filter: metadata that the checkpoints must have.
            before: names a checkpoint that all must be older than.
            limit: the most checkpoints.
        """
        found = reading.read_pages(self._threads, config, filter, before, limit)
        following = left_as_found()(lambda: next(found, None))
        yield from iter(following, None)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        found = reading.read_pages(self._threads, config, filter, before, limit)
        following = sync_to_async(lambda: next(found, None))
        while (checkpoint := await following()) is not None:
            yield checkpoint

    @left_as_found()
    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint, and of its channels those in ``new_versions``. A second call changes nothing.

        Args:
            config: names the thread, the namespace, and the checkpoint that this one follows.
            checkpoint: the state.
            metadata: the metadata of the step.
            new_versions: the versions of the channels that the step wrote.

        Returns:
            A config that names the checkpoint.

        Raises:
            ValueError: an ID or a name is too long, or no database can store it.
        """
        return writing.put(self._threads, config, checkpoint, metadata, new_versions)

    aput = async_change(put)

    @left_as_found()
    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store the writes of a task before its step ends. A second call changes only errors, interrupts and the like.

        Args:
            config: names the checkpoint that the task ran on.
            writes: the channel and the value of each.
            task_id: the ID of the task.
            task_path: the task's place among the others, by which writes are sorted.

        Raises:
            ValueError: an ID or a name is too long.
        """
        writing.put_writes(self._threads, config, writes, task_id, task_path)

    aput_writes = async_change(put_writes)

    @left_as_found()
    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return for each channel the last value stored before a checkpoint, if there is one, and the writes since.

        This takes at most five statements for each 200 checkpoints since that value, however many writes there were.

        Args:
            config: names the checkpoint, or a namespace whose latest one it is.
            channels: the names of the channels.

        Raises:
            TypeError: ``channels`` is no list.
        """
        return reading.read_histories(self._threads, config, channels)

    aget_delta_channel_history = async_read(get_delta_channel_history)

    @left_as_found()
    def delete_thread(self, thread_id: str) -> None:
        """Delete all checkpoints of a thread, and evict its messages; history keeps them."""
        pruning.delete_thread(self._threads, thread_id)

    adelete_thread = async_change(delete_thread)

    @left_as_found()
    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints whose metadata have one of ``run_ids``; the memory follows the remaining ones.

        Raises:
            TypeError: ``run_ids`` is no list.
        """
        pruning.delete_for_runs(self._threads, run_ids)

    adelete_for_runs = async_change(delete_for_runs)

    @left_as_found()
    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints of a thread to another, and add its messages to that one's conversation.

        Raises:
            ValueError: the target has checkpoints already.
        """
        pruning.copy_thread(self._threads, source_thread_id, target_thread_id)

    acopy_thread = async_change(copy_thread)

    @left_as_found()
    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete checkpoints of threads, each in a transaction of its own.

        Args:
            thread_ids: the IDs of the threads.
            strategy: ``"keep_latest"`` keeps the latest checkpoint of the graph and of each subgraph, and those from
                which its delta channels are rebuilt. But the checkpoints of a call of a subgraph are deleted once the
                graph has gone on, unless the subgraph has ``checkpointer=True``. ``"delete"`` is
                ``delete_thread``.

        Raises:
            TypeError: ``thread_ids`` is no list.
            ValueError: there is no such strategy.
        """
        pruning.prune(self._threads, thread_ids, strategy)

    aprune = async_change(prune)

    def get_next_version(self, current: str | None, channel: None) -> str:
        """Return a version that no other branch of the thread has: an increasing number, and a random one."""
        number = 0 if current is None else int(str(current).split(".")[0])
        return f"{number + 1:032}.{random.random():016}"
