"""The UI messages of Vercel's AI SDK, which ``useChat`` shows: ``to_ai_sdk`` writes them, ``from_ai_sdk`` reads them.

``chatmemory.formats.ai_sdk.stream`` writes the stream in which such a message comes to a browser.

This is the format of pages, not of a model's API. So nothing is repaired, and every message can be expressed:

- A system message and a user message are each one, with text and file parts.
- Answers and tool results that follow each other are one assistant message: a ``step-start`` part for each answer, then
  its thinking, its text and its calls. A result is the output of its call's part. ``each_to_ai_sdk`` makes one of each
  message instead; a result is then a call's part on its own.
- A custom message is an assistant message with one ``data-custom`` part.

Tools are ``dynamic-tool`` parts, because a page need not know them and they may have any name. Each call has an ID of
its own within its assistant message, as pages need it. Arguments and results that are JSON objects or lists are shown
as these, everything else as its text. A result with media is ``{"type": "content", "value": [parts]}``.

What UI messages have no place for is kept under the key ``chatmemory``: of a user message (``name``, ``attributes``)
and of an answer (``steps``) in ``metadata``, of calls, results and files in the metadata of their parts.
``from_ai_sdk`` reads it again, so nothing is lost. An answer's signature is in its attributes, and so in ``steps``,
because a stream knows it only after the reasoning part has ended; ``from_ai_sdk`` also reads it where the AI SDK's own
Anthropic provider puts it.

The ``metadata`` of a message whose answer its user stopped also has ``"stopped": true``, for pages.

Not kept by ``from_ai_sdk``: IDs of messages, titles, file names, metadata of others, and parts that say nothing to a
model (``source-url``, ``source-document``, ``custom``, ``data-…``). Several texts of an answer become one, several
thoughts are joined by line breaks. What speaks behind a tool's output begins a new answer. A call whose input was still
under way is left out; one that waits for approval, or whose output was preliminary, has no result.

Source: ``uiMessageChunkSchema``, ``validateUIMessages`` and ``readUIMessageStream`` of the npm package ``ai``, 7.0.
"""

from chatmemory.formats import MessageFormat, schemas
from chatmemory.formats.ai_sdk.reader import from_ai_sdk
from chatmemory.formats.ai_sdk.writer import each_to_ai_sdk, history_to_ai_sdk, plain_to_ai_sdk, to_ai_sdk

__all__ = ["each_to_ai_sdk", "from_ai_sdk", "plain_to_ai_sdk", "to_ai_sdk"]

FORMAT = MessageFormat(
    title="AI SDK",
    # Not the format of an API either, but that of pages.
    write=to_ai_sdk,
    write_each=each_to_ai_sdk,
    write_history=history_to_ai_sdk,
    read=from_ai_sdk,
    schemas=schemas.AI_SDK,
)
