"""Token counts: those of LangChain4j's ``OpenAiTokenCountEstimator``, and estimates where it refuses to count.

The vocabularies are in this package and need no network. ``tiktoken.get_encoding()`` is never called, because it
downloads on first use, without a time-out and under a lock. The files and patterns are OpenAI's (see
``vocabularies/NOTICE``).
"""

from __future__ import annotations

import gzip
import hashlib
import json
import threading
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from struct import Struct
from typing import TYPE_CHECKING, Any, Protocol

from chatmemory.core.contents import Content, DetailLevel, ImageContent, PdfFileContent, TextContent
from chatmemory.core.images import image_tokens, pdf_tokens
from chatmemory.core.kept import PDF, kept_tokens
from chatmemory.core.messages import (
    AiMessage,
    ChatMessage,
    CustomMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.core.serialization import message_to_json

if TYPE_CHECKING:
    import tiktoken  # imported at run time when the first token is counted

_MOST = 2_147_483_647  # the largest integer that every database stores


class TokenCountEstimator(Protocol):
    """An estimator for token windows: any object with these three methods.

    Each method returns a whole number from 0 to 2,147,483,647. The third method's count for no messages is the overhead
    of a request, which a window adds once to the sum of its messages. An estimator may have an attribute ``model`` (a
    string). Stored counts are reused by all estimators of the same type and model.
    """

    def estimate_token_count_in_text(self, text: str) -> int:
        """Count the tokens of a plain text."""

    def estimate_token_count_in_message(self, message: ChatMessage) -> int:
        """Count the tokens of a message, including what the model's format adds to each message."""

    def estimate_token_count_in_messages(self, messages: Iterable[ChatMessage]) -> int:
        """Count the tokens of all messages, including what the model's format adds to each request."""


def tokens_of(message: ChatMessage, estimator: TokenCountEstimator) -> int:
    """Return the tokens of a message.

    Raises:
        TypeError: the estimator returned something other than a whole number.
        ValueError: the estimator returned a number that is negative, or too large to be stored.
    """
    return require_count(estimator.estimate_token_count_in_message(message), estimator)


def tokens_of_request(estimator: TokenCountEstimator) -> int:
    """Return the tokens of a request without its messages.

    Raises:
        TypeError, ValueError: as above.
    """
    return require_count(estimator.estimate_token_count_in_messages([]), estimator)


def require_count(count: Any, estimator: TokenCountEstimator) -> int:
    """Return ``count``, a result of ``estimator``, if it can be stored.

    Raises:
        TypeError, ValueError: as above.
    """
    if isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= _MOST:
        return count
    kind = ValueError if isinstance(count, int) and not isinstance(count, bool) else TypeError
    raise kind(
        f"{type(estimator).__qualname__} must return a whole number from 0 to {_MOST}, but returned: {count!r:.300}"
    )


_CLAUDE_TOOLS = 346  # of the system text that Anthropic adds to every request with tools


def tool_tokens(tools: str, estimator: TokenCountEstimator) -> int:
    """Return the tokens of the definitions of tools, which are JSON, in a request."""
    added = _CLAUDE_TOOLS if str(getattr(estimator, "model", "")).startswith("claude") else 0
    return added + estimator.estimate_token_count_in_text(tools)


# 3 for the frame around every message, 1 for its role.
_PER_MESSAGE = 4

# The length of a recording or a video is not known: half a minute.
_OTHER_MEDIA = 1000


class OpenAiTokenCountEstimator:
    """An estimator of the tokens of messages in OpenAI's chat format.

    It agrees with LangChain4j wherever that counts. Where that refuses, this estimates: an image and a page of a PDF
    file cost what the model's provider says (``chatmemory.core.images``), other media 1,000, a custom message its JSON
    text, several contents of a tool result their sum, arguments that are no JSON object their text. What is kept for a
    provider and sent again, such as signed thinking, counts as well (``chatmemory.core.kept``).
    """

    def __init__(self, model: str, *, fallback_encoding: str = "o200k_base") -> None:
        """Args:
            model: the model, such as ``"gpt-4o"``.
            fallback_encoding: ``"o200k_base"`` or ``"cl100k_base"``, for models that tiktoken does not know.

        Raises:
            ValueError: ``model`` is empty, or ``fallback_encoding`` is unknown.
        """
        if not isinstance(model, str) or not model.strip():
            raise ValueError("model_name cannot be null or blank")
        self.model = model
        self.encoding = encoding_name(model, fallback_encoding)
        self._overhead_per_request = 2 if model.startswith("o") else 3
        self._overhead_per_ai_message = 2 if model.startswith("o4") else 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r})"

    def preload(self) -> None:
        """Load the vocabulary (about 50 MB) now, so that processes forked later share it."""
        self.estimate_token_count_in_text("")

    def estimate_token_count_in_text(self, text: str) -> int:
        """Count the tokens of a plain text."""
        return count_tokens(text, self.encoding)

    def estimate_token_count_in_messages(self, messages: Iterable[ChatMessage]) -> int:
        """Count the tokens of a request with ``messages``."""
        return self._overhead_per_request + sum(map(self.estimate_token_count_in_message, messages))

    def estimate_token_count_in_message(self, message: ChatMessage) -> int:
        """Count the tokens of one message.

        Raises:
            TypeError: ``message`` is not one of the five types.
        """
        kept = kept_tokens(message, self.estimate_token_count_in_text, self._media)
        return _PER_MESSAGE + self._count(message) + kept

    def _count(self, message: ChatMessage) -> int:
        text = self.estimate_token_count_in_text
        match message:
            case SystemMessage():
                return text(message.text)
            case UserMessage():
                name = 0 if message.name is None else 1 + text(message.name)
                return name + sum(map(self._content, message.contents))
            case AiMessage():
                return (
                    self._overhead_per_ai_message
                    + text(message.text or "")
                    + self._requests(message.tool_execution_requests)
                )
            case ToolExecutionResultMessage():
                return sum(map(self._content, message.contents))
            case CustomMessage():
                return text(_json(message))
            case _:
                raise TypeError(f"Unknown message type: {type(message).__name__}")

    def _content(self, content: Content) -> int:
        if isinstance(content, TextContent):
            return self.estimate_token_count_in_text(content.text)
        if isinstance(content, ImageContent):
            return image_tokens(content, self.model)
        if isinstance(content, PdfFileContent):
            return pdf_tokens(content, self.model)
        return _OTHER_MEDIA

    def _media(self, data: str) -> int:
        if data.startswith(PDF):
            return self._content(PdfFileContent(base64_data=data))
        return self._content(ImageContent(base64_data=data, mime_type="image/*", detail_level=DetailLevel.HIGH))

    def _requests(self, requests: Sequence[ToolExecutionRequest]) -> int:
        text = self.estimate_token_count_in_text
        if not requests:
            return 0
        if len(requests) == 1:
            name, arguments = requests[0].name or "", requests[0].arguments or ""
            return 5 + 2 * text(name) + text(arguments)
        return 21 + sum(7 + text(request.name or "") + self._arguments(request.arguments or "") for request in requests)

    def _arguments(self, arguments: str) -> int:
        text = self.estimate_token_count_in_text
        if not arguments:
            return 0
        try:
            parsed = json.loads(arguments)
        except (ValueError, RecursionError):
            parsed = None
        if not isinstance(parsed, dict):
            return text(arguments)
        return sum(
            2 + text(key) + text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
            for key, value in parsed.items()
        )


