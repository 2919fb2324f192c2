"""Anthropic's Messages: ``to_anthropic`` writes what ``client.messages.create`` takes, ``from_anthropic`` reads it.

``from_anthropic`` also reads what the SDK dumps: ``response.model_dump()``.

Anthropic wants the turns of the user and of the model to alternate, the user's first, and the system text apart. So

- system messages are written as ``system``, wherever they are; several become several blocks
- neighbours of one role become one turn: results of tools and what the user says after them, above all. Anthropic
  refuses a turn that has thinking and does not begin with it: thinking of an answer behind another one that has none is
  left out, and reported
- what ``chatmemory.formats.validity`` says is repaired, and reported
- white space at the end of the last turn, if that is an answer, is left out, and reported
- thinking that is stale is left out, and reported: see ``chatmemory.formats.thinking``
- what ran at Anthropic is sent once: of an answer that was said again, only text and calls are sent, and that
  is reported
- a call of a tool that runs at Anthropic is sent with its result: one without it, and a result without its call, are
  left out, and reported. Calls of the last answer stay if nothing but results of tools is said after it: Anthropic runs
  them when it gets the request, which is how an answer goes on that only paused
- a summary that Anthropic signed (a ``compaction`` block) must be the first block, and the only summary that is signed:
  what was said before it is left out, and reported. One without a signature may be anywhere

Not written, because Anthropic has no place for it and the model does not need it:

- thinking without a signature (also if it was read without one), and empty redacted thinking: Anthropic refuses them.
  So it does with thinking after which nothing is said, which is left out and reported. The signature is the attribute
  ``thinking_signature``, redacted thinking the attribute ``redacted_thinking``, as in LangChain4j
- a blank text of an answer
- other ``attributes``, but for what ``from_anthropic`` put there; ``name`` of a user message
- ``tool_name`` of a tool result
- ``detail_level`` and ``revised_prompt`` of an image, and its data and MIME type when it has a URL that Anthropic
  fetches
- ``url`` of a PDF file that is here as data

Everything else that has no place is an ``UnsupportedContentError``: images of other types than JPEG, PNG, GIF and WebP,
URLs of other schemes than https, and data that is not Base64, among others.

What ``from_anthropic`` finds that messages here have no place for is kept aside, in the attribute ``anthropic``: the
content blocks of an answer as they came, if it has several texts or thoughts, citations, summaries, tools that ran at
Anthropic, or another order than thinking, text, calls; and those of a user, if documents have titles, contexts or
citations, or are text. Titles, contexts and documents of text are read as text: a model reads them, so they are part of
what is said (in a tool result such a document stays text when it is written again). The blocks are written again as
long as the message says what they say, and they have no more in them than ``from_anthropic`` keeps.

Not kept by ``from_anthropic``: ``cache_control``, ``"caller": {"type": "direct"}``, the citations of a user's text, and
what an answer says of itself (``id``, ``model``, ``usage``, ``stop_reason`` …). Several texts of an answer become one,
several blocks of ``system`` one message, with an empty line between them. A turn that was made of several messages is
read as one.

Source: ``anthropic.types`` of the SDK, 2.12; https://platform.claude.com/docs/en/api/messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, groupby, takewhile
from typing import Any, NamedTuple, cast

from chatmemory.core.arguments import is_blank, tuple_of
from chatmemory.core.contents import Content, DetailLevel, ImageContent, Media, PdfFileContent, TextContent
from chatmemory.core.entries import MemoryMessages
from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.json_text import dumps, require_json
from chatmemory.core.kept import ANTHROPIC, REDACTED_THINKING, THINKING_SIGNATURE
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
from chatmemory.formats.anthropic_cache import Cache, check_cache, mark_lasting, mark_request
from chatmemory.formats.kept_parts import (
    Half,
    given_up,
    is_same_answer,
    kept_pieces,
    read_system,
    with_attributes,
    with_tool_names,
    without_lone_halves,
    without_refused,
    write_transcript,
)
from chatmemory.formats.media import IMAGE_TYPES, PDF_TYPES, MediaRule, is_at, sendable
from chatmemory.formats.thinking import Thinking, without_stale_thinking
from chatmemory.formats.validity import Names, Repair, RepairReason, Rules, Valid, arguments_object, make_valid, tell

ATTRIBUTE = ANTHROPIC
"""The attribute under which the blocks that messages here cannot express are kept, as ``content``."""

_OF_THE_ANSWER = (
    *("id", "type", "model", "usage", "stop_reason", "stop_sequence", "stop_details"),
    *("container", "context_management", "diagnostics"),
)


def from_anthropic(data: Any, place: str = "") -> list[ChatMessage]:
    """Read messages from ``{"system": …, "messages": […]}``, a list of messages, or one answer that the SDK dumps.

    ``null`` is the same as a field that is not there. A tool result gets the name of the tool that an earlier message
    calls by its ID.

    Args:
        place: what the data is called in errors, ``body`` say.

    Raises:
        InvalidMessageError: a ``ValueError`` that names the place: ``messages[3].content[0].tool_use_id``.
    """
    if isinstance(data, (list, tuple)):
        return _messages(data, place)
    if not isinstance(data, Mapping):
        raise expected("an object or a list of messages", data, place)
    fields = Fields(data, place)
    at = fields.at
    if "role" in data:
        return fields.build(_message)
    fields.refuse_others("system", "messages")
    if not isinstance(data.get("messages"), (list, tuple)):
        raise expected("a list of messages", data.get("messages"), at("messages"))
    system: list[ChatMessage] = []
    if data.get("system") is not None:
        require_json(data["system"], at("system"))
        text = _system_text(data["system"], at("system"))
        system = [read_system(text, at("system"))] if text else []
    return system + _messages(data["messages"], at("messages"))


def _messages(data: Iterable[Any], place: str) -> list[ChatMessage]:
    read = (Fields(item, f"{place}[{index}]").build(_message) for index, item in enumerate(data))
    return list(with_tool_names(chain.from_iterable(read)))


def _message(fields: Fields) -> list[ChatMessage]:
    role = fields.choice("role", ("user", "assistant", "system"))
    place = fields.at("content")
    content = read_content(fields)
    if role == "system":
        return [read_system(_system_text(content, place), place)]
    if role == "user":
        return _user(content, place)
    fields.leave(*_OF_THE_ANSWER)
    return [_kept_beside(read_answer(content, place), clean_blocks(content))]


def _system_text(content: Any, place: str) -> str:
    if not isinstance(content, (str, list, tuple)):
        raise expected("a string or a list of blocks", content, place)
    return "\n\n".join(part.text for part in read_parts(content, place, _SYSTEM_BLOCKS))


def _user(content: Any, place: str) -> list[ChatMessage]:
    if isinstance(content, str):
        return [UserMessage(content)]
    if not content:
        raise InvalidMessageError("expected at least one block, got none", place, code="empty")
    blocks = list(enumerate(content))
    messages: list[ChatMessage] = []
    for is_result, group in groupby(blocks, lambda item: _type(item[1]) == "tool_result"):
        some = list(group)
        if is_result:
            messages += [Fields(block, f"{place}[{index}]").build(read_tool_result) for index, block in some]
        else:
            contents = [content for index, block in some for content in _user_part(block, f"{place}[{index}]")]
            kept = clean_contents([block for _, block in some])
            try:
                same = kept == [content_block(content) for content in contents]
            except CannotExpressError as error:  # data that are no Base64
                raise InvalidMessageError(error, place) from error
            messages.append(UserMessage(contents=contents, attributes=None if same else {ATTRIBUTE: {"content": kept}}))
    return messages


def read_contents(blocks: list[Any]) -> list[Content]:
    """Read a user's blocks, which are no tool results."""
    return [content for index, block in enumerate(blocks) for content in _user_part(block, f"[{index}]")]


