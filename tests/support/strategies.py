"""Hypothesis strategies for messages: whatever the constructors take and a database can hold."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from chatmemory import (
    AiMessage,
    Audio,
    AudioContent,
    ChatMessage,
    Content,
    CustomMessage,
    DetailLevel,
    Image,
    ImageContent,
    PdfFileContent,
    SystemMessage,
    TextContent,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
    VideoContent,
)

__all__ = ["attributes", "contents", "json_values", "messages", "texts", "tool_groups"]

_URLS = st.sampled_from(["", "https://x/a.png", "https://example.com/a?b=c&d=%20#f", "data:image/png;base64,aGk="])
_BASE64 = st.sampled_from(["aGk=", "not base64!"])
_MIME_TYPES = st.sampled_from(["image/png", "x/y"])


def texts(**kwargs: Any) -> st.SearchStrategy[str]:
    """Text of any script, without U+0000 and halves of surrogate pairs."""
    return st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), **kwargs)


def json_values(text: st.SearchStrategy[str] | None = None) -> st.SearchStrategy[Any]:
    """Anything that JSON has."""
    text = texts(max_size=20) if text is None else text
    leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
        max_leaves=8,
    )


def attributes() -> st.SearchStrategy[dict[str, Any]]:
    """Attributes of a message, often none."""
    return st.just({}) | st.dictionaries(texts(max_size=10), json_values(), max_size=3)


def contents() -> st.SearchStrategy[Content]:
    """A part of a message of any of the five types."""
    optional_urls = st.none() | _URLS
    images = st.builds(
        Image,
        url=optional_urls,
        base64_data=st.none() | _BASE64,
        mime_type=st.none() | _MIME_TYPES,
        revised_prompt=st.none() | texts(max_size=10),
    )
    audios = st.builds(Audio, url=optional_urls, binary_data=st.none() | st.binary(max_size=8))
    return st.one_of(
        st.builds(TextContent, texts(max_size=40)),
        st.builds(ImageContent, image=images, detail_level=st.sampled_from(DetailLevel)),
        st.builds(AudioContent, audio=audios),
        st.builds(VideoContent, optional_urls),
        st.builds(PdfFileContent, base64_data=_BASE64),
    )


def _requests() -> st.SearchStrategy[ToolExecutionRequest]:
    arguments = st.sampled_from(["{}", '{"city": "Munich"}', '{"a": [1, {"b": null}]}', "[1]", "no JSON"])
    names = st.none() | texts(max_size=10)
    return st.builds(ToolExecutionRequest, id=names, name=names, arguments=st.none() | arguments | texts(max_size=10))


def _system() -> st.SearchStrategy[SystemMessage]:
    return st.builds(SystemMessage, texts(max_size=40).map(lambda text: text + "."))  # never blank


def _user() -> st.SearchStrategy[UserMessage]:
    plain = st.builds(UserMessage, texts(max_size=60))
    return plain | st.builds(
        UserMessage,
        contents=st.lists(contents(), min_size=1, max_size=3),
        # An empty name is not written, and so comes back as none.
        name=st.none() | texts(min_size=1, max_size=10),
        attributes=attributes(),
    )


def _ai(requests: st.SearchStrategy[list[ToolExecutionRequest]]) -> st.SearchStrategy[AiMessage]:
    optional = st.none() | texts(max_size=60)
    return st.builds(AiMessage, optional, requests, thinking=optional, attributes=attributes())


def _tool_results() -> st.SearchStrategy[ToolExecutionResultMessage]:
    names = st.none() | texts(max_size=10)
    plain = st.builds(ToolExecutionResultMessage, names, names, texts(max_size=40))
    return plain | st.builds(
        ToolExecutionResultMessage,
        names,
        names,
        contents=st.lists(contents(), min_size=1, max_size=3),
        is_error=st.none() | st.booleans(),
        attributes=attributes(),
    )


def messages() -> st.SearchStrategy[ChatMessage]:
    """One message of any of the five types; it is equal to itself after a round trip through JSON."""
    return st.one_of(
        _system(),
        _user(),
        _ai(st.lists(_requests(), max_size=3)),
        _tool_results(),
        st.builds(CustomMessage, attributes()),
    )


@st.composite
def tool_groups(draw: st.DrawFn) -> list[ChatMessage]:
    """An AI message that calls one to three tools, and their results in order."""
    ids = draw(st.lists(texts(min_size=1, max_size=5), min_size=1, max_size=3, unique=True))
    requests = [ToolExecutionRequest(id, "tool", "{}") for id in ids]
    return [
        AiMessage(None, requests),
        *(ToolExecutionResultMessage(id, "tool", draw(texts(max_size=10))) for id in ids),
    ]
