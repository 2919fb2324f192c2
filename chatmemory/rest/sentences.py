"""The sentences of this API's errors, as patterns: with them translators translate what core, formats and database say.

Those raise errors in English, for they need no Django. :mod:`chatmemory.rest.translation` finds the pattern that an
error was made from.
"""

from __future__ import annotations

from django.utils.translation import gettext_noop as _

from chatmemory.rest.message_sentences import MESSAGE_SENTENCES

__all__ = ["SENTENCES"]

# The addresses and headers of requests.
_ADDRESSES = [
    _("Not found. Here ?owner= needs a member of staff with the permission %(permission)s."),
    _("Not found. You have no access to such a conversation of this owner."),
    _("There is no such owner."),
    _("You have no such conversation."),
    _("A conversation's ID is a UUID."),
    _("There is no message at this position."),
    _("This conversation has been erased."),
    _("expected one user's primary key here"),
    _("unknown parameter; this takes %(names)s"),
    _("is given more than once; give it once"),
    _("has U+0000; take it out"),
    _("unknown format %(format)s; expected one of %(formats)s"),
    _("%(format)s is for GET conversations/{id}/memory/ only; expected one of %(formats)s"),
    _("stores/ takes %(format)s only; leave format out"),
    _("expected 1 to %(most)s printable characters"),
    _('expected an ETag of this API, or "<version>" in quotes'),
    _("It exists already, and If-None-Match: * asks that it does not."),
    _("It was changed since you read it. Read it again, and decide whether you still want this."),
    _("expected a whole number above zero"),
    _("expected a whole number from 0 to %(most)s"),
    _("not a cursor of this list; follow next and previous, or leave it out"),
    _("expected true or false"),
    _("give at or at_message, not both"),
    _("there is no message at position %(position)s"),
    _("there are versions from 0 to %(last)s, but no %(version)s"),
    _("expected interrupt or finish, which is the default"),
]

# The bodies of requests.
_BODIES = [
    _("Send the body with a Content-Length, not in chunks."),
    _("The request cannot be read."),
    _("The body has more than %(most)s bytes. Send less at once."),
    _("The body has more than %(most)s values. Send less at once."),
    _("The body is not UTF-8: %(error)s."),
    _("The body cannot be read: %(error)s."),
    _("nested more than %(most)s levels deep"),
    _("a number of %(length)s characters; at most %(most)s are read"),
    _("%(name)s is not JSON; write it as a string"),
    _("the document has %(length)s characters; at most %(most)s are read"),
    _("not JSON: %(error)s"),
    _("expected JSON text, got null"),
    _("expected %(what)s"),
    _("expected %(what)s or null"),
    _("expected %(what)s, got %(got)s"),
    _("expected one of %(choices)s"),
    _("expected one of %(choices)s, got %(got)s"),
    _("expected at most %(most)s"),
    _("cannot be changed; leave it out"),
    _("unknown field; leave it out"),
    _("unknown field; did you mean %(name)s?"),
    _("given twice"),
    _("expected no body, or {}"),
    _('expected an object, such as {"message": "Hello"}'),
    _('expected an object, got a list; several messages are sent as {"messages": [...]}'),
    _("missing; expected a list of messages"),
    _("expected at least one message"),
    _("%(count)s messages; at most %(most)s are taken at once."),
    _("has %(count)s characters; at most %(most)s are stored"),
    _("has %(count)s characters as JSON; at most %(most)s are stored"),
    _("has %(count)s windows; at most %(most)s are replayed at once"),
    _("a message, of the request or of the conversation, cannot be read"),
    _("unknown field; expected message, or the body that useChat sends"),
    _("is empty; to go on from where the conversation stands leave it out"),
    _("expected a text, or a message of the user"),
    _("expected a message whose role is user"),
    _("expected a message of the user: the model answers it"),
    _("missing; a summary of your own has %(name)s and %(other)s"),
    _("leave it out; through says what stays"),
    _("%(problem)s. This looks like OpenAI's format: conversations/ takes it with ?format=openai, stores/ does not"),
    _("%(problem)s. This looks like LangChain4j's format: leave out ?format=openai"),
]

# Conversations and their memories.
_MEMORIES = [
    _("memory_id cannot be empty: everybody without an ID would share one conversation"),
    _("memory_id has %(count)s characters; at most %(most)s are stored"),
    _("There is a conversation with the memory_id %(memory_id)s already. Use it, or take another ID."),
    _("Other requests create and erase a conversation with this memory_id. Try again."),
    _("Other data of this site need it: %(error)s"),
    _("position must be that of a message in the memory, but is: %(position)s"),
    _(
        "pinned messages, with the calls, results and questions that stay with them, would take %(cost)s of "
        "%(limit)s %(unit)s, more than half; unpin some, or choose a limit of at least %(least)s"
    ),
    _("idempotency key %(key)s was used before, with another request; take a new key"),
    _(
        "The memory has, or would have, %(count)s messages and %(chars)s characters; at most %(what)s are "
        "allowed. Clear the memory, or create the conversation with a smaller window."
    ),
    _(
        "The conversation has %(count)s messages; at most %(most)s are replayed by a request. "
        "conversation.memory.replay() in Python has no bound."
    ),
]

