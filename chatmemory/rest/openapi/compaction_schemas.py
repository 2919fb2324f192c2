"""Summaries: what is due, what is asked for, and what was done."""

from __future__ import annotations

from drf_spectacular.openapi import AutoSchema

from chatmemory.conf import setting
from chatmemory.models.compaction import LONGEST_ERROR
from chatmemory.rest.compactions import OUTCOMES, CompactionSerializer
from chatmemory.rest.openapi.serializer_fields import fields_of
from chatmemory.rest.openapi.shapes import COUNT, MOMENT, Schema, closed, list_of, or_null, ref, text, whole

__all__ = ["compaction_schemas"]


def compaction_schemas(inspector: AutoSchema, conversation: Schema, memory_size: Schema) -> dict[str, Schema]:
    """Return the schemas by name.

    Args:
        inspector: reads the serializer.
        conversation: the properties of a conversation.
        memory_size: the schema of the size of a memory.
    """
    given = fields_of(inspector, CompactionSerializer())
    given["text"]["maxLength"] = setting("MAX_MESSAGE_CHARS")
    positions = {
        "covers_from": {**COUNT, "description": "The first position that it stands for."},
        "covers_to": {**COUNT, "description": "The last position that it stands for."},
    }
    plan = closed(
        {
            **positions,
            "messages": {**COUNT, "description": "Messages that no summary stands for yet."},
            "tokens": whole(0, None, "Of these messages, and of the summary before: the new one must have fewer."),
            "previous": {
                **or_null(COUNT),
                "description": "The position of the summary before, which the new one takes in.",
            },
        },
        description="What a summary would stand for; null if there is too little to summarise.",
    )
    last = closed(
        {
            "position": COUNT,
            **positions,
            "tokens": whole(0),
            "state": text("Whether it is in the memory now.", enum=["retained", "evicted"]),
            "text": text("Empty for staff who may not read it."),
            "created_at": MOMENT,
        },
        description="The latest summary; null if there is none.",
    )
    failures = closed(
        {
            "count": {**COUNT, "description": "Since the last summary."},
            "failed_at": or_null(MOMENT),
            "retry_at": {
                **or_null(MOMENT),
                "description": "A summary that is due is not tried again before.",
            },
            "error": text(
                "The last one: the class of the exception, for staff who may read messages with what it says.",
                maxLength=LONGEST_ERROR,
            ),
        }
    )
    return {
        "Compaction": closed(
            {
                "compact_at": conversation["compact_at"],
                "due": {"type": "boolean", "description": "Whether a summary is due, by `compact_at`."},
                "under_way": {"type": "boolean", "description": "Whether somebody is making a summary now."},
                "plan": or_null(plan),
                "last_summary": or_null(last),
                "failures": failures,
                "version": conversation["version"],
            },
            description="The summaries of a conversation: what is due, what was made, and what failed.",
        ),
        "NewCompaction": {
            "description": "Nothing, for a summary by the site's summarizer; or a summary of your own.",
            "anyOf": [closed({}, {"keep": given["keep"]}), closed({name: given[name] for name in ("through", "text")})],
        },
        "Compacted": closed(
            {
                "outcome": text(
                    "Whether a summary took the place of older turns; or there was too little to summarise, or the "
                    "messages were taken out meanwhile; or another summary is being made.",
                    enum=list(OUTCOMES),
                ),
                "added": list_of(ref("HistoryItem"), "The summary."),
                "evicted": list_of(ref("HistoryItem"), "The messages of the memory whose place it took."),
                "memory": memory_size,
                "version": conversation["version"],
            },
            description="What a summary did.",
        ),
    }
