"""Messages as providers' answers and users' uploads make them, and as none should: empty signatures, IDs twice, BMP."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from chatmemory import (
    AiMessage,
    Audio,
    AudioContent,
    ChatMessage,
    Image,
    ImageContent,
    PdfFile,
    PdfFileContent,
    ToolExecutionRequest,
    UserMessage,
)
from chatmemory.formats.anthropic import from_anthropic
from chatmemory.formats.gemini import from_gemini
from chatmemory.formats.responses import from_responses

__all__ = ["provider_answers", "sent_media"]


def provider_answers() -> st.SearchStrategy[ChatMessage]:
    """An answer as a reader or LangChain4j leaves it."""
    return st.one_of(_langchain4j_answers(), _answer_from_anthropic(), _answer_from_openai(), _answer_from_gemini())


def _answer_from_anthropic() -> st.SearchStrategy[ChatMessage]:
    """What Anthropic answers, and what it never would: blocks that say nothing."""
    thoughts = st.one_of(
        st.builds(lambda text: {"type": "thinking", "thinking": "hm", "signature": text}, st.sampled_from(["", "s"])),
        st.builds(lambda data: {"type": "redacted_thinking", "data": data}, st.sampled_from(["", "x"])),
    )
    said = st.builds(lambda text: {"type": "text", "text": text}, st.sampled_from(["", " ", "x", "x "]))
    ids = st.sampled_from(["a", "b", "a.b"])
    calls = st.builds(lambda id: {"type": "tool_use", "id": id, "name": "now", "input": {}}, ids)
    servers = st.sampled_from(["srv_1", "srv_2"])
    ran = st.one_of(
        st.builds(lambda id: {"type": "server_tool_use", "id": id, "name": "web_search", "input": {}}, servers),
        st.builds(lambda id: {"type": "web_search_tool_result", "tool_use_id": id, "content": []}, servers),
        st.builds(
            lambda id, tool: {
                **{"type": "tool_use", "id": id, "name": "now", "input": {}},
                "caller": {"type": "code_execution_20260120", "tool_id": tool},
            },
            ids,
            servers,
        ),
    )
    summaries = st.builds(
        lambda text, signature: {"type": "compaction", "content": text, "signature": signature},
        st.sampled_from([None, "x"]),
        st.sampled_from([None, "s"]),
    )
    lists = [
        st.lists(summaries, max_size=1),
        *(st.lists(blocks, max_size=2) for blocks in (thoughts, said)),
        st.lists(ran, max_size=3),
        st.lists(thoughts, max_size=1),
        st.lists(calls, max_size=2),
    ]
    return st.tuples(*lists).map(lambda some: from_anthropic([_turn(_thinking_first(some))])[0])


def _thinking_first(lists: tuple[list[dict[str, Any]], ...]) -> list[dict[str, Any]]:
    """Return the blocks of an answer that thinks in between only if it has done so first."""
    summaries, thoughts, said, ran, more, calls = lists
    thinks = any(block.get("signature") or block.get("data") for block in thoughts)
    return [*summaries, *thoughts, *said, *ran, *(more if thinks else []), *calls]


def _turn(blocks: list[dict[str, Any]]) -> dict[str, Any]:
    return {"role": "assistant", "content": blocks}


def _answer_from_openai() -> st.SearchStrategy[ChatMessage]:
    """What OpenAI's Responses answer, the same items twice among them."""
    part = {"type": "output_text", "text": "x", "annotations": []}
    said = {"type": "message", "role": "assistant", "status": "completed", "content": [part]}
    thoughts = st.builds(
        lambda id, sealed: {"type": "reasoning", "id": id, "summary": [], "encrypted_content": sealed},
        st.sampled_from(["rs_1", "rs_2"]),
        st.sampled_from(["e", "e", None]),
    )
    texts = st.builds(lambda id: said | {"id": id}, st.sampled_from(["msg_1", "msg_2", "msg_3"]))
    calls = st.builds(
        lambda id, item, arguments: (
            {"type": "function_call", "call_id": id, "name": "now", "arguments": arguments}
            | ({"id": item} if item else {})
        ),
        st.sampled_from(["a", "b"]),
        st.sampled_from([None, "fc_1", "fc_2"]),
        st.sampled_from(["", " ", "{}"]),
    )
    searches = st.builds(
        lambda id, status: {"type": "web_search_call", "id": id, "status": status, "action": {"type": "search"}},
        st.sampled_from(["ws_1", "ws_2"]),
        st.sampled_from(["completed", "failed", "in_progress", "searching", "incomplete"]),
    )
    lists = [st.lists(items, max_size=2) for items in (thoughts, searches, thoughts, texts, calls, thoughts)]
    items = st.tuples(*lists).map(lambda some: [item for items in some for item in items])
    return items.filter(bool).map(lambda items: from_responses(items)[0])


