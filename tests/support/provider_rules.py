"""What the providers' documentation demands of messages, beside the types of their SDKs, which are asked as well."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from pydantic import TypeAdapter

__all__ = [
    "anthropic_signature",
    "assert_anthropic_accepts",
    "assert_gemini_accepts",
    "assert_openai_accepts",
    "assert_responses_accept",
    "assert_thinking_is_bound",
]


# Imported when they are used: the SDKs have thousands of modules, which no process needs that runs other tests.


@cache
def _openai() -> TypeAdapter[Any]:
    from openai.types.chat import ChatCompletionMessageParam

    return TypeAdapter(list[ChatCompletionMessageParam])


@cache
def _responses() -> TypeAdapter[Any]:
    from openai.types.responses import ResponseInputItemParam

    return TypeAdapter(list[ResponseInputItemParam])


@cache
def _anthropic() -> TypeAdapter[Any]:
    from anthropic.types.beta import BetaMessageParam

    return TypeAdapter(list[BetaMessageParam])


@cache
def _anthropic_system() -> TypeAdapter[Any]:
    from anthropic.types import TextBlockParam

    return TypeAdapter(str | list[TextBlockParam])


def _validate(adapter: TypeAdapter[Any], data: Any) -> None:
    """Raise unless the SDK's types take it; pydantic validates an ``Iterable`` only when it is iterated over."""

    def exhaust(value: Any) -> None:
        if isinstance(value, dict):
            exhaust(list(value.values()))
        elif isinstance(value, Iterable) and not isinstance(value, str):
            for item in value:
                exhaust(item)

    exhaust(adapter.validate_python(data))
    json.dumps(data, allow_nan=False, ensure_ascii=False).encode()


def assert_openai_accepts(messages: list[dict[str, Any]]) -> None:
    """Chat completions: each message with tool calls is followed by one tool message for each of them, no others."""
    _validate(_openai(), messages)
    open_calls: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] in open_calls, "a result without its call"
            open_calls.remove(message["tool_call_id"])
            continue
        assert not open_calls, "calls without their results"
        ids = [call["id"] for call in message.get("tool_calls", ())]
        assert len(set(ids)) == len(ids)
        assert all(1 <= len(id) <= 40 for id in ids)
        for call in message.get("tool_calls", ()):
            assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", call["function"]["name"])
            assert call["function"]["arguments"].strip(), "arguments are JSON"
        if "name" in message:
            assert re.fullmatch(r"[^\s<|\\/>]{1,64}", message["name"])
        for part in _blocks(message["content"] or "x"):
            if part["type"] == "image_url":
                _assert_openai_fetches(part["image_url"]["url"])
            if part["type"] == "file":
                assert part["file"]["file_data"].startswith("data:application/pdf;base64,")
                _assert_is_base64(part["file"]["file_data"])
            if part["type"] == "input_audio":
                _assert_is_base64(part["input_audio"]["data"])
        open_calls = set(ids)
    assert not open_calls, "calls without their results"


def _assert_openai_fetches(image: str) -> None:
    assert re.match(r"https?://[^/?#]|data:image/(jpeg|png|gif|webp);base64,.", image)
    _assert_is_base64(image)


def _assert_is_base64(data: str) -> None:
    """Raise unless data, or the data of a ``data:`` URL, is Base64."""
    scheme, _, encoded = data.rpartition(";base64,")
    if scheme or "://" not in data:
        base64.b64decode(encoded.translate(_STANDARD), validate=True)


_STANDARD = str.maketrans("-_", "+/")
_FROM_OPENAI = ("web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call")


def assert_responses_accept(items: list[dict[str, Any]]) -> None:
    """Responses: calls answered before anything else is said, and reasoning encrypted and before what it led to."""
    _validate(_responses(), items)
    ids = [item["id"] for item in items if "id" in item]
    assert all(ids)
    assert len({*ids}) == len(ids), "an item is sent twice"
    used: set[str] = set()
    open_calls: set[str] = set()
    answered = False
    for item, following in zip(items, [*items, {}][1:], strict=True):
        kind = item.get("type", "message")
        if kind == "function_call_output":
            assert item["call_id"] in open_calls, "a result without its call"
            open_calls.remove(item["call_id"])
            answered = True
            _assert_responses_take(item["output"])
            continue
        of_answer = kind != "message" or item["role"] == "assistant"
        assert not open_calls or (of_answer and not answered), "calls without their results"
        answered = False
        match kind:
            case "message":
                assert item["role"] in ("user", "assistant", "system")
                types = {part["type"] for part in item["content"] if isinstance(part, dict)}
                if item["role"] == "assistant":
                    assert item["content"], "nothing is said"
                    assert types <= {"output_text", "refusal"}
                else:
                    assert types <= {"input_text", "input_image", "input_file"}
                    _assert_responses_take(item["content"])
            case "function_call":
                assert item["call_id"] not in used, "IDs are unique"
                used.add(item["call_id"])
                assert 1 <= len(item["call_id"]) <= 64
                assert item["arguments"].strip(), "arguments are JSON"
                assert re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", item["name"])
                open_calls.add(item["call_id"])
            case "reasoning":
                assert item["encrypted_content"]
                assert following.get("type") in ("message", "function_call", "reasoning", *_FROM_OPENAI)
                assert following.get("role") != "user"
            case _:
                assert kind in _FROM_OPENAI
                assert item.get("status", "completed") in ("completed", "failed"), "a call without its result"
    assert not open_calls, "calls without their results"


