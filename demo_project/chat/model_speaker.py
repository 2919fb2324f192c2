"""A model behind somebody's API, whose errors say what to do."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, aclosing, contextmanager
from typing import ClassVar
from urllib.parse import urlsplit

from django.utils.translation import gettext as _

from chatmemory import AiMessage, ChatMessage
from chatmemory.assistant import Answered, ChatModel, ModelError, Thinking, ToolSpecification
from chatmemory.formats import UnsupportedContentError
from demo_project.chat.speaker import Speaker, SpeakerError

__all__ = ["SECONDS", "ModelSpeaker"]

SECONDS = 60
"""The time that a model has for an answer."""


class ModelSpeaker(Speaker):
    """A model asked through a package, which reads the address and the key from the environment."""

    package: ClassVar[str]
    """The name that pip installs it by."""

    key: ClassVar[str]
    """The variable with the key."""

    address: ClassVar[str]
    """The variable with the address of another server."""

    default_address: ClassVar[str]

    def __init__(self, model: str) -> None:
        self.model = model
        self._host = urlsplit(os.environ.get(self.address) or self.default_address).netloc
        self.name = _("%(model)s at %(host)s") % {"model": model, "host": self._host}

    def stream(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]
    ) -> Iterator[str | Thinking | AiMessage | Answered]:
        with self._explained(), self._connected() as model:
            yield from model.stream(messages, tools)

    async def astream(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpecification]
    ) -> AsyncIterator[str | Thinking | AiMessage | Answered]:
        with self._explained():
            async with self._aconnected() as model, aclosing(model.astream(messages, tools)) as pieces:  # type: ignore[type-var]
                async for piece in pieces:
                    yield piece

    def trouble(self) -> str | None:
        try:
            with self._explained():
                self._look()
        except SpeakerError as error:
            return str(error.detail)
        return None

    @abstractmethod
    def _look(self) -> None:
        """Ask the server for its models, which costs nothing, to see whether it is there and takes the key."""

    @abstractmethod
    def _connected(self) -> AbstractContextManager[ChatModel]:
        """Return the model, with a client that is closed in the end.

        Raises:
            ImportError: the package is missing.
            SpeakerError: the key is.
        """

    @abstractmethod
    def _aconnected(self) -> AbstractAsyncContextManager[ChatModel]:
        """Return the model for async code."""

    @abstractmethod
    def _explain(self, error: Exception) -> str | None:
        """Return what to do about an exception; None if it is not one of the package's."""

    def _require_key(self) -> str:
        if key := os.environ.get(self.key):
            return key
        raise SpeakerError(_("%(host)s needs a key. Set %(key)s.") % {"host": self._host, "key": self.key})

    def _told(self, status: int | None, said: str) -> str:
        """Return what to do about an error that the server tells.

        Args:
            status: that of HTTP; None if it has no meaning.
            said: the server's words.
        """
        told = {
            "name": self.name,
            "host": self._host,
            "key": self.key,
            "address": self.address,
            "status": status,
            "said": said[:300],
        }
        if status in (401, 403):
            return _("%(host)s refused the key (%(status)s). Check %(key)s. It said: %(said)s") % told
        if status == 404:
            return _("%(host)s does not know this (404). Check CHATMEMORY_DEMO_MODEL and %(address)s: %(said)s") % told
        if status is not None:
            return _("%(name)s failed (%(status)s). It said: %(said)s") % told
        return _("%(name)s failed. It said: %(said)s") % told

    def _is_late(self) -> str:
        return _("%(host)s did not answer within %(seconds)s seconds.") % {"host": self._host, "seconds": SECONDS}

    def _is_not_there(self) -> str:
        told = {"host": self._host, "address": self.address}
        return _("%(host)s cannot be reached. Check %(address)s, and that the server runs.") % told

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except ImportError as error:
            raise SpeakerError(
                _("The package %(package)s is missing. Install it: pip install %(package)s") % {"package": self.package}
            ) from error
        except UnsupportedContentError as error:
            told = {"name": self.name, "error": error.text(_)}
            raise SpeakerError(_("This memory cannot be sent to %(name)s: %(error)s") % told) from error
        except ModelError as error:
            raise SpeakerError(error.text(_)) from error
        except Exception as error:
            if (explanation := self._explain(error)) is None:
                raise
            raise SpeakerError(explanation) from error
