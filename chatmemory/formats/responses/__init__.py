"""OpenAI's Responses: ``to_responses`` writes what ``input=`` of ``client.responses.create`` takes.

``from_responses`` reads that, and what the SDK dumps: ``response.model_dump()``, or its ``output``.

System messages are items of ``input`` too, not ``instructions``: so each keeps its place, and is read there again.
An answer is one message here, whose items may be several there: reasoning, text, calls.

OpenAI wants every call answered, and nothing else answered: what :mod:`chatmemory.formats.validity` says is repaired,
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

from chatmemory.formats.responses.reader import from_responses
from chatmemory.formats.responses.writer import to_responses

__all__ = ["from_responses", "to_responses"]
