"""The settings behind a real ASGI server, with addresses whose views are async."""

from tests.settings_server import *  # noqa: F403

ROOT_URLCONF = "tests.asgi_site"
MIDDLEWARE: list[str] = []
