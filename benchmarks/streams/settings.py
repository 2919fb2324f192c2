"""The Django project that is measured: that of all benchmarks, with an assistant, and with a pool of connections.

Threads come and go under ASGI, and a turn has one of its own under WSGI. Without a pool each would connect anew.
"""

from typing import Any

from benchmarks.settings import *  # noqa: F403
from benchmarks.settings import DATABASES

CHATMEMORY = {"ASSISTANT": "benchmarks.streams.site.assistant"}
ROOT_URLCONF = "benchmarks.streams.urls"

_default: Any = DATABASES["default"]
if _default["ENGINE"].endswith("postgresql"):
    _default |= {"CONN_MAX_AGE": 0, "OPTIONS": {**_default["OPTIONS"], "pool": True}}
