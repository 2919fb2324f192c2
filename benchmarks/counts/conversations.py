"""Random conversations of each format: what the user says, what the provider answers, what tools return."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from benchmarks.counts.media import pdf, png, seal
from chatmemory import (
    ChatMessage,
    Content,
    ImageContent,
    PdfFileContent,
    SystemMessage,
    TextContent,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.formats.anthropic import from_anthropic
from chatmemory.formats.gemini import from_gemini
from chatmemory.formats.openai import from_openai
from chatmemory.formats.responses import from_responses

__all__ = ["MODELS", "TOOLS", "turns"]

MODELS = {
    "openai": ["gpt-4o", "gpt-4.1-mini", "gpt-5"],
    "openai_responses": ["gpt-5", "gpt-5-mini", "gpt-5.5"],
    "anthropic": ["claude-haiku-4-5", "claude-opus-5-5"],
    "gemini": ["gemini-2.5-flash", "gemini-3.8-flash"],
}
"""By format, the models that the requests are for. Their rules for images differ."""

_SENTENCES = [
    "The order from last week arrived with one part missing, and nobody could tell me when it would be sent again.",
    "Please look whether a lamp of that size is in stock; it costs $49.90 (plus shipping), doesn't it?",
    "Die Bestellung kam gestern an, aber der Schlüssel für das Gehäuse fehlte, worüber wir uns sehr ärgerten.",
    "Le colis est resté bloqué à la douane, où personne n'a su m'expliquer combien de jours cela durerait.",
    "昨天收到的包裹里少了一个零件，客服说要等到下周才能补发。",
    "注文した商品がまだ届いていません。いつ発送されるか教えていただけますか。",
    "Заказ пришёл вчера, но в коробке не хватало одной детали, и никто не мог сказать почему.",
    "وصل الطلب أمس ولكن كانت هناك قطعة مفقودة ولم يعرف أحد متى سترسل.",
    "주문한 상품이 어제 도착했지만 부품 하나가 빠져 있었습니다.",
    "कल आया हुआ पार्सल खुला हुआ था और उसमें से एक हिस्सा गायब था।",
    'def total(order):\n    return sum(item["price"] * item["count"] for item in order["items"])  # in "cents"\n',
    '{"id": 48213, "status": "in transit", "events": [{"at": "2026-11-02T09:14:00Z", "where": "Hamburg"}]}',
    "Great 🎉 thanks a lot 👍🏽 see you on Thursday!",
]
_SIZES = [(256, 256), (640, 480), (960, 540), (1024, 1024), (1920, 1080), (1080, 1920), (1800, 2400), (4032, 3024)]
_LOOK_UP: dict[str, Any] = {
    "name": "look_up",
    "description": "Search all orders, invoices and letters of the customer, the newest first.",
    "parameters": {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "The words to look for."},
            "kind": {"type": "string", "description": "What to look at.", "enum": ["order", "invoice", "letter"]},
            "most": {"type": "integer", "description": "The most that is found."},
        },
        "required": ["query"],
    },
}
_CANCEL: dict[str, Any] = {
    "name": "cancel_order_of_customer",
    "description": "Cancel an order that has not been sent yet, and tell the customer by a letter.",
    "parameters": {
        "type": "object",
        "properties": {"order": {"type": "integer", "description": "The number of the order."}},
        "required": ["order"],
    },
}
_FUNCTIONS = [_LOOK_UP, _CANCEL]
TOOLS: dict[str, list[Any]] = {
    "openai": [{"type": "function", "function": function} for function in _FUNCTIONS],
    "openai_responses": [{"type": "function", **function} for function in _FUNCTIONS],
    "anthropic": [
        {"name": one["name"], "description": one["description"], "input_schema": one["parameters"]}
        for one in _FUNCTIONS
    ],
    "gemini": [{"functionDeclarations": _FUNCTIONS}],
}
"""By format, the tools that are sent."""

Answer = tuple[list[Any], list[tuple[str, str]]]
"""The pieces of an answer, and the IDs and names of its calls."""


def turns(format: str, random: Random) -> Iterator[list[ChatMessage]]:
    """Yield the messages of each turn; the last has the question only, or the question, calls and their results."""
    if random.random() < 0.7:
        yield [SystemMessage(_said(random, 8))]
    number = random.randint(1, 14)
    for turn in range(number):
        messages = [_question(format, random)]
        for step in range(random.choice([0, 0, 0, 1, 1, 2, 4])):
            answer, calls = _ANSWERS[format](random, f"{turn}_{step}", random.choice([1, 1, 1, 2, 3]))
            messages += _read(format, answer)
            messages += [_result(format, id, name, random) for id, name in calls]
        if turn < number - 1:
            messages += _read(format, _ANSWERS[format](random, f"{turn}_end", 0)[0])
        yield messages


def _thought(random: Random, most: int) -> str:
    return _said(random, most, kinds=4)  # what is long has more than one kind of text


def _said(random: Random, most: int, kinds: int | None = None) -> str:
    sentences = random.sample(_SENTENCES, kinds or random.choice([1, 1, 2, 3]))
    return " ".join(random.choice(sentences) for _ in range(random.randint(1, most)))


def _question(format: str, random: Random) -> ChatMessage:
    contents: list[Content] = [TextContent(_said(random, 12))]
    kind = random.random()
    if kind < 0.12:
        images = [png(*random.choice(_SIZES)) for _ in range(random.choice([1, 1, 2]))]
        details = random.choice(["LOW", "HIGH", "AUTO"])
        contents += [ImageContent(base64_data=data, mime_type="image/png", detail_level=details) for data in images]
    elif kind < 0.16:
        pages = random.choice([1, 1, 2, 3, 5, 10])
        file = pdf(pages, pages * random.randint(100, 900), packed=random.random() < 0.5)
        contents.append(PdfFileContent(base64_data=file, mime_type="application/pdf"))
    elif kind < 0.2 and format == "anthropic":
        source = {"type": "text", "media_type": "text/plain", "data": _said(random, 40)}
        document = {"type": "document", "source": source, "title": "Terms", "context": _said(random, 2)}
        return from_anthropic([{"role": "user", "content": [document, {"type": "text", "text": _said(random, 5)}]}])[0]
    return UserMessage(contents=contents, name=random.choice([None, None, "Ann_Lee"]))


def _result(format: str, id: str, name: str, random: Random) -> ChatMessage:
    if format in ("anthropic", "gemini") and random.random() < 0.1:
        image = ImageContent(base64_data=png(*random.choice(_SIZES)), mime_type="image/png")
        return ToolExecutionResultMessage(id, name, contents=[TextContent("A picture."), image])
    if format == "gemini" and random.random() < 0.4:
        response = {"result": _said(random, 20), "count": random.randint(1, 9), "more": [_said(random, 3)]}
        part = {"functionResponse": {"id": id, "name": name, "response": response}}
        return from_gemini([{"role": "user", "parts": [part]}])[0]
    return ToolExecutionResultMessage(id, name, _said(random, 30))


def _arguments(name: str, random: Random) -> dict[str, Any]:
    if name == "cancel_order_of_customer":
        return {"order": random.randint(1000, 99_999)}
    return {"query": _said(random, 2), "kind": random.choice(["order", "letter"]), "most": random.randint(1, 50)}


def _calls(random: Random, turn: str, number: int) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for which in range(number):
        name = random.choice(_FUNCTIONS)["name"]
        yield f"call_{turn}_{which}", name, _arguments(name, random)


def _json(arguments: dict[str, Any], random: Random) -> str:
    return json.dumps(arguments, ensure_ascii=random.random() < 0.1)  # some servers escape other letters than ASCII's


def _read(format: str, answer: list[Any]) -> list[ChatMessage]:
    match format:
        case "openai":
            return from_openai(answer)
        case "openai_responses":
            return from_responses({"output": answer})
        case "anthropic":
            return from_anthropic([{"role": "assistant", "content": answer}])
    return from_gemini([{"role": "model", "parts": answer}])


def _openai(random: Random, turn: str, number: int) -> Answer:
    answer: dict[str, Any] = {"role": "assistant", "content": None if number else _said(random, 25)}
    calls = [*_calls(random, turn, number)]
    if number:
        answer["tool_calls"] = [
            {"id": id, "type": "function", "function": {"name": name, "arguments": _json(arguments, random)}}
            for id, name, arguments in calls
        ]
    elif random.random() < 0.05:
        answer |= {"content": None, "refusal": "I can't help with that."}
    if random.random() < 0.2:
        answer["reasoning_content"] = _said(random, 30)  # DeepSeek's, which it does not get again
    return [answer], [(id, name) for id, name, _ in calls]


def _responses(random: Random, turn: str, number: int) -> Answer:
    items: list[dict[str, Any]] = []
    if random.random() < 0.5:
        thought = _thought(random, 60)
        summary = [{"type": "summary_text", "text": thought[:200]}] if random.random() < 0.5 else []
        items.append({"type": "reasoning", "id": f"rs_{turn}", "summary": summary, "encrypted_content": seal(thought)})
    if random.random() < 0.25:
        items.append({"id": f"ran_{turn}", "status": "completed", **_ran_at_openai(random)})
    calls = [*_calls(random, turn, number)]
    for id, name, arguments in calls:
        call = {"type": "function_call", "id": f"fc_{id}", "call_id": id, "status": "completed"}
        items.append({**call, "name": name, "arguments": _json(arguments, random)})
    if not number:
        cited = {"type": "url_citation", "url": "https://shop.example/terms", "title": "T", "start_index": 0}
        text = {"type": "output_text", "text": _said(random, 25), "annotations": [{**cited, "end_index": 9}]}
        message = {"type": "message", "id": f"msg_{turn}", "status": "completed", "role": "assistant"}
        items.append({**message, "content": [text]})
    return items, [(id, name) for id, name, _ in calls]


def _ran_at_openai(random: Random) -> dict[str, Any]:
    match random.randrange(4):
        case 0:
            return {"type": "web_search_call", "action": {"type": "search", "query": _said(random, 1)}}
        case 1:
            found = [
                {"file_id": f"file-{n}", "filename": "terms.md", "score": 0.9, "text": _said(random, 40)}
                for n in range(random.randint(1, 5))
            ]
            return {"type": "file_search_call", "queries": [_said(random, 1)], "results": found}
        case 2:
            outputs = [{"type": "logs", "logs": _said(random, 10)}]
            return {
                "type": "code_interpreter_call",
                "container_id": "cntr_1",
                "code": _said(random, 9),
                "outputs": outputs,
            }
    return {"type": "image_generation_call", "result": png(1024, 1024)}


def _anthropic(random: Random, turn: str, number: int) -> Answer:
    blocks: list[dict[str, Any]] = []
    thinks = random.random()
    if thinks < 0.4:
        thought = _thought(random, 60)
        shown = random.choice([thought, thought[:300], ""])  # the whole, a summary, or nothing
        blocks.append({"type": "thinking", "thinking": shown, "signature": seal(thought)})
    elif thinks < 0.5:
        blocks.append({"type": "redacted_thinking", "data": seal(_thought(random, 40))})
    if random.random() < 0.2:
        blocks += _ran_at_anthropic(random, turn)
        if thinks < 0.2:
            thought = _thought(random, 30)
            blocks.append({"type": "thinking", "thinking": thought, "signature": seal(thought)})
    if not number or random.random() < 0.4:
        text = {"type": "text", "text": _said(random, 25)}
        cited = {"type": "char_location", "cited_text": _said(random, 9), "document_index": 0}
        cited |= {"start_char_index": 0, "end_char_index": 9}
        blocks.append(text | ({"citations": [cited]} if random.random() < 0.2 else {}))
    calls = [*_calls(random, turn, number)]
    blocks += [{"type": "tool_use", "id": id, "name": name, "input": arguments} for id, name, arguments in calls]
    return blocks, [(id, name) for id, name, _ in calls]


def _ran_at_anthropic(random: Random, turn: str) -> list[dict[str, Any]]:
    id = f"srvtoolu_{turn}"
    call: dict[str, Any]
    result: dict[str, Any]
    if random.random() < 0.5:
        call = {"name": "code_execution", "input": {"code": _said(random, 9)}}
        ran = {
            "type": "code_execution_result",
            "stdout": _said(random, 9),
            "stderr": "",
            "return_code": 0,
            "content": [],
        }
        result = {"type": "code_execution_tool_result", "content": ran}
    else:
        call = {"name": "web_search", "input": {"query": _said(random, 1)}}
        found = {"type": "web_search_result", "url": "https://shop.example/terms", "page_age": "3 days ago"}
        pages = [
            {**found, "title": _said(random, 1), "encrypted_content": seal(_thought(random, 80))}
            for _ in range(random.randint(1, 5))
        ]
        result = {"type": "web_search_tool_result", "content": pages}
    return [{"type": "server_tool_use", "id": id, **call}, {**result, "tool_use_id": id}]


def _gemini(random: Random, turn: str, number: int) -> Answer:
    parts: list[dict[str, Any]] = []
    thought, signed = _thought(random, 60), random.random() < 0.5
    if random.random() < 0.4:
        parts.append({"text": thought[:400], "thought": True})
    if random.random() < 0.2:
        parts.append({"executableCode": {"language": "PYTHON", "code": _said(random, 9)}})
        parts.append({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": _said(random, 9)}})
    if not number:
        parts.append({"text": _said(random, 25)})
    calls = [*_calls(random, turn, number)]
    parts += [{"functionCall": {"id": id, "name": name, "args": arguments}} for id, name, arguments in calls]
    if signed:
        parts[-1 if not number else -number]["thoughtSignature"] = seal(thought)
    return parts, [(id, name) for id, name, _ in calls]


_ANSWERS: dict[str, Callable[[Random, str, int], Answer]] = {
    "openai": _openai,
    "openai_responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
}
