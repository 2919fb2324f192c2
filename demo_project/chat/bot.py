"""The embedded model: it repeats what it finds in its memory. What it is not given, it does not know."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from html import unescape
from itertools import takewhile

from chatmemory import AiMessage, ChatMessage, ToolExecutionRequest, ToolExecutionResultMessage, UserMessage
from chatmemory.assistant import ToolSpecification
from chatmemory.contrib.search.recall import TOOL_NAME
from demo_project.chat.summarizer import is_summary, quotes, text_of
from demo_project.chat.tools import look_up_order

__all__ = ["answer"]

_I_AM = (
    "I am a small program in this demo, not a language model, and I know only what is in my memory. Tell me something, "
    "for example your name, and ask me for it; or ask where order 1001 is."
)
_NOTED = "Noted: I know it as long as your message is in my memory."
_FORGOTTEN = "I find nothing about that in my memory. If you told me, I have forgotten it, or you used other words."
_NEVER_TOLD = "I find nothing about that, neither in my memory nor in what has left it."
_WHICH = "Which order? Ask me with its number, for example: where is order 1001?"

_ORDER = re.compile(r"\b(?:orders?|parcels?|packages?|bestellung(?:en)?)\b|注文|订单|訂單", re.IGNORECASE)
_GREETS = re.compile(
    r"\W*(?:(?:hi|hello|hey)(?: there)?|help|good (?:morning|day|afternoon|evening)|hallo|guten tag)\W*"
    r"|\W*(?:こんにちは|你好|您好)\W*"
    r"|.*\b(?:are you|you do|you help|need help)\b.*",
    re.IGNORECASE | re.DOTALL,
)
_REQUESTS = re.compile(
    r"\s*(?:please )?(?:write|translate|explain|summari[sz]e|calculate|create|draw|make|give|forget|cancel)\b",
    re.IGNORECASE,
)
_SAYS_NOTHING = re.compile(
    r"\W*(?:ok(?:ay)?|yes|no|thanks|thank you|bye|danke|ありがとう(?:ございます)?|谢谢|謝謝)\W*", re.IGNORECASE
)
_ASKS = re.compile(
    r"\s*(?:whats?|who|which|where|when|how|why|is|are|am|do|does|did|can|could|tell me|remind me|repeat|i forgot"
    r"|was|wer|wie|wo|wann|welche[rs]?)\b"
    r"|.*(?:[?？]\s*$|什么|什麼|谁|誰|哪|吗|嗎|何|どこ|ですか|ますか)",
    re.IGNORECASE | re.DOTALL,
)
_INTRODUCES = re.compile(r"\b(?:I['’]m|I am|Ich bin) [^\W\d_a-z]|\bheiße\b|我叫")
_FUNCTION_WORD = re.compile(
    r"a|about|am|and?|are|can|could|did|does?|do|for|forgot|have|how|i|is|it|know|me|my|of|remember|remind|repeat|s|"
    r"said|say|tell|that|the|this|to|told|was|were|what|whats|when|where|which|who|why|you|your|"
    r"das|du|ich|ist|mein|meine|mich|über|weißt|wer|wie|wo|"
    r"[我你您私的是了在有知道什么麼何谁誰哪里吗嗎]"
)
# A word between spaces; a Chinese character or a Japanese word in katakana. Hiragana is mostly grammar.
_WORD = re.compile(r"[\u4e00-\u9fff]|[\u30a1-\u30ff]+|[^\W\u3040-\u30ff\u4e00-\u9fff]+")


def answer(messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification] = ()) -> AiMessage:
    """Return the bot's answer, or its calls of tools. It uses nothing but ``messages``."""
    results = [*takewhile(lambda message: isinstance(message, ToolExecutionResultMessage), reversed(messages))]
    if results and _is_recalled(results[0]):
        return AiMessage(_recalled(text_of(results[0])))
    if results:
        told = " ".join(filter(None, map(text_of, reversed(results))))
        return AiMessage(told or "The tools gave me nothing that I can read.")
    said = next((text_of(message) for message in reversed(messages) if isinstance(message, UserMessage)), None)
    if said is None or _GREETS.fullmatch(said) or _REQUESTS.match(said):
        return AiMessage(_I_AM)
    if not said.strip():
        return AiMessage(f"I can read text only. {_I_AM}")
    if _SAYS_NOTHING.fullmatch(said):
        return AiMessage("All right.")
    if numbers := _order_numbers(said):
        calls = enumerate({"number": number} for number in numbers)
        name, first = look_up_order.__name__, len(messages)
        return AiMessage(
            None, [ToolExecutionRequest(f"call_{first}_{index}", name, json.dumps(given)) for index, given in calls]
        )
    if _is_statement(said):
        return AiMessage(_NOTED)
    found = _recall(said, messages)
    asked = _words(said)
    if not found and asked and any(tool.name == TOOL_NAME for tool in tools):
        query = json.dumps({"query": " ".join(sorted(asked))})
        return AiMessage(None, [ToolExecutionRequest(f"call_{len(messages)}", TOOL_NAME, query)])
    if not found:
        return AiMessage(_WHICH if _ORDER.search(said) else _FORGOTTEN)
    return AiMessage("\n".join(["You said:", *(f"“{text}”" for text in found)]))


def _recall(question: str, messages: Sequence[ChatMessage]) -> list[str]:
    """Return the statement that has the most words of the question, the latest of several; if it has no words, all."""
    statements = list(dict.fromkeys(filter(_is_statement, _said(messages))))
    asked = _words(question)
    if not asked:
        return statements
    best = max(reversed(statements), key=lambda said: len(asked & _words(said)), default="")
    return [best] if asked & _words(best) else []


def _is_recalled(message: ChatMessage) -> bool:
    return isinstance(message, ToolExecutionResultMessage) and message.tool_name == TOOL_NAME


_QUOTATION = re.compile(r'<message from="user" said="([^"]*)"[^>]* found="yes">(.*?)</message>', re.DOTALL)


def _recalled(result: str) -> str:
    """Return what the tool found of the user's statements: the best one."""
    for when, text in _QUOTATION.findall(result):
        said = " ".join(unescape(text).split())
        if _is_statement(said):
            day, _space, moment = when.partition(" ")
            time = datetime.fromisoformat(moment)
            return f"I no longer have that in mind, but on {day} {time:%Y-%m-%d at %H:%M} you told me:\n“{said}”"
    return _NEVER_TOLD


def _is_statement(said: str) -> bool:
    """Return whether a text tells something that may be asked for later."""
    chats = _GREETS.fullmatch(said) or _SAYS_NOTHING.fullmatch(said)
    return not (chats or _REQUESTS.match(said) or _ASKS.match(said) or _order_numbers(said))


def _order_numbers(said: str) -> list[str]:
    return re.findall(r"\d+", said) if _ORDER.search(said) else []


def _said(messages: Sequence[ChatMessage]) -> Iterator[str]:
    """Yield what the user said: a summary and an answer may repeat it when the message has left."""
    for message in messages:
        if isinstance(message, AiMessage) or is_summary(message):
            yield from quotes(text_of(message))
        elif isinstance(message, UserMessage):
            yield " ".join(text_of(message).split())


def _words(text: str) -> set[str]:
    """Return the words of a text that mean something, and those for a name if it introduces the user."""
    words = {word for word in _WORD.findall(text.lower()) if not _FUNCTION_WORD.fullmatch(word)}
    return words | {"name", "名"} if _INTRODUCES.search(text) else words
