"""The sentences of errors about messages: those that were sent, and those that a format cannot express."""

from __future__ import annotations

from django.utils.translation import gettext_noop as _

__all__ = ["MESSAGE_SENTENCES"]

MESSAGE_SENTENCES = [
    # The fields of messages.
    _("%(name)s cannot be null"),
    _("%(name)s cannot be null or blank"),
    _("contents cannot be null or empty"),
    _("Illegal character in %(name)s at index %(index)s: %(value)s"),
    _("Malformed escape pair in %(name)s at index %(index)s: %(value)s"),
    _("Either %(kind)s or its fields must be provided, not both"),
    _("Either text or contents must be provided"),
    _("Either text or contents must be provided, not both"),
    _("Expecting single text content, but got: %(contents)s"),
    _("expected at least one part, got none"),
    _("expected at least one block, got none"),
    _("expected at least one part of the type %(types)s, got none"),
    _("expected one part of the type data-custom, got %(count)s parts"),
    _("expected one candidate, got %(count)s; read the content of one"),
    _("expected Base64"),
    _("expected Base64: %(error)s"),
    _("expected data:…;base64, and then Base64"),
    _("expected data:application/pdf;base64,…"),
    _("expected a URL of https"),
    _("expected a URL of http or https, or data:…;base64,…"),
    _("expected a URL of http, https or gs"),
    _("expected the type of an image, audio, a video or a PDF file"),
    _("expected seconds, such as 1.5s"),
    _("expected a name in capital letters"),
    _("has %(what)s at index %(index)s; take it out"),
    _("half of a surrogate pair (%(code)s)"),
    _("given twice, there is one in the content"),
    _("given twice, there is a reasoning_content"),
    _("given twice, there is a file_url"),
    _(
        "a file of the type %(type)s cannot be kept, only images, audio, video and PDF files; give its text as a "
        "text part"
    ),
    _("a file in an answer cannot be kept; leave it out"),
    _("a steering message cannot be kept; make it a user message"),
    _("search results cannot be kept; give them as text"),
    _("references to tools cannot be kept; leave them out"),
    _("the state of a browser cannot be kept; give it as text"),
    _("only OpenAI knows what this refers to; give the item itself"),
    _("a call of a custom tool cannot be kept, only one of a function"),
    _("the result of a custom tool cannot be kept, only that of a function"),
    _("a call whose output is not a function's cannot be kept; leave it out"),
    _("an image that OpenAI holds cannot be kept; give its image_url"),
    _("a file that OpenAI holds cannot be kept; give its file_data"),
    _("the role function is deprecated; use tool, with a tool_call_id"),
    _("the name of a system message cannot be kept; leave it out"),
    _("function_call is deprecated; use tool_calls"),
    _("payload: expected an object"),
    _("a file that Anthropic holds cannot be kept; give its data"),
    _("a document of blocks cannot be kept; give them as blocks of the message"),
    # What a format cannot express.
    _("%(problem)s; ask for format=langchain4j"),
    _("message %(index)s (%(type)s): %(problem)s"),
    _("%(api)s has no such messages"),
    _("%(api)s takes no %(what)s"),
    _("OpenAI's Responses take no %(what)s"),
    _("%(api)s needs the name of the tool that is called"),
    _("OpenAI needs the ID of the call: the result has none, and there is no unanswered call without an ID"),
    _("%(api)s takes the data of %(what)s as Base64 only"),
    _("%(api)s needs the MIME type of %(what)s, and the ending of its URL names none"),
    _("%(api)s needs the MIME type of %(what)s that is given as data"),
    _("%(api)s takes %(what)s of %(types)s, but the MIME type is %(type)s"),
    _("%(api)s takes %(what)s from %(schemes)s only, but the URL is %(url)s"),
    _("%(api)s needs the data of %(what)s; a URL is not enough"),
    _("%(api)s needs the URL or the data of %(what)s"),
    _("OpenAI takes audio/wav and audio/mp3, but the MIME type is %(type)s"),
    _("OpenAI takes only text in a tool result, but it has %(what)s"),
]
