"""A model behind somebody's API, whose errors say what to do."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, aclosing, contextmanager
from typing import ClassVar
from urllib.parse import urlsplit

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
        self.name = f"{model} at {self._host}"

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
        raise SpeakerError(f"{self._host} needs a key. Set {self.key}.")

    def _told(self, status: int | None, said: str) -> str:
        """Return what to do about an error that the server tells.

        Args:
            status: that of HTTP; None if it has no meaning.
            said: the server's words.
        """
        said = said[:300]
        if status in (401, 403):
            return f"{self._host} refused the key ({status}). Check {self.key}. It said: {said}"
        if status == 404:
            return f"{self._host} does not know this (404). Check CHATMEMORY_DEMO_MODEL and {self.address}: {said}"
        if status is not None:
            return f"{self.name} failed ({status}). It said: {said}"
        return f"{self.name} failed. It said: {said}"

    def _is_late(self) -> str:
        return f"{self._host} did not answer within {SECONDS} seconds."

    def _is_not_there(self) -> str:
        return f"{self._host} cannot be reached. Check {self.address}, and that the server runs."

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except ImportError as error:
            raise SpeakerError(
                f"The package {self.package} is missing. Install it: pip install {self.package}"
            ) from error
        except UnsupportedContentError as error:
            raise SpeakerError(f"This memory cannot be sent to {self.name}: {error}") from error
        except ModelError as error:
            raise SpeakerError(str(error)) from error
        except Exception as error:
            if (explanation := self._explain(error)) is None:
                raise
            raise SpeakerError(explanation) from error
