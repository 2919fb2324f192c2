"""The search in lists of conversations and messages, in REST and in the admin."""

from __future__ import annotations

import re
from collections.abc import Collection

from django.db.models import Model, Q, QuerySet

from chatmemory.contrib.search.corpus import TooManyConversationsError
from chatmemory.contrib.search.query import parse
from chatmemory.contrib.search.searching import newest_matches
from chatmemory.models import Conversation

MOST_LISTED = 2_000
"""The messages that one condition names by their primary keys, the newest."""


def condition(
    model: type[Model], conversations: QuerySet[Conversation], text: str, types: Collection[str] = ()
) -> Q | None:
    """Return the condition on conversations, or on messages, with all words of a text; the last may be unfinished.

    If more than ``MOST_LISTED`` messages match, the condition on the older ones looks for the words in the text, also
    within longer words. So many of them match that this soon finds a page of them.

    Args:
        model: ``Conversation`` or ``Message``.
        conversations: the conversations to search, with their database.
        text: what the user typed.
        types: the types of messages to search; empty for all.

    Returns:
        The condition. None if the text has no words, there are too many conversations, or the index is incomplete.
    """
    query = parse(text, prefix=True)
    if query.is_empty:
        return None
    try:
        matches = newest_matches(
            conversations, query, MOST_LISTED, with_messages=model is not Conversation, readable=types
        )
    except TooManyConversationsError:
        return None
    if matches is None:
        return None
    found, older = matches
    if model is Conversation:
        return Q(pk__in={*(row.conversation_id for row in found), *older})
    named = Q(pk__in=[row.pk for row in found])
    if not older:
        return named
    last = Q(created_at__lte=found[-1].created_at) if found else Q()
    of_types = Q(type__in=types) if types else Q()
    return named | (last & of_types & Q(conversation__in=older) & _with_words(text))


_WORD = re.compile(r'(-?)(?:"([^"]*)"?|([^\s"]+))')


def _with_words(text: str) -> Q:
    found = Q()
    for no, phrase, word in _WORD.findall(text):
        said = Q(text__icontains=phrase or word)
        found &= ~said if no else said
    return found
