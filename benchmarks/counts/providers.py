"""Stand-ins of the providers, which count a request as they publish it. They share no code with the estimator.

They count every text that is sent, with o200k_base: the vocabularies of Anthropic and Google are secret, so what is
measured is whether all is counted, and nothing twice; not how other vocabularies cut a text.

Sources, as of November 2026:

- OpenAI: "How to count tokens with tiktoken" (the cookbook: 3 tokens a message, 3 a request, and the numbers for
  functions), "OpenAI harmony response format" (a call is a message to ``functions.NAME``, a result one from it), and
  "Images and vision" (tiles; patches, and how an image with too many is scaled)
- Anthropic: "Vision" (a token for each 28 pixels squared), "PDF support" (each page is its text and an image), "Tool
  use" (346 tokens of a system prompt)
- Google: "Understand and count tokens" (258 for each tile), "Media resolution" (1,120 for an image and 560 for a page
  from Gemini 3 on)
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.counts.media import pdf_size, png_size, unseal
from chatmemory.core.tokens import count_tokens

__all__ = ["COUNTS"]

Request = Mapping[str, Any]
"""The model, the tools, and what a format wrote."""


def _text(text: str) -> int:
    return count_tokens(text, "o200k_base")


def _json(value: Any) -> int:
    return _text(json.dumps(value, ensure_ascii=False))


def _openai_image(size: tuple[int, int], model: str, detail: str) -> int:
    if model in _PATCHES:
        factor, budgets = _PATCHES[model]
        if detail == "low":
            scale = min(1, 512 / max(size))
            size = round(size[0] * scale), round(size[1] * scale)
        return math.ceil(_patches(size, budgets.get(detail, budgets["auto"])) * factor)
    base, tile = (70, 140) if model == "gpt-5" else (85, 170)
    if detail == "low":
        return base
    width, height = size
    scale = min(1, 2048 / width, 2048 / height)
    scale *= min(1, 768 / (min(width, height) * scale))
    return base + tile * math.ceil(width * scale / 512) * math.ceil(height * scale / 512)


_PATCHES: dict[str, tuple[float, dict[str, int]]] = {
    "gpt-4.1-mini": (1.62, {"auto": 1536}),
    "gpt-5-mini": (1.62, {"auto": 1536}),
    "gpt-5.5": (1.2, {"auto": 10_000, "high": 2500}),
}


def _patches(size: tuple[int, int], budget: int) -> int:
    width, height = size
    if math.ceil(width / 32) * math.ceil(height / 32) <= budget:
        return math.ceil(width / 32) * math.ceil(height / 32)
    scale = math.sqrt(32**2 * budget / (width * height))
    wide, high = width * scale / 32, height * scale / 32
    scale = min(math.floor(wide) / wide, math.floor(high) / high)
    return math.ceil(round(wide * scale, 6)) * math.ceil(round(high * scale, 6))


def _openai_tools(functions: list[Any]) -> int:
    if not functions:
        return 0
    tokens = 12
    for function in functions:
        tokens += 7 + _text(f"{function['name']}:{function['description'].rstrip('.')}")
        properties = function["parameters"]["properties"]
        tokens += 3 if properties else 0
        for key, schema in properties.items():
            tokens += 3 + _text(f"{key}:{schema['type']}:{schema['description'].rstrip('.')}")
            if "enum" in schema:
                tokens += -3 + sum(3 + _text(item) for item in schema["enum"])
    return tokens


def _openai_content(content: Any, model: str) -> int:
    if content is None or isinstance(content, str):
        return _text(content or "")
    return sum(_openai_part(part, model) for part in content)


def _openai_part(part: Any, model: str) -> int:
    match part["type"]:
        case "image_url":
            return _openai_image(_size(part["image_url"]["url"]), model, part["image_url"]["detail"])
        case "input_image":
            return _openai_image(_size(part["image_url"]), model, part["detail"])
        case "file" | "input_file":
            data = part.get("file", part)["file_data"].partition("base64,")[2]
            pages, text = pdf_size(data)
            return pages * _openai_image((1240, 1754), model, "high") + text
        case "refusal":
            return _text(part["refusal"])
    return _text(part["text"])


def _size(uri: str) -> tuple[int, int]:
    return png_size(uri.partition("base64,")[2])


def _call(name: str, arguments: str) -> int:
    return 3 + 1 + _text(f"functions.{name}") + _text(arguments)


def _chat_completions(request: Request, drops: bool) -> int:
    names: dict[str, str] = {}
    tokens = 3 + _openai_tools([tool["function"] for tool in request["tools"]])
    for message in request["messages"]:
        content = _openai_content(message["content"], request["model"])
        calls = [call["function"] for call in message.get("tool_calls", ())]
        if message["role"] == "tool":
            content += _text(f"functions.{names[message['tool_call_id']]}")
        names |= {call["id"]: call["function"]["name"] for call in message.get("tool_calls", ())}
        tokens += 3 + 1 + content if content or not calls else 0
        tokens += sum(_call(call["name"], call["arguments"]) for call in calls)
        tokens += 1 + _text(message["name"]) if "name" in message else 0
    return tokens


def _responses(request: Request, drops: bool) -> int:
    names: dict[str, str] = {}
    tokens = 3 + _openai_tools(request["tools"])
    items = request["input"]
    last = max((index for index, item in enumerate(items) if item.get("role") == "user"), default=0)
    for index, item in enumerate(items):
        match item.get("type", "message"):
            case "message":
                tokens += 3 + 1 + _openai_content(item["content"], request["model"])
            case "reasoning":
                tokens += 0 if drops and index < last else 3 + 1 + _text(unseal(item["encrypted_content"]))
            case "function_call":
                names[item["call_id"]] = item["name"]
                tokens += _call(item["name"], item["arguments"])
            case "function_call_output":
                name = _text(f"functions.{names[item['call_id']]}")
                tokens += 3 + 1 + name + _openai_content(item["output"], request["model"])
            case "web_search_call":
                tokens += _json(item["action"])
            case "file_search_call":
                tokens += sum(map(_text, item["queries"]))
                tokens += sum(_text(found["filename"]) + _text(found["text"]) for found in item["results"])
            case "code_interpreter_call":
                tokens += _text(item["code"]) + sum(_text(output["logs"]) for output in item["outputs"])
            case "image_generation_call":
                tokens += _openai_image(png_size(item["result"]), request["model"], "high")
    return tokens


def _claude_image(size: tuple[int, int], model: str) -> int:
    edge, most = (1568, 1568) if model == "claude-haiku-4-5" else (2576, 4784)
    scale = min(1, edge / max(size))
    width, height = (int(pixels * scale) for pixels in size)
    return min(most, math.ceil(width / 28) * math.ceil(height / 28))


def _anthropic(request: Request, drops: bool) -> int:
    model, tools = request["model"], request["tools"]
    tokens = 3 + (346 + _json(tools) if tools else 0) + _anthropic_content(request.get("system", ""), model)
    turns = request["messages"]
    asked = [
        index
        for index, turn in enumerate(turns)
        if turn["role"] == "user"
        and (isinstance(turn["content"], str) or any(block["type"] != "tool_result" for block in turn["content"]))
    ]
    for index, turn in enumerate(turns):
        content = turn["content"]
        if drops and index < asked[-1] and not isinstance(content, str):
            content = [block for block in content if not block["type"].endswith("thinking")]
        tokens += 4 + _anthropic_content(content, model)
    return tokens


def _anthropic_content(content: Any, model: str) -> int:
    return _text(content) if isinstance(content, str) else sum(_anthropic_block(block, model) for block in content)


def _anthropic_block(block: Any, model: str) -> int:
    match block["type"]:
        case "text":
            return _text(block["text"])
        case "thinking":
            return max(_text(block["thinking"]), _text(unseal(block["signature"])))
        case "redacted_thinking":
            return _text(unseal(block["data"]))
        case "image":
            return _claude_image(png_size(block["source"]["data"]), model)
        case "document":
            said = _text(block.get("title", "")) + _text(block.get("context", ""))
            if block["source"]["type"] == "text":
                return said + _text(block["source"]["data"])
            pages, text = pdf_size(block["source"]["data"])
            return said + text + pages * 1568
        case "tool_use" | "server_tool_use" | "mcp_tool_use":
            return 4 + _text(block["name"]) + _json(block["input"])
        case "web_search_tool_result":
            return 4 + sum(
                _text(found["title"]) + _text(found["url"]) + _text(unseal(found["encrypted_content"]))
                for found in block["content"]
            )
        case "code_execution_tool_result":
            return 4 + _text(block["content"]["stdout"]) + _text(block["content"]["stderr"])
    return 4 + _anthropic_content(block.get("content", ""), model)  # the result of a tool


def _gemini(request: Request, drops: bool) -> int:
    model = request["model"]
    tokens = _json(request["tools"]) if request["tools"] else 0
    tokens += sum(_text(part["text"]) for part in request.get("system_instruction", {}).get("parts", ()))
    return tokens + sum(_gemini_part(part, model, drops) for turn in request["contents"] for part in turn["parts"])


def _gemini_part(part: Any, model: str, drops: bool) -> int:
    old, tokens = model == "gemini-2.5-flash", 0
    if len(part.get("thoughtSignature", "")) > 100 and not drops:
        tokens += _text(unseal(part["thoughtSignature"]))
    for key, value in part.items():
        match key:
            case "text":
                tokens += 0 if part.get("thought") and drops else _text(value)
            case "inlineData" if value["mimeType"] == "application/pdf":
                tokens += pdf_size(value["data"])[0] * (258 if old else 560)
            case "inlineData":
                tokens += _gemini_image(png_size(value["data"])) if old else 1120
            case "functionCall":
                tokens += _text(value["name"]) + _json(value["args"])
            case "functionResponse":
                tokens += _text(value["name"]) + _json(value["response"])
                tokens += sum(_gemini_part(inner, model, drops) for inner in value.get("parts", ()))
            case "executableCode":
                tokens += _text(value["code"])
            case "codeExecutionResult":
                tokens += _text(value["output"])
    return tokens


def _gemini_image(size: tuple[int, int]) -> int:
    return 258 if max(size) <= 384 else 258 * math.ceil(size[0] / 768) * math.ceil(size[1] / 768)


COUNTS: dict[str, Callable[[Request, bool], int]] = {
    "openai": _chat_completions,
    "openai_responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
}
"""By format, what counts a request. The second argument says whether the model drops the thinking of earlier turns."""