def clean_contents(blocks: list[Any]) -> list[dict[str, Any]]:
    """Return a user's blocks without fields that say nothing: only a model cites."""
    return [
        {key: value for key, value in block.items() if (block.get("type"), key) != ("text", "citations")}
        for block in clean_blocks(blocks)
    ]


def _user_part(block: Any, place: str) -> list[Content]:
    contents: list[Content] = read_parts([block], place, _USER_BLOCKS, at=place)[0]
    return contents


def read_answer(content: Any, place: str = "") -> AiMessage:
    """Read the blocks of an answer, without what a message here has no place for."""
    parts = read_parts(content, place, _ANSWER_BLOCKS)
    texts = [part.text for part in parts if isinstance(part, TextContent)]
    thoughts = [part for part in parts if isinstance(part, Thought)]
    signature = "\n".join(thought.signature for thought in thoughts)
    redacted = [part.data for part in parts if isinstance(part, Redacted)]
    attributes: dict[str, Any] = {}
    if signature:
        attributes[THINKING_SIGNATURE] = signature
    if redacted:
        attributes[REDACTED_THINKING] = redacted
    return AiMessage(
        "".join(texts) if texts else None,
        [part for part in parts if isinstance(part, ToolExecutionRequest)],
        thinking="\n".join(thought.thinking for thought in thoughts) if thoughts else None,
        attributes=attributes,
    )


