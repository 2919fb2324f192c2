"""What several tests of the REST API need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.utils import translation

from tests.support.assistants import choose


@pytest.fixture
def by_browser(settings: Any) -> Iterator[None]:
    """Answers come in the language that the browser asks for."""
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.middleware.locale.LocaleMiddleware"]
    yield
    choose(None)
    translation.deactivate()
