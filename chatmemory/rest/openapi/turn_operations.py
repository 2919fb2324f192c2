"""The operations of turns."""

from __future__ import annotations

from chatmemory.rest.openapi.operation import SAME, Operation, links
from chatmemory.rest.turns.views import TurnViewSet
from chatmemory.rest.views.base import ChatMemoryViewSet

__all__ = ["TURN_OPERATIONS"]

TURN_OPERATIONS: dict[tuple[type[ChatMemoryViewSet], str], Operation] = {
    (TurnViewSet, "retrieve"): Operation(
        id="getTurns",
        summary="What was said, as the AI SDK's useChat shows it",
        description="The latest turns; `before` for older ones. The answer of a turn that runs now is left out.",
        answer="UIMessages",
        formatted=False,
    ),
    (TurnViewSet, "take"): Operation(
        id="takeTurn",
        summary="Say something, and have it answered",
        description=(
            "The site's assistant answers. With `Accept: text/event-stream`, and by default for what `useChat` sends, "
            "the answer is a stream of parts, the AI SDK's UI message stream; its `data-memory` says what was evicted. "
            "The `Idempotency-Key`, else the ID of the message of `useChat`, makes a retry the same turn. 409 while "
            "another turn of the conversation is under way."
        ),
        body="NewTurn",
        answer="Turn",
        stream="EventStream",
        headers=("Idempotency-Key",),
        problems=frozenset({"TurnUnderWay", "ModelFailed"}),
        links=links("What was said then.", "getTurns", **SAME),
    ),
    (TurnViewSet, "stop"): Operation(
        id="stopTurn",
        summary="Stop the turn that is under way",
        description="What it has added stays. Nothing is done if none is under way.",
        formatted=False,
    ),
    (TurnViewSet, "follow"): Operation(
        id="followTurn",
        summary="The stream of a turn that is under way",
        description=(
            "What it has stored so far, and then what it stores: whole messages, for the pieces of a text went to "
            "whoever began the turn. 204 if none is under way."
        ),
        stream="EventStream",
    ),
}