def _kept_beside(answer: AiMessage, blocks: list[dict[str, Any]]) -> AiMessage:
    """Return the answer, with its blocks kept aside if writing it would not make them again."""
    with suppress(CannotExpressError):  # the name of a tool that is empty
        if answer_blocks(answer) == blocks:
            return answer
    return with_attributes(answer, {**answer.attributes, ATTRIBUTE: {"content": blocks}})


def clean_blocks(content: Any) -> list[dict[str, Any]]:
    """Return the blocks without fields that say nothing."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [
        {
            key: value
            for key, value in block.items()
            if value is not None and key != "cache_control" and (key, value) != ("caller", {"type": "direct"})
        }
        for block in content
    ]


def _type(block: Any) -> Any:
    return block.get("type") if isinstance(block, Mapping) else None


_FILES = {
    "file": "a file that Anthropic holds cannot be kept; give its data",
    "content": "a document of blocks cannot be kept; give them as blocks of the message",
}
_REFUSED = {
    "search_result": "search results cannot be kept; give them as text",
    "tool_reference": "references to tools cannot be kept; leave them out",
    "browser_state": "the state of a browser cannot be kept; give it as text",
}


class Thought(NamedTuple):
    thinking: str
    signature: str


class Redacted(NamedTuple):
    data: str


def read_content(fields: Fields) -> Any:
    """Take out ``content``, a text or a list of blocks that can be kept in attributes."""
    content = fields.value("content", (str, list, tuple), "a string or a list of blocks")
    require_json(content, fields.at("content"), 3)  # it becomes {"attributes": {"anthropic": {"content": content}}}
    return content


def read_parts(content: Any, place: str, readers: Mapping[str, Callable[[Fields], Any]], at: str = "") -> list[Any]:
    """Read each block. Of a single one, ``at`` is the place itself."""
    if isinstance(content, str):
        return [TextContent(content)]

    def read(fields: Fields) -> Any:
        fields.leave("cache_control")
        return readers[fields.choice("type", readers, _REFUSED)](fields)

    return [Fields(block, at or f"{place}[{index}]").build(read) for index, block in enumerate(content)]


def _text(fields: Fields) -> TextContent:
    fields.optional("citations", (list, tuple), "a list")
    return TextContent(fields.text("text"))


def _read_tool_use(fields: Fields) -> ToolExecutionRequest:
    fields.leave("caller", "toolset_name")
    return ToolExecutionRequest(
        fields.text("id"), fields.text("name"), dumps(fields.value("input", Mapping, "an object"))
    )


def _compaction(fields: Fields) -> None:
    fields.optional_text("content")
    fields.optional_text("signature")
    fields.leave_all()


def read_tool_result(fields: Fields) -> ToolExecutionResultMessage:
    """Read a tool result, whose tool has no name in it."""
    fields.choice("type", ["tool_result"])
    fields.leave("cache_control")
    id = fields.text("tool_use_id")
    is_error = fields.flag("is_error")
    place = fields.at("content")
    content = read_content(fields) if fields.has("content") else ""
    contents = read_parts(content, place, _RESULT_BLOCKS)
    return ToolExecutionResultMessage(id, contents=contents or [TextContent("")], is_error=is_error)


def _image(fields: Fields) -> ImageContent:
    return fields.object("source", _image_source)


def _user_image(fields: Fields) -> list[Content]:
    fields.optional_object("transformations", _transformations)
    return [_image(fields)]


def _transformations(fields: Fields) -> None:
    if fields.has("oversized_image"):
        fields.choice("oversized_image", ("downsize", "error"))


def _image_source(fields: Fields) -> ImageContent:
    # Anthropic does not say how closely to look.
    if fields.choice("type", ("base64", "url"), _FILES) == "url":
        return ImageContent(_url(fields), detail_level=DetailLevel.AUTO)
    media_type = fields.choice("media_type", IMAGE_TYPES)
    return ImageContent(base64_data=fields.text("data"), mime_type=media_type, detail_level=DetailLevel.AUTO)


def _url(fields: Fields) -> str:
    url = fields.text("url")
    if not is_at(url, SCHEMES):
        raise InvalidMessageError("expected a URL of https", fields.at("url"))
    return url


def _document(fields: Fields) -> Content:
    return fields.object("source", _document_source)


def _user_document(fields: Fields) -> list[Content]:
    # The model reads them, so they are part of what the user says.
    said = [fields.optional_text(key) for key in ("title", "context")]
    fields.optional_object("citations", lambda citations: citations.flag("enabled"))
    return [*(TextContent(text) for text in said if text and not is_blank(text)), _document(fields)]


def _document_source(fields: Fields) -> Content:
    match fields.choice("type", ("base64", "url", "text"), _FILES):
        case "url":
            return PdfFileContent(_url(fields))
        case "text":
            fields.choice("media_type", ["text/plain"])
            return TextContent(fields.text("data"))
    fields.choice("media_type", ["application/pdf"])
    return PdfFileContent(base64_data=fields.text("data"))


_SYSTEM_BLOCKS: dict[str, Callable[[Fields], Any]] = {"text": _text}
_USER_BLOCKS: dict[str, Callable[[Fields], list[Content]]] = {
    "text": lambda fields: [_text(fields)],
    "image": _user_image,
    "document": _user_document,
}
_RESULT_BLOCKS: dict[str, Callable[[Fields], Any]] = {"text": _text, "image": _image, "document": _document}
# What ran at Anthropic needs no answer from here, and is of use only unchanged.
_SERVER_BLOCKS = (
    *("server_tool_use", "web_search_tool_result", "web_fetch_tool_result", "code_execution_tool_result"),
    *("bash_code_execution_tool_result", "text_editor_code_execution_tool_result", "tool_search_tool_result"),
    *("advisor_tool_result", "mcp_tool_use", "mcp_tool_result", "mcp_tool_listing", "container_upload"),
)
_ANSWER_BLOCKS: dict[str, Callable[[Fields], Any]] = {
    "text": _text,
    "thinking": lambda fields: Thought(fields.text("thinking"), fields.text("signature")),
    "redacted_thinking": lambda fields: Redacted(fields.text("data")),
    "tool_use": _read_tool_use,
    **dict.fromkeys(_SERVER_BLOCKS, Fields.leave_all),
    "compaction": _compaction,
}

SCHEMES = ("https",)
"""The schemes of the addresses that Anthropic fetches."""

_IMAGES = MediaRule(api="Anthropic", kind="an image", types=IMAGE_TYPES, schemes=SCHEMES)
_PDF_FILES = MediaRule(api="Anthropic", kind="a PDF file", types=PDF_TYPES, schemes=SCHEMES, data_first=True)


def answer_blocks(message: AiMessage) -> list[dict[str, Any]]:
    """Return the blocks of an answer, in LangChain4j's order: thinking, redacted thinking, text, tool calls."""
    blocks: list[dict[str, Any]] = []
    signature = message.attributes.get(THINKING_SIGNATURE)
    if message.thinking is not None and isinstance(signature, str):
        blocks.append({"type": "thinking", "thinking": message.thinking, "signature": signature})
    redacted = message.attributes.get(REDACTED_THINKING)
    if isinstance(redacted, (list, tuple)):
        blocks += [{"type": "redacted_thinking", "data": data} for data in redacted if isinstance(data, str)]
    if message.text is not None:
        blocks.append({"type": "text", "text": message.text})
    return blocks + [_write_tool_use(request) for request in message.tool_execution_requests]


