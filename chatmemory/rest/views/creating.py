"""The creation of conversations: what all calls have in common that create one, whether empty or a copy."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.db import IntegrityError, router
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request

from chatmemory.database.idempotency import find_key, fingerprint, keys_of_owner, make_conversation
from chatmemory.models import Conversation
from chatmemory.rest.access import is_for_others, require_reachable
from chatmemory.rest.problems import Conflict
from chatmemory.rest.serializers import ConversationSerializer
from chatmemory.rest.views.viewset import ChatMemoryViewSet, record_change


def create_conversation(
    view: ChatMemoryViewSet,
    owner: Any,
    make: Callable[[UUID], Conversation],
    *,
    asked: Any,
    entry: dict[str, Any] | None = None,
    refuse: Callable[[str], None] = lambda database: None,
) -> dict[str, Any]:
    """Create a conversation once for each idempotency key, if staff who create it can reach it, and record it.

    Args:
        view: the view of the request.
        owner: the owner of the conversation, None if it is to have none.
        make: inserts the conversation with a primary key, and returns it.
        asked: what the request asks for, as JSON. A repeated request must ask for the same.
        entry: what the log tells of it.
        refuse: raises an error that says why ``make`` cannot insert the conversation, if it is known. Its argument is
            the alias of the database.

    Returns:
        The conversation as the response has it. That of a repeated request is the original one.

    Raises:
        Conflict: other requests create such a conversation again and again.
        IdempotencyConflictError: the key was already used with another request.
        NotFound: staff cannot reach the conversation.
    """
    request, key, database = view.request, view.idempotency_key(), router.db_for_write(Conversation)
    asked = fingerprint(json.dumps(asked, sort_keys=True))

    def account(made: Conversation) -> str:
        require_reachable(request, database, made.pk)
        record_change(request, made, entry or {}, act="add")
        data = ConversationSerializer(made, context=view.get_serializer_context()).data
        return JSONRenderer().render(data).decode()

    told = _told_before(request, database, owner, key, asked)
    for _attempt in range(5):
        if told is not None:
            break
        try:
            told = make_conversation(make, database, owner, account, key=key, request=asked)
        except IntegrityError:
            told = _told_before(request, database, owner, key, asked)
            if told is None:
                refuse(database)
    if told is None:
        raise Conflict("Other requests create and erase a conversation with this memory_id. Try again.")
    result: dict[str, Any] = json.loads(told)
    return result


def _told_before(request: Request, database: str, owner: Any, key: str | None, asked: str) -> str | None:
    """Return the result of the request that already used a key; None if there is none."""
    if key is None:
        return None
    keys = keys_of_owner(owner, key, database)
    if is_for_others(request):  # staff who do not reach the conversation must not learn that the key was used
        for record in keys.filter(key=key):
            require_reachable(request, database, record.conversation_id)
    found = find_key(keys, key, asked)
    return None if found is None else found.account
