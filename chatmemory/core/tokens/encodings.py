"""The vocabularies that the package carries, loaded without a network.

``tiktoken.get_encoding()`` downloads on first use, without a time-out and under a lock; it is never called here.
The files and the patterns are OpenAI's (see ``vocabularies/NOTICE``).
"""

from __future__ import annotations

import gzip
import hashlib
import threading
import zlib
from binascii import a2b_base64
from dataclasses import dataclass
from importlib import resources

import tiktoken
from tiktoken.model import encoding_name_for_model

__all__ = ["ENCODING_NAMES", "VocabularyError", "count_tokens", "encoding_name"]


class VocabularyError(RuntimeError):
    """A vocabulary file of this package that is missing or is not the one that was shipped."""


@dataclass(frozen=True, kw_only=True)
class _Vocabulary:
    sha256: str
    """The hash of the unpacked file, the same as ``expected_hash`` in tiktoken."""

    pattern: str
    """The pattern of the pieces that are encoded one by one."""


_VOCABULARIES = {
    "o200k_base": _Vocabulary(
        sha256="446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
        pattern="|".join(
            [
                r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
                r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
                r"""\p{N}{1,3}""",
                r""" ?[^\s\p{L}\p{N}]+[\r\n/]*""",
                r"""\s*[\r\n]+""",
                r"""\s+(?!\S)""",
                r"""\s+""",
            ]
        ),
    ),
    "cl100k_base": _Vocabulary(
        sha256="223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
        pattern=r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s""",
    ),
}

ENCODING_NAMES = tuple(_VOCABULARIES)

# A run of 999,999 or more spaces makes tiktoken raise a BaseException. Slices stay far below that; where a text
# is cut, the count may be a few tokens high.
_SLICE_CHARS = 100_000

_loaded: dict[str, tiktoken.Encoding] = {}
_loading = threading.Lock()


def _load(name: str) -> tiktoken.Encoding:
    vocabulary = _VOCABULARIES[name]
    file = resources.files("chatmemory.core.tokens") / "vocabularies" / f"{name}.tiktoken.gz"
    try:
        data = gzip.decompress(file.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise VocabularyError(f"cannot read {file}: {error}. Install django-chatmemory again.") from error
    if hashlib.sha256(data).hexdigest() != vocabulary.sha256:
        raise VocabularyError(f"{file} is not the vocabulary that was shipped. Install django-chatmemory again.")
    words = data.split()  # 200,000 pairs: a loop in Python would take as long as all the rest
    ranks = dict(zip(map(a2b_base64, words[::2]), map(int, words[1::2]), strict=True))
    return tiktoken.Encoding(name, pat_str=vocabulary.pattern, mergeable_ranks=ranks, special_tokens={})


def _encoding(name: str) -> tiktoken.Encoding:
    found = _loaded.get(name)
    if found is None:
        with _loading:
            found = _loaded.get(name)
            if found is None:
                found = _loaded[name] = _load(name)
    return found


def count_tokens(text: str, encoding: str) -> int:
    """Count the tokens of ``text`` in ``encoding``, one of :data:`ENCODING_NAMES`; exact up to 100,000 characters.

    Special tokens such as ``<|endoftext|>`` are counted as the text that they are.
    """
    encode = _encoding(encoding).encode_ordinary
    if len(text) <= _SLICE_CHARS:
        return len(encode(text))
    return sum(len(encode(text[start : start + _SLICE_CHARS])) for start in range(0, len(text), _SLICE_CHARS))


def encoding_name(model: str, fallback: str = "o200k_base") -> str:
    """Return the name of the encoding that ``model`` uses.

    It is ``fallback`` for a model that tiktoken does not know or whose vocabulary is not in this package.

    Raises:
        ValueError: ``fallback`` is not in this package.
    """
    if fallback not in _VOCABULARIES:
        raise ValueError(f"fallback must be one of {', '.join(ENCODING_NAMES)}, but is: {fallback!r}")
    try:
        name = encoding_name_for_model(model)
    except KeyError:
        return fallback
    if name == "o200k_harmony":  # o200k_base with other special tokens
        return "o200k_base"
    return name if name in _VOCABULARIES else fallback