def is_sendable(block: dict[str, Any]) -> bool:
    """Return whether Anthropic takes a block of an answer or of a user."""
    match block["type"]:
        case "text":
            return bool(block["text"].strip())
        case "thinking":
            # LangChain4j joins the signatures of several blocks with line breaks, and Anthropic would refuse them so.
            return bool(block["signature"]) and "\n" not in block["signature"]
        case "redacted_thinking":
            return bool(block["data"])
        case "compaction":
            return block.get("content") != ""
    return True


def is_compaction(block: dict[str, Any]) -> bool:
    """Return whether a block is a summary, or the place of one that failed."""
    return bool(block["type"] == "compaction")


def is_summary(block: dict[str, Any]) -> bool:
    """Return whether a block replaces all messages before it."""
    return is_compaction(block) and bool(block.get("content"))


def is_thinking(block: dict[str, Any]) -> bool:
    """Return whether a block is thinking, in clear or redacted."""
    return block["type"] in ("thinking", "redacted_thinking")


def _write_tool_use(request: ToolExecutionRequest) -> dict[str, Any]:
    if not request.name:
        raise CannotExpressError("%(api)s needs the name of the tool that is called", api="Anthropic")
    return {
        "type": "tool_use",
        "id": request.id,
        "name": request.name,
        "input": arguments_object(request.arguments),
    }


