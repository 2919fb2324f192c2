"""Anthropic's Messages: ``to_anthropic`` writes what ``client.messages.create`` takes, ``from_anthropic`` reads it.

``from_anthropic`` also reads what the SDK dumps: ``response.model_dump()``.

Anthropic wants the turns of the user and of the model to alternate, the user's first, and the system text apart. So

- system messages are written as ``system``, wherever they are; several become several blocks
- neighbours of one role become one turn: results of tools and what the user says after them, above all. Anthropic
  refuses a turn that has thinking and does not begin with it: thinking of an answer behind another one that has none is
  left out, and reported
- what :mod:`chatmemory.formats.validity` says is repaired, and reported
- white space at the end of the last turn, if that is an answer, is left out, and reported
- thinking that is stale is left out, and reported: see :mod:`chatmemory.formats.thinking`
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

from chatmemory.formats.anthropic.reader import from_anthropic
from chatmemory.formats.anthropic.writer import to_anthropic

__all__ = ["from_anthropic", "to_anthropic"]