def _assert_responses_take(content: str | list[dict[str, Any]]) -> None:
    for part in _blocks(content):
        if part["type"] == "input_image":
            _assert_openai_fetches(part["image_url"])
        if part["type"] == "input_file":
            file = part.get("file_url", part.get("file_data"))
            assert re.match(r"https?://[^/?#]|data:application/pdf;base64,.", file)
            _assert_is_base64(file)


def assert_anthropic_accepts(request: dict[str, Any]) -> None:
    """Messages: turns by turns from the user's on, no blank text, calls answered at the start of the next turn."""
    assert request.keys() in ({"messages"}, {"system", "messages"})
    _validate(_anthropic(), request["messages"])
    if "system" in request:
        _validate(_anthropic_system(), request["system"])
        _assert_texts_are_not_blank(_blocks(request["system"]))
    turns = request["messages"]
    assert turns
    # A signed summary stands for all that was said before it.
    everything = [block for turn in turns for block in _blocks(turn["content"])]
    signed = [_is_summary(block) and bool(block.get("signature")) for block in everything]
    assert not any(signed[1:])
    first = int(signed[0])
    assert [turn["role"] for turn in turns] == [("user", "assistant")[(first + i) % 2] for i in range(len(turns))]
    _assert_server_calls_are_answered(turns)
    used: set[str] = set()
    calls: list[str] = []
    for turn in turns:
        blocks = _blocks(turn["content"])
        assert blocks, "nothing is said"
        _assert_texts_are_not_blank(blocks)
        results = [block for block in blocks if block["type"] == "tool_result"]
        assert blocks[: len(results)] == results, "tool results come first"
        assert sorted(block["tool_use_id"] for block in results) == sorted(calls)
        for block in results:
            content = _blocks(block.get("content", []))
            _assert_texts_are_not_blank(content)
            _assert_anthropic_takes(content)
            if block.get("is_error"):
                assert content, "an error says something"
                assert {part["type"] for part in content} == {"text"}
        if turn["role"] == "user":
            assert {block["type"] for block in blocks} <= {"text", "image", "document", "tool_result"}
            _assert_anthropic_takes(blocks)
            calls = []
            continue
        summaries = [index for index, block in enumerate(blocks) if _is_summary(block)]
        seen = [block["type"] for block in blocks[max(summaries, default=0) :] if block["type"] != "compaction"]
        thinks = [kind in ("thinking", "redacted_thinking") for kind in seen]
        assert not any(thinks[-1:])
        ran = [block["id"] for block in blocks if block["type"] in ("server_tool_use", "mcp_tool_use")]
        assert used.isdisjoint(ran)
        used.update(ran)
        uses = [block for block in blocks if block["type"] == "tool_use"]
        assert thinks[:1] != [False] or not uses or not any(thinks), "thinking comes first"
        for block in blocks:
            if block["type"] == "thinking":
                assert re.fullmatch("[^\n]+", block["signature"])
            assert block["type"] != "redacted_thinking" or block["data"]
        calls = [block["id"] for block in uses]
        for block in uses:
            assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", block["id"])
            assert re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", block["name"])
            assert block["id"] not in used, "IDs are unique"
            used.add(block["id"])
    assert not calls, "calls without their results"
    if turns[-1]["role"] == "assistant" and (last := _blocks(turns[-1]["content"])[-1])["type"] == "text":
        assert last["text"] == last["text"].rstrip()


def _assert_server_calls_are_answered(turns: list[dict[str, Any]]) -> None:
    """A call of a server's tool has its result behind it, before the user says more than results of tools.

    The API runs the calls of the last answer that have none, and the code that called a tool of that answer.
    See "Handling stop reasons" of the documentation.
    """
    waiting: dict[str, int] = {}
    known: set[str] = set()
    for index, turn in enumerate(turns):
        blocks = _blocks(turn["content"])
        if turn["role"] == "user":
            if any(block["type"] != "tool_result" for block in blocks):
                assert not waiting, "a call of a server's tool without its result"
                known = set()
            continue
        for block in blocks:
            caller = block.get("caller", {}).get("tool_id")
            assert caller is None or caller in known, "a call by code that is not there"
            if block["type"] in ("server_tool_use", "mcp_tool_use"):
                assert block["id"] not in known, "a call is sent twice"
                known.add(block["id"])
                waiting[block["id"]] = index
            elif block["type"].endswith("_tool_result"):
                assert waiting.pop(block["tool_use_id"], None) is not None, "a result without its call"
        callers = {block["caller"]["tool_id"] for block in blocks if block.get("caller", {}).get("tool_id")}
        assert all(at == index or id in callers for id, at in waiting.items()), "a call without its result"