def content_block(content: Content) -> dict[str, Any]:
    """Return the block for one content of a user message or a tool result."""
    match content:
        case TextContent():
            return {"type": "text", "text": content.text}
        case ImageContent():
            return {"type": "image", "source": _source(content.image, _IMAGES)}
        case PdfFileContent():
            return {"type": "document", "source": _source(content.pdf_file, _PDF_FILES)}
    raise CannotExpressError("%(api)s takes no %(content)s", api="Anthropic", content=content.type.value)


def _source(media: Media | None, rule: MediaRule) -> dict[str, Any]:
    found = sendable(media, rule)
    if isinstance(found, str):
        return {"type": "url", "url": found}
    return {"type": "base64", "media_type": found.mime_type, "data": found.base64}


_BEHIND_ANSWER = "Thinking was left out, because another answer begins its turn."
_LEADS_NOWHERE = "Thinking was left out, because nothing is said after it."
_SENT_BEFORE = "What ran at Anthropic was left out of an answer, because it was sent before."
_OWN_ATTRIBUTES = (ATTRIBUTE, THINKING_SIGNATURE, REDACTED_THINKING)
_SERVER_CALLS = ("server_tool_use", "mcp_tool_use")
_NAMES = r"[^a-zA-Z0-9_-]"
_RULES = Rules(
    ids=Names(_NAMES, 64),
    unique_ids=True,
    tool_names=Names(_NAMES, 128),
    object_arguments=True,
    blank_texts=False,
    text_errors=True,
    user_first=True,
    must_be_first=lambda message: any(
        block.get("signature") for block in _kept_blocks(message) or () if is_summary(block)
    ),
    says_nothing=lambda message: not _answer_blocks(message),
)


def to_anthropic(
    messages: Iterable[ChatMessage],
    on_repair: Callable[[Repair], object] | None = None,
    *,
    thinking: Thinking = "all",
    cache: Cache = False,
) -> dict[str, Any]:
    """Return ``messages`` and, with a system message, ``system``: ``create(model=…, max_tokens=…, **to_anthropic(…))``.

    Anthropic accepts every result, as long as ``thinking`` is true of the messages. A message that it has no
    place for is an error.

    Args:
        on_repair: called with each repair, in the order of the messages.
        thinking: the answers whose thinking may be sent: ``"all"``, if nothing before them was changed since they were
            written; ``"none"``; or the indexes of the answers before which nothing was changed. With indexes, the
            thinking of the turn under way is sent as well.
        cache: whether Anthropic caches the request: see ``chatmemory.formats.anthropic_cache``.

    Raises:
        ValueError: ``thinking`` is another text, or ``cache`` something else.
        UnsupportedContentError: a ``ValueError``; the format cannot express a message. Nothing is left out in silence.
        TypeError: something is no message.
    """
    return mark_request(write_request(messages, on_repair, thinking=thinking, cache=cache), cache)


