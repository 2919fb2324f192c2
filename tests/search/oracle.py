"""A search in plain Python: every message is read. It is the definition of what a search finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from chatmemory.contrib.search.query import has_phrase, parse
from chatmemory.contrib.search.score import NORMS, length_class, total, weight
from chatmemory.contrib.search.tokenizer import fits, is_beginning, root, sequence, token_texts


@dataclass(frozen=True, order=True)
class Document:
    """A message, by its conversation and position, with what else a search looks at."""

    conversation: Any
    position: int
    text: str = ""
    created_at: Any = None


def relevance(documents: Iterable[Document], words: Sequence[str]) -> list[tuple[int, Document]]:
    """Return the documents with a score, the best first.

    Args:
        documents: all documents of the search.
        words: tokens of the query.
    """
    said = sorted((document for document in documents), key=lambda document: (document.conversation, document.position))
    tokens = [token_texts(document.text) for document in said]
    kept = [(document, some) for document, some in zip(said, tokens, strict=True) if some]
    matches = {matcher(word): None for word in words}
    weights = []
    for is_match in matches:
        found = [any(map(is_match, set(some))) for _, some in kept]
        if any(found):
            weights.append((found, weight(sum(found), len(kept))))
    classes = [length_class(len(some)) for _, some in kept]
    own = {
        (document.conversation, document.position): NORMS[classes[index]]
        * sum(value for found, value in weights if found[index])
        for index, (document, _) in enumerate(kept)
    }
    scores = [
        (
            total(
                own[place := (document.conversation, document.position)],
                own.get((place[0], place[1] - 1), 0),
                own.get((place[0], place[1] + 1), 0),
            ),
            document,
        )
        for document, _ in kept
    ]
    best = [pair for pair in scores if pair[0]]
    return sorted(best, key=lambda pair: (pair[0], pair[1].conversation, pair[1].position), reverse=True)


@dataclass(frozen=True)
class matcher:
    """Whether a token of a text is related to a word: by its root, or because it is the same."""

    wanted: str
    is_root: bool

    def __init__(self, word: str) -> None:
        stem = root(word)
        object.__setattr__(self, "wanted", word if stem is None else stem)
        object.__setattr__(self, "is_root", stem is not None or is_beginning(word))

    def __call__(self, token: str) -> bool:
        return token.startswith(self.wanted) if self.is_root else token == self.wanted


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
        return [found for _, found in relevance(documents, query.terms) if matches(found, [], query.quoted)]
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
