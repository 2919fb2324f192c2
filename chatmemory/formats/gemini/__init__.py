"""Gemini's contents: ``to_gemini`` writes what ``generateContent`` takes, ``from_gemini`` reads it.

``from_gemini`` also reads what the SDK dumps: ``response.model_dump()``, or one content of it.

Gemini wants the turns of the user and of the model to alternate, the user's first; after a turn with calls, a turn with
one response for each call and nothing else; and the system text apart. So

- system messages are written as ``system_instruction``, wherever they are; several become several parts
- neighbours of one role become one content, but responses of functions stay apart from what the user says after them
- what :mod:`chatmemory.formats.validity` says is repaired, and reported
- what ran at Gemini (code, calls of its tools) is sent with its result: a half without the other is left out, and
  reported. Calls of the last answer stay if nothing but results of tools is said after it
- calls that another model made have no signature: the first one of an answer gets the placeholder that Gemini accepts,
  ``skip_thought_signature_validator``; reading removes it

Not written, because Gemini has no place for it and the model does not need it:

- thinking and ``attributes``, but for what ``from_gemini`` put there; an answer of nothing but thinking
- an empty text of an answer; ``name`` of a user message
- ``tool_name`` of a result: it gets the name of the call that it answers; ``is_error`` if it is false
- in which order texts and media of a tool result were: texts come first
- ``detail_level`` and ``revised_prompt`` of an image
- ``url`` of media that are here as data, the bytes of audio that is here as Base64

A URL gets the MIME type that its ending says, if it has no other. Media in tool results are for Gemini 3 and later.
Everything else that has no place is an ``UnsupportedContentError``: media whose MIME type is of another
kind, URLs of other schemes than http, https and gs, and data that is not Base64, among others.

What ``from_gemini`` finds that messages here have no place for is kept aside, in the attribute ``gemini``: the parts of
an answer as they came, if it has several texts, thoughts, signatures, media, or what ran at Gemini; those of a user, if
media have a name, a resolution or a clip; and a response of a function that has other keys than ``output`` or
``error``, which is read as JSON. The name of media is read as text before them: a model reads it, so it is part of what
is said. The parts are written again as long as the message says what they say, and they have no more in them than
``from_gemini`` keeps.

Not kept by ``from_gemini``: what a response says of itself (``usageMetadata``, ``finishReason`` …), safety ratings and
citations; ``thoughtSignature`` and ``partMetadata`` of what users and tools say. Several texts of an answer become one,
several parts of ``system_instruction`` one message, with an empty line between them. A content that was made of several
messages is read as one.

Source: ``google.genai.types`` of the SDK, 3.4; https://ai.google.dev/api/generate-content,
https://ai.google.dev/gemini-api/docs/thought-signatures.
"""

from chatmemory.formats.gemini.reader import from_gemini
from chatmemory.formats.gemini.writer import to_gemini

__all__ = ["from_gemini", "to_gemini"]