def _answer_from_gemini() -> st.SearchStrategy[ChatMessage]:
    call = {"functionCall": {"name": "now", "args": {}}, "thoughtSignature": "c2ln"}
    code = [{"executableCode": {"code": "1", "language": "PYTHON"}}, {"codeExecutionResult": {"outcome": "OUTCOME_OK"}}]
    tool = [{"toolCall": {"id": "s1", "toolType": "GOOGLE_MAPS"}}, {"toolResponse": {"id": "s1"}}]
    said = [{"text": "hm", "thought": True}, {"text": "x", "thoughtSignature": "c2ln"}]
    parts = st.sampled_from([*said, call, *code, *tool])
    return st.lists(parts, max_size=4).map(lambda parts: from_gemini([{"role": "model", "parts": parts}])[0])


def _langchain4j_answers() -> st.SearchStrategy[ChatMessage]:
    """Answers with thinking, as LangChain4j keeps it."""
    attributes = st.fixed_dictionaries(
        {},
        optional={
            "thinking_signature": st.sampled_from(["", "s", "s\nt"]),
            "redacted_thinking": st.sampled_from([[], [""], ["x"]]),
            "openai": st.builds(lambda name: {"name": name}, st.sampled_from(["Ann", "My Bot", "x" * 65])),
        },
    )
    calls = st.lists(
        st.builds(ToolExecutionRequest, st.sampled_from([None, "a", "b"]), st.just("now"), st.just("{}")), max_size=2
    )
    said = st.sampled_from([None, "", " ", "x", "x "])
    return st.builds(AiMessage, said, calls, thinking=st.sampled_from([None, "", "hm"]), attributes=attributes)


def sent_media() -> st.SearchStrategy[ChatMessage]:
    """A message with media, often of no type or address that any API takes."""
    urls = st.sampled_from(
        [f"{address}/a.png" for address in ("http://x", "https://x", "http://", "gs://x", "file://", "a")]
        + ["https://x/a.pdf", ""]
        + [
            f"data:{type};base64,aGk="
            for type in ("image/png", "image/bmp", "IMAGE/JPG", "application/pdf", "text/plain", "")
        ]
        + ["data:image/png;base64,", "data:image/png;base64,a!", "data:,x"]
    )
    types = st.sampled_from(["image/png", "image/bmp", "image/jpg", "application/pdf", "text/plain", "audio/wav", ""])
    data = st.sampled_from(["aGk=", "aGk=", "aGk", "x y"])
    fields = {"url": st.none() | urls, "base64_data": st.none() | data, "mime_type": st.none() | types}
    contents = st.one_of(
        st.builds(lambda media: ImageContent(image=media), st.builds(Image, **fields)),
        st.builds(lambda media: PdfFileContent(pdf_file=media), st.builds(PdfFile, **fields)),
        st.builds(lambda media: AudioContent(audio=media), st.builds(Audio, **fields)),
    )
    return st.builds(lambda content: UserMessage([content]), contents)