def write_request(
    messages: Iterable[ChatMessage],
    on_repair: Callable[[Repair], object] | None = None,
    *,
    thinking: Thinking = "all",
    cache: Cache = False,
) -> dict[str, Any]:
    """Return what ``to_anthropic`` does, but without the marks of ``mark_request``."""
    check_cache(cache)
    given: tuple[ChatMessage, ...] = tuple_of(ChatMessage, messages, "messages")
    repairs: list[Repair] = []
    sent: set[str] = set()
    sendable = list(without_refused(given, ATTRIBUTE, lambda answer: _sent_before(answer, sent), repairs))
    valid = make_valid(sendable, _RULES)
    repairs += [*valid.repairs, *given_up(sendable, valid, _kept_blocks)]
    lost = {repair.position for repair in repairs if repair.reason is RepairReason.REASONING}
    valid, behind = without_lone_halves(valid, _kept_blocks, _half, _with_blocks, repairs)
    lost |= {position for position, blocks in behind.items() if any(map(is_thinking, blocks))}
    valid, later = _without_later_thinking(valid, given, repairs)
    valid = without_stale_thinking(valid, given, thinking, _without_thinking, repairs, lost, {*lost, *behind, *later})
    thinks_last: list[AiMessage] = []
    sizes: list[int] = []

    def write(message: ChatMessage) -> tuple[str, list[dict[str, Any]]]:
        role, blocks = _blocks(message, thinks_last)
        sizes.append(len(blocks))
        return role, blocks

    texts, turns = write_transcript(valid, given, write)
    repairs += [
        Repair(position, RepairReason.REASONING, _LEADS_NOWHERE)
        for position, message in zip(valid.positions, valid.messages, strict=True)
        if any(message is answer for answer in thinks_last)
    ]
    role, blocks = turns[-1]
    if role == "assistant":
        repairs += _strip_end(blocks, valid)
    tell(repairs, on_repair)
    system = [{"type": "text", "text": text} for text in texts]
    written = [{"role": role, "content": _content(blocks)} for role, blocks in turns]
    lasting = messages.lasting if isinstance(messages, MemoryMessages) else 0
    marked = mark_lasting(written, _count_first(sizes, valid, lasting), cache)
    return ({"system": _content(system)} if system else {}) | {"messages": marked}


def _count_first(sizes: list[int], valid: Valid, lasting: int) -> int:
    """Return the number of blocks that the first ``lasting`` of the given messages became.

    Args:
        sizes: the number of blocks of each message of ``valid`` that is not the system's.
    """
    said = zip(valid.positions, valid.messages, strict=True)
    positions = [position for position, message in said if not isinstance(message, SystemMessage)]
    first = takewhile(lambda each: each[0] < lasting, zip(positions, sizes, strict=True))
    return sum(size for _, size in first)


def _blocks(message: ChatMessage, thinks_last: list[AiMessage]) -> tuple[str, list[dict[str, Any]]]:
    """Return who speaks, and the blocks. ``thinks_last`` gets an answer that ends with thinking, which is left out."""
    match message:
        case UserMessage():
            return "user", _user_blocks(message)
        case AiMessage():
            blocks = _sendable_blocks(message)
            if is_thinking(blocks[-1]):
                thinks_last.append(message)
            return "assistant", _without_last_thinking(blocks)
        case ToolExecutionResultMessage():
            return "user", [_tool_result(message)]
    raise CannotExpressError("%(api)s has no such messages", api="Anthropic")


def _user_blocks(message: UserMessage) -> list[dict[str, Any]]:
    def is_same(blocks: list[dict[str, Any]]) -> bool:
        # The message has lost its blank texts already.
        return read_contents(_sendable(blocks)) == list(message.contents)

    kept = kept_pieces(message, ATTRIBUTE, "content", clean_contents, is_same)
    return [content_block(content) for content in message.contents] if kept is None else _sendable(kept)


def _kept_blocks(message: AiMessage) -> list[dict[str, Any]] | None:
    """Return the blocks that ``from_anthropic`` kept aside; None if there are none to write."""
    return kept_pieces(
        message, ATTRIBUTE, "content", clean_blocks, lambda blocks: is_same_answer(read_answer(blocks), message)
    )


def _sent_before(message: AiMessage, sent: set[str]) -> str | None:
    """Return what must be left out because its IDs are among those sent; otherwise None, and add the IDs to them."""
    ids = [str(block.get("id")) for block in _kept_blocks(message) or () if block["type"] in _SERVER_CALLS]
    if len({*ids}) < len(ids) or not sent.isdisjoint(ids):
        return _SENT_BEFORE
    sent.update(ids)
    return None


def _half(block: dict[str, Any]) -> Half:
    """Return what a block is in the run of a tool at Anthropic."""
    caller = block.get("caller")
    tool_id = caller.get("tool_id") if isinstance(caller, Mapping) else None
    code = tool_id if isinstance(tool_id, str) else None
    if block["type"] in _SERVER_CALLS:
        return Half("call", str(block.get("id")), code)
    if block["type"].endswith("_tool_result"):
        return Half("result", str(block.get("tool_use_id")), code)
    return Half(caller=code)


