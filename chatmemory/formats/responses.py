"""OpenAI's Responses: ``to_responses`` writes what ``input=`` of ``client.responses.create`` takes.

``from_responses`` reads that, and what the SDK dumps: ``response.model_dump()``, or its ``output``.

System messages are items of ``input`` too, not ``instructions``: so each keeps its place, and is read there again.
An answer is one message here, whose items may be several there: reasoning, text, calls.

OpenAI wants every call answered, and nothing else answered: what ``chatmemory.formats.validity`` says is repaired,
and reported. OpenAI refuses reasoning that it does not store (any more), unless its encrypted content is sent; and it
refuses the other items of an answer whose reasoning is missing. So an answer with reasoning that is not encrypted is
sent as text and calls only, and that is reported, too. Ask for ``include=["reasoning.encrypted_content"]`` to have it
sent.

A call of a tool that runs at OpenAI is sent once it has completed or failed: one that was cut off is left out, and
reported. So is reasoning that led to nothing else, and reasoning after which nothing is said.

OpenAI refuses an item whose ID another one has, or whose ID is empty. Such an answer is sent as text and calls, which
need no IDs, and that is reported. Leaving out the ID alone would not do: not every server takes reasoning without one,
nor other items whose reasoning is missing; and if the same answer was said twice, its reasoning was sent already.

Not written, because OpenAI has no place for it and the model does not need it:

- ``thinking`` and ``attributes``, but for what ``from_responses`` put there
- ``name`` of a user message; ``is_error`` and ``tool_name`` of a tool result
- an empty text of an answer
- ``revised_prompt`` of an image, and its Base64 and MIME type when it has a URL that OpenAI fetches
- ``url`` of a PDF file that is here as data

Of detail levels, medium is written as auto. Everything else that has no place is an ``UnsupportedContentError``: audio,
video, images of other types than JPEG, PNG, GIF and WebP, URLs of other schemes than http and https, and data that is
not Base64, among others. (In a record of what was said, images may be of any kind, and data may be anything.)

What ``from_responses`` finds that messages here have no place for is kept aside, in the attribute ``openai_responses``:
the items of an answer as they came, if it has IDs, reasoning, refusals, annotations or tools that ran at OpenAI. They
are written again as long as the message says what they say.

Not kept by ``from_responses``: that a system message's role was ``developer``, or that it was ``instructions``; ``id``
and ``status`` of what the user and tools say; ``filename`` and ``detail`` of a file; ``prompt_cache_breakpoint``; what
a response says of itself (``model``, ``usage`` …); what the SDK parsed. Several texts of an answer become one. Items of
an answer that follow one another are one message; a text without an ID begins another, if there is a text or a call
before it. So what was several messages may come back as one: a text and the calls after it.

Source: ``openai.types.responses`` of the SDK, 3.54; https://platform.openai.com/docs/api-reference/responses/create.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from chatmemory.core.arguments import tuple_of
from chatmemory.core.contents import Content, DetailLevel, ImageContent, PdfFileContent, TextContent
from chatmemory.core.json_text import require_json, require_storable
from chatmemory.core.kept import OPENAI_RESPONSES
from chatmemory.core.messages import (
    AiMessage,
    ChatMessage,
    SystemMessage,
    ToolExecutionRequest,
    ToolExecutionResultMessage,
    UserMessage,
)
from chatmemory.core.serialization import Fields, expected
from chatmemory.formats import CannotExpressError, MessageFormat, naming_message, schemas
from chatmemory.formats.kept_parts import (
    WITHOUT_RESULT,
    given_up,
    is_same_answer,
    kept_pieces,
    read_system,
    with_attributes,
    with_tool_names,
    without_refused,
)
from chatmemory.formats.media import (
    OPENAI_DETAILS,
    PDF_TYPES,
    MediaRule,
    openai_image,
    openai_image_url,
    openai_pdf_file,
    sendable,
)
from chatmemory.formats.validity import (
    CallIds,
    Names,
    Repair,
    RepairReason,
    Rules,
    arguments_text,
    make_valid,
    tell,
    unused_ids,
    used_ids,
)

ATTRIBUTE = OPENAI_RESPONSES
"""The attribute under which the items of an answer that messages here cannot express are kept, as ``items``."""

_ASYNC = "async_"  # as the SDK dumps async, unless by its alias
_MAY_BE_NULL = ("code", "outputs", "result")  # of code_interpreter_call and image_generation_call, which need them
_REFUSED = {
    "item_reference": "only OpenAI knows what this refers to; give the item itself",
    "custom_tool_call": "a call of a custom tool cannot be kept, only one of a function",
    "custom_tool_call_output": "the result of a custom tool cannot be kept, only that of a function",
    **dict.fromkeys(
        ("computer_call", "local_shell_call", "shell_call", "apply_patch_call", "mcp_approval_request"),
        "a call whose output is not a function's cannot be kept; leave it out",
    ),
}


def from_responses(data: Any, place: str = "") -> list[ChatMessage]:
    """Read messages from ``{"instructions": …, "input": …}``, items, a text, or a response that the SDK dumps.

    ``null`` is the same as a field that is not there. A tool result gets the name of the tool that an earlier item
    calls by its ID.

    Args:
        place: what the data is called in errors, ``body`` say.

    Raises:
        InvalidMessageError: a ``ValueError`` that names the place: ``input[3].content[0].text``.
    """
    if not isinstance(data, Mapping):
        return _read_items(data, place, "a list of items, a text or an object")
    fields = Fields(data, place)
    at = fields.at
    if "output" in data:
        return _read_items(data["output"], at("output"), "a list of items")
    fields.refuse_others("instructions", "input")
    said = _read_items(data.get("input"), at("input"), "a list of items or a text")
    return [*_instructions(data.get("instructions"), at("instructions")), *said]


def _instructions(text: Any, place: str) -> list[ChatMessage]:
    if not text:
        return []
    if not isinstance(text, str):
        raise expected("a string", text, place)
    return [read_system(require_storable(text, place), place)]


def read_answer(items: Iterable[Any]) -> AiMessage:
    """Read the items of an answer, without what a message here has no place for."""
    return _answer([part for index, item in enumerate(items) for part in _answer_parts(item, f"[{index}]")])


def clean_items(items: Iterable[Any]) -> list[Any]:
    """Return the items of an answer as they are kept."""
    return [_clean(item) for item in items]


def _read_items(data: Any, place: str, what: str) -> list[ChatMessage]:
    if isinstance(data, str):
        return [UserMessage(require_storable(data, place))]
    if not isinstance(data, (list, tuple)):
        raise expected(what, data, place)
    messages: list[ChatMessage] = []
    answer = _Answer()
    for index, item in enumerate(data):
        at = f"{place}[{index}]"
        require_json(item, at, 4)  # it becomes {"attributes": {"openai_responses": {"items": [item]}}}
        if _is_of_an_answer(item):
            parts = _answer_parts(item, at)
            if answer.is_said and "id" not in item and item.get("type") in (None, "message"):
                messages.append(answer.message())
                answer = _Answer()
            answer.add(item, parts)
            continue
        if answer.items:
            messages.append(answer.message())
            answer = _Answer()
        messages.append(Fields(item, at).build(_other))
    return list(with_tool_names([*messages, answer.message()] if answer.items else messages))


class _Answer:
    """The items of one answer, which follow one another."""

    def __init__(self) -> None:
        self.items: list[dict[str, Any]] = []
        self.is_said = False
        """Whether there is a message or a call, rather than what comes before them."""
        self._parts: list[AnswerPart] = []

    def add(self, item: Mapping[str, Any], parts: list[AnswerPart]) -> None:
        self.items.append(_clean(item))
        self.is_said = self.is_said or item.get("type") in (None, "message", "function_call")
        self._parts += parts

    def message(self) -> AiMessage:
        """Return the answer, with its items kept aside if writing it would not make them again."""
        answer = _answer(self._parts)
        if answer_items(answer, record=True) == self.items:
            return answer
        return with_attributes(answer, {ATTRIBUTE: {"items": self.items}})


def _answer(parts: list[AnswerPart]) -> AiMessage:
    texts = [part.text for part in parts if isinstance(part, TextContent)]
    refusals = [part.text for part in parts if isinstance(part, Refusal)]
    thoughts = [part.text for part in parts if isinstance(part, Thought)]
    return AiMessage(
        "".join(texts or refusals) if texts or refusals else None,
        [part for part in parts if isinstance(part, ToolExecutionRequest)],
        thinking="\n".join(thoughts) if thoughts else None,
    )


def _is_of_an_answer(item: Any) -> bool:
    if not isinstance(item, Mapping):
        return False
    kind = item.get("type")
    if kind in (None, "message"):
        return item.get("role") == "assistant"
    return isinstance(kind, str) and kind in _ANSWER_ITEMS


def _answer_parts(item: Any, place: str) -> list[AnswerPart]:
    fields = Fields(item, place)
    kind = fields.choice("type", _ANSWER_ITEMS) if fields.has("type") else "message"
    return fields.build(_ANSWER_ITEMS[kind])


def _clean(value: Any, *, within: bool = False) -> Any:
    """Return the item without fields that say nothing."""
    if isinstance(value, Mapping):
        cleaned = {
            ("async" if key == _ASYNC else key): _clean(item, within=True)
            for key, item in value.items()
            if (item is not None or key in _MAY_BE_NULL)
            and key not in ("parsed", "parsed_arguments")
            and (key, item) != ("caller", {"type": "direct"})
        }
        if not within and "id" not in cleaned and cleaned.get("type") == "message":
            del cleaned["type"]
        return cleaned
    return [_clean(item, within=True) for item in value] if isinstance(value, (list, tuple)) else value


def _other(fields: Fields) -> ChatMessage:
    kind = fields.choice("type", ("message", "function_call_output"), _REFUSED) if fields.has("type") else "message"
    fields.leave("id", "status")
    if kind == "function_call_output":
        return _tool_result(fields)
    if fields.choice("role", ("user", "system", "developer", "assistant")) == "user":
        return UserMessage(fields.content(CONTENTS))
    return _system(fields)


def _system(fields: Fields) -> SystemMessage:
    content = fields.content(_TEXTS)
    return SystemMessage(content if isinstance(content, str) else "".join(part.text for part in content))


def _tool_result(fields: Fields) -> ToolExecutionResultMessage:
    fields.leave("namespace")
    refuse_programs(fields)
    id, name, output = fields.text("call_id"), fields.optional_text("name"), fields.content(CONTENTS, "output")
    contents = [TextContent(output)] if isinstance(output, str) else output
    return ToolExecutionResultMessage(id, name, contents=contents)


_PROGRAMS = {"program": "calls of programs cannot be kept, only those of the model"}


class Thought(NamedTuple):
    text: str


class Refusal(NamedTuple):
    text: str


AnswerPart = TextContent | Refusal | Thought | ToolExecutionRequest


def _message(fields: Fields) -> list[AnswerPart]:
    fields.choice("role", ["assistant"])
    fields.leave("id", "status", "phase")
    content = fields.content(_ANSWER_CONTENTS)
    return [TextContent(content)] if isinstance(content, str) else list(content)


def _output_text(fields: Fields) -> TextContent:
    fields.leave("annotations", "logprobs", "parsed")
    return TextContent(fields.text("text"))


def _reasoning(fields: Fields) -> list[AnswerPart]:
    fields.leave("id", "status", "encrypted_content")
    summary = fields.items("summary", lambda part: _thought(part, "summary_text"))
    return [*(fields.items("content", lambda part: _thought(part, "reasoning_text")) or summary)]


def _thought(fields: Fields, kind: str) -> Thought:
    fields.choice("type", [kind])
    return Thought(fields.text("text"))


def _function_call(fields: Fields) -> list[AnswerPart]:
    fields.leave("id", "status", "namespace", "async", "async_", "parsed_arguments")
    refuse_programs(fields)
    return [ToolExecutionRequest(fields.text("call_id"), fields.text("name"), fields.text("arguments"))]


def refuse_programs(fields: Fields) -> None:
    """Raise an error for a call by a program, or its result."""
    fields.optional_object("caller", lambda caller: caller.choice("type", ["direct"], _PROGRAMS))


def _whole(fields: Fields) -> list[AnswerPart]:
    fields.leave_all()
    return []


def _input_text(fields: Fields) -> TextContent:
    fields.leave("prompt_cache_breakpoint")
    return TextContent(fields.text("text"))


def _input_image(fields: Fields) -> ImageContent:
    fields.leave("prompt_cache_breakpoint")
    fields.refuse("file_id", "an image that OpenAI holds cannot be kept; give its image_url")
    return openai_image(fields.text("image_url"), fields)


def _input_file(fields: Fields) -> PdfFileContent:
    fields.leave("prompt_cache_breakpoint", "filename", "detail")
    fields.refuse("file_id", "a file that OpenAI holds cannot be kept; give its file_data")
    if fields.has("file_url"):
        fields.refuse("file_data", "given twice, there is a file_url", code="repeated")
        return PdfFileContent(fields.text("file_url"))
    return openai_pdf_file(fields)


_TEXTS = {"input_text": _input_text}
CONTENTS: dict[str, Callable[[Fields], Content]] = {
    "input_text": _input_text,
    "input_image": _input_image,
    "input_file": _input_file,
}
_ANSWER_CONTENTS: dict[str, Callable[[Fields], AnswerPart]] = {
    "output_text": _output_text,
    "refusal": lambda fields: Refusal(fields.text("refusal")),
}
_ANSWER_ITEMS: dict[str, Callable[[Fields], list[AnswerPart]]] = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": _function_call,
    # What ran at OpenAI needs no answer from here, and is of use only unchanged.
    **dict.fromkeys(
        (
            *("web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call"),
            *("mcp_call", "mcp_list_tools", "compaction"),
        ),
        _whole,
    ),
}

_DETAILS = {**OPENAI_DETAILS, DetailLevel.ULTRA_HIGH: "original"}


_PDF_FILES = MediaRule(api="OpenAI", kind="a PDF file", types=PDF_TYPES, data_first=True)


def answer_items(message: AiMessage, *, record: bool = False) -> list[dict[str, Any]]:
    """Return the items of an answer: its text, and its calls."""
    items: list[dict[str, Any]] = [{"role": "assistant", "content": message.text}] if message.text else []
    for request in message.tool_execution_requests:
        if request.name is None:
            raise CannotExpressError("%(api)s needs the name of the tool that is called", api="OpenAI")
        arguments = arguments_text(request.arguments, keep_blank=record)
        items.append({"type": "function_call", "call_id": request.id, "name": request.name, "arguments": arguments})
    return items


def text_or_parts(contents: tuple[Content, ...], *, record: bool = False) -> str | list[dict[str, Any]]:
    """Return the text of a single content that is one, else the parts."""
    if len(contents) == 1 and isinstance(contents[0], TextContent):
        return contents[0].text
    return content_parts(contents, record=record)


def content_parts(contents: Iterable[Content], *, record: bool = False) -> list[dict[str, Any]]:
    """Return the part for each content; see ``chatmemory.formats.openai.content_part``."""
    return [_part(content, record) for content in contents]


def _part(content: Content, record: bool) -> dict[str, Any]:
    match content:
        case TextContent():
            return {"type": "input_text", "text": content.text}
        case ImageContent():
            return {
                "type": "input_image",
                "image_url": openai_image_url(content, record=record),
                "detail": _DETAILS[content.detail_level],
            }
        case PdfFileContent():
            return {"type": "input_file", **_file(content, record)}
    raise CannotExpressError("OpenAI's Responses take no %(content)s", content=content.type.value)


def _file(content: PdfFileContent, record: bool) -> dict[str, str]:
    found = sendable(content.pdf_file, replace(_PDF_FILES, base64_only=not record))
    if isinstance(found, str):
        return {"file_url": found}
    # OpenAI refuses data without a name.
    return {"filename": "file.pdf", "file_data": f"data:application/pdf;base64,{found.base64}"}


_NOT_ENCRYPTED = "Reasoning that is not encrypted was left out; of its answer only the text and the calls were sent."
_LEADS_NOWHERE = "Reasoning was left out, because nothing that is sent comes after it."
_SAME_ID = "Items whose IDs are empty or were sent before were left out; of their answer only text and calls were sent."
_RAN = ("web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call")
_RULES = Rules(
    ids=Names(None, 64),
    unique_ids=True,
    tool_names=Names(r"[^a-zA-Z0-9_-]", 128),
    says_nothing=lambda message: not (_sent(message) or message.text),
)


def to_responses(
    messages: Iterable[ChatMessage],
    on_repair: Callable[[Repair], object] | None = None,
    *,
    repair: bool = True,
) -> list[dict[str, Any]]:
    """Return the items as ``input=`` takes them. OpenAI accepts every result.

    Args:
        on_repair: called with each repair, in the order of the messages.
        repair: False writes every message, and all that was kept aside, for a record of what was said rather
            than a request, as ``chatmemory.formats.openai.to_openai`` does.

    Raises:
        UnsupportedContentError: a ``ValueError``; the format cannot express a message. Nothing is left out in silence.
        TypeError: something is no message.
    """
    given: tuple[ChatMessage, ...] = tuple_of(ChatMessage, messages, "messages")
    written: Sequence[ChatMessage] = given
    positions: Sequence[int] = range(len(given))
    repairs: list[Repair] = []
    if repair:
        sent: set[str] = set()
        sendable = list(without_refused(given, ATTRIBUTE, lambda answer: _problem(_sent(answer), sent), repairs))
        valid = make_valid(sendable, _RULES)
        written, positions = valid.messages, valid.positions
        repairs += [*_left_out(sendable), *valid.repairs, *given_up(sendable, valid, _kept)]
    new_ids = unused_ids(used_ids(written))
    calls = CallIds(lambda number: next(new_ids))
    items: list[dict[str, Any]] = []
    for position, message in zip(positions, written, strict=True):
        with naming_message(given, position):
            items += _write_items(message, calls, repair)
    tell(repairs, on_repair)
    return items


def _problem(items: list[dict[str, Any]], sent: set[str]) -> str | None:
    """Return what OpenAI would refuse; otherwise None, and add the IDs of the items to those sent."""
    if not _is_encrypted(items):
        return _NOT_ENCRYPTED
    ids = [item["id"] for item in items if "id" in item]
    if not all(isinstance(id, str) and id for id in ids) or len({*ids}) < len(ids) or not sent.isdisjoint(ids):
        return _SAME_ID
    sent.update(ids)
    return None


def _write_items(message: ChatMessage, calls: CallIds, repair: bool) -> list[dict[str, Any]]:
    match message:
        case SystemMessage():
            return [{"role": "system", "content": message.text}]
        case UserMessage():
            return [{"role": "user", "content": text_or_parts(message.contents, record=not repair)}]
        case AiMessage():
            items = _sent(message) if repair else _kept(message)
            # In a record each message has a place, even one that says nothing.
            made = items or answer_items(calls.with_ids(message), record=not repair)
            return made or [{"role": "assistant", "content": ""}]
        case ToolExecutionResultMessage():
            id = calls.require_id_answered_by(message)
            output = text_or_parts(message.contents, record=not repair)
            return [{"type": "function_call_output", "call_id": id, "output": output}]
    raise CannotExpressError("%(api)s has no such messages", api="OpenAI")


def _left_out(messages: Iterable[ChatMessage]) -> Iterator[Repair]:
    """Yield the repairs of answers that are sent without some of the items that were kept aside."""
    for position, message in enumerate(messages):
        if isinstance(message, AiMessage):
            kept = _kept(message)
            sent = _sendable(kept)
            if any(map(_is_unfinished, kept)):
                yield Repair(position, RepairReason.CALL_WITHOUT_RESULT, WITHOUT_RESULT)
            if sent and len(list(filter(_is_reasoning, sent))) < len(list(filter(_is_reasoning, kept))):
                yield Repair(position, RepairReason.REASONING, _LEADS_NOWHERE)


def _sent(message: AiMessage) -> list[dict[str, Any]]:
    """Return those of the items that ``from_responses`` kept aside which OpenAI takes."""
    items = _sendable(_kept(message))
    for item in items:
        if item.get("type") == "function_call":
            item["arguments"] = arguments_text(item["arguments"])
    return items


def _sendable(kept: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the items without calls that OpenAI has not finished, and without reasoning that leads to nothing else."""
    items: list[dict[str, Any]] = []
    leads_on = False
    for item in reversed(kept):
        if _is_unfinished(item):
            leads_on = leads_on and not _is_reasoning(items[-1])
        elif leads_on or not _is_reasoning(item):
            items.append(item)
            leads_on = True
    return items[::-1]


def _is_reasoning(item: dict[str, Any]) -> bool:
    return bool(item.get("type") == "reasoning")


def _is_unfinished(item: dict[str, Any]) -> bool:
    """Return whether an item is the call of a tool that runs at OpenAI and has no outcome."""
    return item.get("type") in _RAN and item.get("status", "completed") not in ("completed", "failed")


def _is_encrypted(items: list[dict[str, Any]]) -> bool:
    return all(item.get("encrypted_content") for item in items if _is_reasoning(item))


def _kept(message: AiMessage) -> list[dict[str, Any]]:
    """Return the items that ``from_responses`` kept aside, an empty list without any."""
    kept = kept_pieces(
        message, ATTRIBUTE, "items", clean_items, lambda items: is_same_answer(read_answer(items), message)
    )
    return kept or []


FORMAT = MessageFormat(
    title="OpenAI Responses",
    write=to_responses,
    read=from_responses,
    attributes=(ATTRIBUTE,),
    schemas=schemas.RESPONSES,
)
