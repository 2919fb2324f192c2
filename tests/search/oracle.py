"""A search in plain Python: every message is read. It is the definition of what a search finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from chatmemory.contrib.search.query import has_phrase, parse
from chatmemory.contrib.search.score import NORMS, length_class, total, weight
from chatmemory.contrib.search.tokenizer import fits, root, sequence, token_texts

Tokens = tuple[Any, int, Sequence[str]]
"""A conversation, a position, and the tokens of the message."""

Root = Callable[[str], str | None]
"""Returns the beginning that related tokens have in common; None if only the whole token is related."""


def ranking(documents: Iterable[Tokens], words: Iterable[str], root: Root) -> list[tuple[int, Any, int]]:
    """Return the score, the conversation and the position of each document that has a score, the best first.

    Args:
        documents: all documents of the search. Those without tokens are none.
        words: the tokens of the query.
        root: the root of a token.
    """
    said = {(conversation, position): tokens for conversation, position, tokens in documents if tokens}
    sums = dict.fromkeys(said, 0)
    for start, is_whole in {_wanted(word, root): None for word in words}:
        found = [
            place
            for place, tokens in said.items()
            if (start in tokens if is_whole else any(token.startswith(start) for token in tokens))
        ]
        for place in found:
            sums[place] += weight(len(found), len(said))
    own = {place: NORMS[length_class(len(tokens))] * sums[place] for place, tokens in said.items()}
    scores = [
        (total(score, own.get((conversation, position - 1), 0), own.get((conversation, position + 1), 0)), *place)
        for place, score in own.items()
        for conversation, position in [place]
    ]
    # Of equal scores, the newest: the last position of the last conversation.
    return sorted((row for row in scores if row[0]), reverse=True)


def _wanted(word: str, root: Root) -> tuple[str, bool]:
    """Return what a token must be, or begin with, to match a word, and whether it is the whole token."""
    beginning = root(word)
    return (word, True) if beginning is None else (beginning, False)


@dataclass(frozen=True)
class Document:
    """A message, with what a search looks at."""

    conversation: Any
    position: int
    text: str
    created_at: Any


def search(
    documents: Sequence[Document], text: str, *, order: str, prefix: bool = False, is_chosen: Callable[[Document], bool]
) -> list[Document]:
    """Return what a search finds, in order.

    Args:
        documents: all documents.
        text: the query.
        order: ``"newest"`` or ``"relevance"``.
        prefix: whether the last word is a prefix.
        is_chosen: whether the filters choose a document.
    """
    query = parse(text, prefix=prefix)
    if query.is_empty:
        return []

    def matches(document: Document, words: Sequence[str], phrases: Sequence[Sequence[str]]) -> bool:
        tokens, steps = token_texts(document.text), sequence(document.text)

        def has(word: str) -> bool:
            return any(fits(word, token) for token in tokens)

        return (
            all(map(has, words))
            and all(has(phrase[0]) if len(phrase) == 1 else has_phrase(phrase, steps) for phrase in phrases)
            and not any(has(some[0]) if len(some) == 1 else has_phrase(some, steps) for some in query.excluded)
            and is_chosen(document)
        )

    if order == "relevance":
        said = {(document.conversation, document.position): document for document in documents}
        ranked = ranking([(*place, token_texts(one.text)) for place, one in said.items()], query.terms, root)
        best = [said[conversation, position] for _, conversation, position in ranked]
        return [document for document in best if matches(document, [], query.quoted)]
    found = [
        document
        for document in documents
        if matches(document, query.words, query.phrases)
        and (query.prefix is None or any(token.startswith(query.prefix) for token in token_texts(document.text)))
    ]
    is_one = len({document.conversation for document in documents}) == 1
    return sorted(
        found,
        key=lambda document: (None if is_one else document.created_at, document.conversation, document.position),
        reverse=True,
    )
