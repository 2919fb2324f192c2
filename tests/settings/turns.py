"""The settings behind a real server whose assistant waits for signals of the tests."""

from tests.settings.server import *  # noqa: F403

# Many projects have it, and browsers accept what it makes.
MIDDLEWARE = ["django.middleware.gzip.GZipMiddleware", *MIDDLEWARE]  # noqa: F405
CHATMEMORY = {"USERS": "all", "ASSISTANT": "tests.support.signalled.assistant"}
