"""The settings behind a real server whose connections come from a pool of ``CHATMEMORY_TEST_POOL``."""

import os

from tests.settings.turns import *  # noqa: F403

# It asks the database after the view, as one does that saves a session or writes an audit log.
MIDDLEWARE = ["tests.support.late_middleware.asks_after_the_view", *MIDDLEWARE]  # noqa: F405
_SIZE = int(os.environ.get("CHATMEMORY_TEST_POOL", "1"))
DATABASES["default"]["OPTIONS"]["pool"] = {"min_size": _SIZE, "max_size": _SIZE, "timeout": 120}  # noqa: F405