def stored_count(message: ChatMessage, estimator: TokenCountEstimator) -> int:
    """Count the tokens of a stored message, with OpenAI's estimator if ``estimator`` fails.

    Therefore, a stored message can never make its memory unreadable. A count that cannot be stored is still an error.

    Raises:
        TypeError: the estimator returned something other than a whole number.
        ValueError: the estimator returned a number that is negative, or too large to be stored.
    """
    try:
        counted = estimator.estimate_token_count_in_message(message)
    except Exception:
        return OpenAiTokenCountEstimator("gpt-4o").estimate_token_count_in_message(message)
    return require_count(counted, estimator)


def _json(message: CustomMessage) -> str:
    try:
        return message_to_json(message)
    except (TypeError, ValueError):  # attributes that have no JSON form still cost something
        return str(dict(message.attributes))


class VocabularyError(RuntimeError):
    """A vocabulary file of this package that is missing or has changed."""


@dataclass(frozen=True, kw_only=True)
class _Vocabulary:
    tokens: int

    sha256: str
    """The hash of the unpacked file: the length of each token in one byte, then the tokens in the order of their ranks.
    """

    pattern: str
    """The pattern of the pieces that are encoded separately."""


_VOCABULARIES = {
    "o200k_base": _Vocabulary(
        tokens=199_998,
        sha256="440741350e7cfa1c0f4869ce742d1b043550adbda5187adcac9e787edac6fba9",
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
        tokens=100_256,
        sha256="18288f996f452d44e0e65996176591a4b712a3eb1b42afd6f0511e735c099480",
        pattern=r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s""",
    ),
}

ENCODING_NAMES = tuple(_VOCABULARIES)

# tiktoken raises a BaseException for a run of 999,999 or more spaces, so longer texts are cut. Each cut may add a few
# tokens to the count.
_SLICE_CHARS = 100_000

_loaded: dict[str, tiktoken.Encoding] = {}
_loading = threading.Lock()


def _load(name: str) -> tiktoken.Encoding:
    import tiktoken

    vocabulary = _VOCABULARIES[name]
    file = resources.files("chatmemory.core") / "vocabularies" / f"{name}.tokens.gz"
    try:
        data = gzip.decompress(file.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise VocabularyError(f"cannot read {file}: {error}. Install django-chatmemory again.") from error
    if hashlib.sha256(data).hexdigest() != vocabulary.sha256:
        raise VocabularyError(f"{file} has changed. Install django-chatmemory again.")
    lengths = data[: vocabulary.tokens]
    # One call in C, because a loop over 200,000 tokens would double the time. The module's unpack() would cache the
    # format.
    tokens = Struct("%ds" * vocabulary.tokens % tuple(lengths)).unpack(data[vocabulary.tokens :])
    ranks = dict(zip(tokens, range(vocabulary.tokens), strict=True))
    encoding = tiktoken.Encoding(name, pat_str=vocabulary.pattern, mergeable_ranks=ranks, special_tokens={})
    ranks.clear()  # 30 MB, which tiktoken keeps but never reads again
    return encoding


def _encoding(name: str) -> tiktoken.Encoding:
    found = _loaded.get(name)
    if found is None:
        with _loading:
            found = _loaded.get(name)
            if found is None:
                found = _loaded[name] = _load(name)
    return found


def count_tokens(text: str, encoding: str) -> int:
    """Count the tokens of ``text`` in ``encoding``, one of ``ENCODING_NAMES``. The count is exact up to 100,000
    characters.

    Special tokens such as ``<|endoftext|>`` are counted as plain text.
    """
    encode = _encoding(encoding).encode_ordinary
    if len(text) <= _SLICE_CHARS:
        return len(encode(text))
    return sum(len(encode(text[start : start + _SLICE_CHARS])) for start in range(0, len(text), _SLICE_CHARS))


def encoding_name(model: str, fallback: str = "o200k_base") -> str:
    """Return the name of the encoding that ``model`` uses.

    Return ``fallback`` if tiktoken does not know the model, or if this package does not contain the vocabulary.

    Raises:
        ValueError: this package does not contain ``fallback``.
    """
    if fallback not in _VOCABULARIES:
        raise ValueError(f"fallback must be one of {', '.join(ENCODING_NAMES)}, but is: {fallback!r}")
    from tiktoken.model import encoding_name_for_model

    try:
        name = encoding_name_for_model(model)
    except KeyError:
        return fallback
    if name == "o200k_harmony":  # o200k_base with other special tokens
        return "o200k_base"
    return name if name in _VOCABULARIES else fallback