def _assert_anthropic_takes(blocks: list[dict[str, Any]]) -> None:
    for block in blocks:
        match block.get("source"):
            case {"type": "url", "url": url}:
                assert re.match(r"https://[^/?#]", url)
            case {"type": "base64", "data": data}:
                _assert_is_base64(data)


def anthropic_signature(request: dict[str, Any]) -> str:
    """Return the signature of what a model thinks behind a request: a hash of all that it has been sent."""
    return _signature(_said(request))


def assert_thinking_is_bound(request: dict[str, Any]) -> None:
    """Messages: each thinking block stands behind what it was written behind, but in the turn under way."""
    said = _said(request)
    under_way = len(said)
    if said[-1][1]["type"] == "tool_result":
        others = [
            index for index, (role, block) in enumerate(said) if role == "user" and block["type"] != "tool_result"
        ]
        under_way = max(others, default=0)
    for index, (_role, block) in enumerate(said[:under_way]):
        if block["type"] in ("thinking", "redacted_thinking"):
            signature = block["signature"] if block["type"] == "thinking" else block["data"]
            assert signature == _signature(said[:index]), f"block {index} is bound to a different conversation"


def _said(request: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    system = [("system", block) for block in _blocks(request.get("system", []))]
    turns = request["messages"]
    return system + [(turn["role"], block) for turn in turns for block in _blocks(turn["content"])]


def _signature(said: list[tuple[str, dict[str, Any]]]) -> str:
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def assert_gemini_accepts(request: dict[str, Any]) -> None:
    """Contents: turns by turns from the user's on, calls answered by a turn of as many responses, no empty parts."""
    from google.genai.types import Content

    assert request.keys() in ({"contents"}, {"system_instruction", "contents"})
    json.dumps(request, allow_nan=False, ensure_ascii=False).encode()
    if "system_instruction" in request:
        Content.model_validate(request["system_instruction"])
        assert all(part["text"] for part in request["system_instruction"]["parts"])
    assert request["contents"]
    calls: list[tuple[str | None, str]] = []
    before = ""
    _assert_what_ran_at_gemini_is_whole(request["contents"])
    for content in request["contents"]:
        # As the SDK sends it: whatever it does not know, it refuses.
        sent = Content.model_validate(content).model_dump(mode="json", by_alias=True, exclude_none=True)
        parts = content["parts"]
        assert len(sent["parts"]) == len(parts) > 0
        for part in parts:
            kinds = part.keys() - {"thought", "thoughtSignature", "videoMetadata", "mediaResolution", "partMetadata"}
            assert len(kinds) == 1
            assert part.get("text") != "" or "thoughtSignature" in part, "nothing is said"
        responses = [part["functionResponse"] for part in parts if "functionResponse" in part]
        assert sorted((r.get("id") or "", r["name"]) for r in responses) == sorted(calls), "calls and responses differ"
        calls = [(c.get("id") or "", c["name"]) for part in parts if (c := part.get("functionCall"))]
        if content["role"] == "model":
            assert before in ("user", "function"), "the user is first"
            assert not responses
            assert all(re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}", name) for _, name in calls)
            signed = [part.get("thoughtSignature") for part in parts if "functionCall" in part]
            assert all(signed[:1]), "the first call is signed"
            before = "model"
            continue
        assert content["role"] == "user"
        assert not calls
        assert len(responses) in (0, len(parts)), "responses are apart"
        assert before != "user" or responses
        before = "function" if responses else "user"
    assert not calls, "calls without their responses"


def _assert_what_ran_at_gemini_is_whole(contents: list[dict[str, Any]]) -> None:
    """Code has its result behind it, and so has a call of a server's tool, but in the turn under way."""
    halves = {"executableCode": "codeExecutionResult", "toolCall": "toolResponse"}
    waiting: list[tuple[str, str | None, int]] = []
    for index, content in enumerate(contents):
        if content["role"] == "user" and not all("functionResponse" in part for part in content["parts"]):
            assert not waiting, "a call without its result"
        for part in content["parts"]:
            for call, result in halves.items():
                if call in part:
                    waiting.append((result, part[call].get("id"), index))
                elif result in part:
                    of = [other for other in waiting if other[:2] == (result, part[result].get("id"))]
                    assert of, "a result without its call"
                    waiting.remove(of[-1])
        if content["role"] == "model":
            assert all(at == index for _, _, at in waiting), "a call without its result"


def _blocks(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _is_summary(block: dict[str, Any]) -> bool:
    return block["type"] == "compaction" and bool(block.get("content"))


def _assert_texts_are_not_blank(blocks: list[dict[str, Any]]) -> None:
    assert all(block["text"].strip() for block in blocks if block["type"] == "text")