# Summaries.
_SUMMARIES = [
    _(
        "This site has no summarizer. Send a summary of your own, with through and text; or have "
        'CHATMEMORY["SUMMARIZER"] set on the server.'
    ),
    _("The summarizer failed, and nothing was changed: %(why)s."),
    _(
        "The summarizer failed, and nothing was changed: %(why)s. Unless you ask for it, it is not tried again "
        "before %(moment)s."
    ),
    _(
        "Messages that no summary stands for left the memory: more than %(messages)s, or more than %(chars)s "
        "characters. That is too much for one request. On the server, conversation.memory.compact() has no bound."
    ),
    _(
        "through is %(through)s, but no message up to there can be summarised: a summary stands for all before "
        "%(position)s, or they are pinned, or somebody took them out"
    ),
    _("through must be the position at which a turn before the last one ends, %(known)s; it is: %(through)s"),
    _("such as %(positions)s"),
    _("but there is none yet"),
    _("a summary must be a text, but is: %(type)s"),
    _("a summary must not be blank"),
    _("a summary must be smaller than what it stands for, but has %(count)s of %(most)s tokens"),
    _("a summary, with pinned messages, may take half of the limit, but would take %(cost)s of %(limit)s %(unit)s"),
    _("the model must return an AiMessage, but returned: %(type)s"),
    _("the model called a tool, though none was offered, instead of writing a summary"),
    _("the summary is not whole: %(why)s"),
    _("the model refused to write a summary"),
    _("the model wrote no summary%(what)s"),
]

# Turns.
_TURNS = [
    _('This site has no assistant: CHATMEMORY["ASSISTANT"] is not set on the server.'),
    _("Another turn of this conversation is under way. Try again when it has ended."),
    _("This message was not answered, and others were said since. Say it again as a new message."),
    _(
        "A message with this ID was already sent with different content. Messages cannot be edited. Send it as a "
        "new message, with a new ID."
    ),
    _("Nothing was said yet that could be answered. Give a message."),
    _("The turn was stopped, or took too long. What was said is kept."),
    _("The turn ended without an answer. What was said is kept. Try again."),
    _("%(why)s What was said is kept. Try again."),
    _("The model failed, so there is no answer yet."),
    _("The model called tools again and again, and gave no answer."),
    _(
        "The message was said before with this key, and later messages have been deleted, perhaps the answer "
        "among them. Send it with a new key to say it again."
    ),
    _(
        "The window is too small for a tool call and its results, so the model would not see both. Make the "
        "window larger, then say it again; if it had an idempotency key, with a new one."
    ),
    _(
        "The window is too small for this turn: the message that it answers left the memory while tools ran, so "
        "the model would not see what it was asked. Make the window larger, then say it again; if it had an "
        "idempotency key, with a new one."
    ),
    _(
        "The window is too small for the last message: it left the memory, and the model would not see it. Make "
        "the window larger or the message shorter, then say it again; if it had an idempotency key, with a new "
        "one."
    ),
]

# The server.
_SERVER = [
    _(
        "The database does not answer, or is too busy. Try again: if it made the change all the same, the same "
        "Idempotency-Key does not make it twice."
    ),
    _(
        "The database lacks a table or a column. On the server, run: python manage.py migrate. The server's log "
        "says what is missing."
    ),
]

# What a model's server may do wrong, for projects that show it as the demo does.
_MODELS = [
    _("%(name)s did not answer as its header says, but: %(answer)s"),
    _("%(name)s answered with broken JSON: %(answer)s"),
    _("%(name)s answered with text that is not %(encoding)s: %(text)s"),
    _("%(name)s broke off in the middle of its answer."),
    _("%(name)s paused more than %(count)s times, and did not finish its answer."),
    _("%(name)s gave an answer that cannot be kept: %(error)s"),
    _("%(name)s gave an answer that cannot be understood: %(answer)s"),
    _("The tool calls of %(name)s were cut off: %(reason)s."),
    _("%(name)s returned an empty answer%(reason)s."),
    _("%(name)s returned an empty answer: the request was blocked (%(reason)s)."),
    _("%(name)s did not answer with a message. Check ANTHROPIC_BASE_URL. It answered: %(answer)s"),
    _("%(name)s did not answer with a chat completion. Check OPENAI_BASE_URL. It answered: %(answer)s"),
    _("%(name)s did not answer as a stream of messages. Check ANTHROPIC_BASE_URL."),
    _("%(name)s did not answer as a stream of chat completions. Check OPENAI_BASE_URL."),
    _("%(name)s did not answer as a stream of responses."),
    _("The model's stream ended before the answer was whole."),
    _("The model returned an empty answer: neither text nor a call of a tool."),
]

# The words within the sentences above.
_WORDS = [
    _("anything"),
    _("metadata"),
    _("a string"),
    _("an object"),
    _("a list"),
    _("a number"),
    _("true or false"),
    _("a whole number"),
    _("a number from 0 on"),
    _("a list of messages"),
    _("a list of parts"),
    _("a string or a list of parts"),
    _("a string or a list of blocks"),
    _("an object or a list of messages"),
    _("an object or a list of contents"),
    _("a list of contents"),
    _("a list of candidates"),
    _("a list of UIMessages"),
    _("an image"),
    _("images"),
    _("audio"),
    _("a video"),
    _("videos"),
    _("a PDF file"),
    _("PDF files"),
    _("a text"),
    _(", only thinking"),
    _("nothing"),
    _("a list of items"),
    _("a list of items or a text"),
    _("a list of items, a text or an object"),
    _("messages"),
    _("tokens"),
    _("%(messages)s messages and %(chars)s characters"),
]

SENTENCES = [
    *_ADDRESSES,
    *_BODIES,
    *MESSAGE_SENTENCES,
    *_MEMORIES,
    *_SUMMARIES,
    *_TURNS,
    *_SERVER,
    *_MODELS,
    *_WORDS,
]
"""Every pattern. What differs is a named placeholder; ``NESTED`` of the translation tells which hold words, too."""