def _with_blocks(message: AiMessage, blocks: list[dict[str, Any]]) -> AiMessage | None:
    """Return an answer with other blocks, which say the same; None if Anthropic would get none of them."""
    rest = with_attributes(message, {**message.attributes, ATTRIBUTE: {"content": blocks}})
    return rest if _answer_blocks(rest) else None


def _answer_blocks(message: AiMessage) -> list[dict[str, Any]]:
    return _without_last_thinking(_sendable_blocks(message))


def _without_last_thinking(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    while blocks and is_thinking(blocks[-1]):
        blocks.pop()
    return blocks


def _sendable_blocks(message: AiMessage) -> list[dict[str, Any]]:
    kept = _kept_blocks(message)
    return _sendable(answer_blocks(message) if kept is None else kept)


def _without_thinking(message: AiMessage) -> AiMessage | None:
    """Return an answer without its thinking; None if it has none that would be sent."""
    if not any(map(is_thinking, _answer_blocks(message))):
        return None
    attributes = {key: value for key, value in message.attributes.items() if key not in _OWN_ATTRIBUTES}
    kept = _kept_blocks(message)
    if kept is not None:
        attributes[ATTRIBUTE] = {"content": [block for block in kept if not is_thinking(block)]}
    return AiMessage(message.text, message.tool_execution_requests, attributes=attributes)


def _sendable(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [block for block in blocks if is_sendable(block)]


def _without_later_thinking(
    valid: Valid, given: Sequence[ChatMessage], repairs: list[Repair]
) -> tuple[Valid, list[int]]:
    """Return a valid memory whose answers do not begin to think behind what another one says in the same turn.

    Anthropic refuses a turn that has thinking and does not begin with it, and thinking that is moved is not the model's
    any more.

    Returns:
        The memory, and the positions of the answers that have lost their thinking.
    """
    messages = list(valid.messages)
    positions = []
    said = [index for index, message in enumerate(messages) if not isinstance(message, SystemMessage)]
    for is_answer, group in groupby(said, lambda index: isinstance(messages[index], AiMessage)):
        neighbours = list(group)
        begins_with: list[dict[str, Any]] = []
        for index in neighbours if is_answer and len(neighbours) > 1 else ():
            message = cast(AiMessage, messages[index])
            with naming_message(given, valid.positions[index]):
                blocks = _answer_blocks(message)
            first = list(takewhile(lambda block: is_thinking(block) or is_compaction(block), blocks))
            if any(map(is_summary, first)):
                begins_with = []
            elif begins_with and not is_thinking(begins_with[0]) and any(map(is_thinking, first)):
                messages[index] = _without_thinking(message) or message
                positions.append(valid.positions[index])
            begins_with = begins_with or [block for block in blocks if not is_compaction(block)]
    repairs += [Repair(position, RepairReason.REASONING, _BEHIND_ANSWER) for position in positions]
    return replace(valid, messages=messages), positions


def _tool_result(message: ToolExecutionResultMessage) -> dict[str, Any]:
    result: dict[str, Any] = {"type": "tool_result", "tool_use_id": message.id}
    content = _content([content_block(content) for content in message.contents])
    if content:
        result["content"] = content
    if message.is_error is not None:
        result["is_error"] = message.is_error
    return result


def _content(blocks: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """Return the blocks, or the text of a single one that is nothing but text."""
    if len(blocks) == 1 and blocks[0].keys() == {"type", "text"}:
        text: str = blocks[0]["text"]
        return text
    return blocks


def _strip_end(blocks: list[dict[str, Any]], valid: Valid) -> Iterable[Repair]:
    last = blocks[-1]
    if last["type"] == "text" and last["text"] != last["text"].rstrip():
        blocks[-1] = last | {"text": last["text"].rstrip()}
        what = "White space at the end of the last answer was left out."
        said = zip(valid.positions, valid.messages, strict=True)
        position = [position for position, message in said if isinstance(message, AiMessage)][-1]
        yield Repair(position, RepairReason.TRAILING_SPACE, what)


FORMAT = MessageFormat(
    title="Anthropic",
    write=to_anthropic,
    binds_thinking=True,
    marks_cache=True,
    read=from_anthropic,
    attributes=(ATTRIBUTE, THINKING_SIGNATURE, REDACTED_THINKING),
    schemas=schemas.ANTHROPIC,
)
