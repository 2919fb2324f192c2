"""OpenAI's Chat Completions messages: ``to_openai`` writes what ``messages=`` takes, ``from_openai`` reads it.

``from_openai`` also reads what the SDK dumps: ``completion.choices[0].message.model_dump()``.

OpenAI wants every call answered right after it, and nothing else answered: what :mod:`chatmemory.formats.validity` says
is repaired, and reported. Names of answers are repaired as those of users are.

Not written, because OpenAI has no place for it and the model does not need it:

- ``thinking``, unless the caller names a field for it
- ``attributes``, but for what ``from_openai`` put there: the refusal, name and audio ID of an answer, and, unless
  ``extras=False``, what another server of this API added to it and to its calls
- ``is_error`` and ``tool_name`` of a tool result
- ``revised_prompt`` of an image, and its Base64 and MIME type when it has a URL that OpenAI fetches
- ``url`` of audio and PDF files that are here as data, the bytes of audio that is here as Base64
- an empty ``name`` of a user message

Of detail levels, every model has low, high and auto: medium is written as auto, ultra-high as high. ``original``, which
only some have, is read as ultra-high. Everything else that has no place is an ``UnsupportedContentError``: images of
other types than JPEG, PNG, GIF and WebP, URLs of other schemes than http and https, and data that is not Base64, among
others. (In a record of what was said, images may be of any kind, and data may be anything.)

Not kept by ``from_openai``: that a system message's role was ``developer``, the file name of a PDF, and the ``index``
of a call. Several text parts of a system or assistant message become one text.

Source: ``openai.types.chat`` of the SDK, 3.52; https://platform.openai.com/docs/api-reference/chat/create.
"""

from chatmemory.formats.openai.reader import from_openai
from chatmemory.formats.openai.writer import to_openai

__all__ = ["from_openai", "to_openai"]
