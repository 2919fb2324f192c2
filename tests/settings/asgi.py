"""The settings behind a real ASGI server, with addresses whose views are async."""

from tests.settings.base import *  # noqa: F403

ROOT_URLCONF = "tests.support.asgi_site"
MIDDLEWARE: list[str] = []
