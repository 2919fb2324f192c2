"""A process that starts Django as one of the set-ups does, and prints its CPU time and memory as JSON.

Run by ``benchmarks.weight.__main__``, with the name of a set-up. Memory is read from ``/proc``, so it needs Linux.
"""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path

BARE = [f"django.contrib.{app}" for app in ("admin", "auth", "contenttypes", "sessions", "messages", "staticfiles")]
SETUPS = {
    "Django with its admin": BARE,
    "and REST framework": [*BARE, "rest_framework", "django_filters"],
    "and chatmemory": [*BARE, "rest_framework", "django_filters", "chatmemory"],
}
"""The apps of each set-up."""

urlpatterns: list[object] = []


def _megabytes() -> float:
    [kilobytes] = re.findall(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())
    return int(kilobytes) / 1024


def main(setup: str) -> None:
    """Print a list for each step: its name, milliseconds of CPU time and megabytes since the process began."""
    found: list[tuple[str, float, float]] = []
    begun = time.process_time()

    def note(step: str) -> None:
        found.append((step, (time.process_time() - begun) * 1000, _megabytes()))

    from django.conf import settings

    settings.configure(
        INSTALLED_APPS=SETUPS[setup],
        ROOT_URLCONF=__name__,
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        USE_TZ=True,
    )
    import django

    django.setup()
    note("django.setup()")
    from django.contrib import admin
    from django.urls import get_resolver, include, path

    urlpatterns.append(path("admin/", admin.site.urls))
    if "chatmemory" in settings.INSTALLED_APPS:
        urlpatterns.append(path("api/", include("chatmemory.urls")))
    _ = get_resolver().reverse_dict
    note("with URLs")
    if "chatmemory" in settings.INSTALLED_APPS:
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        from chatmemory import UserMessage
        from chatmemory.models import Conversation

        conversation = Conversation.objects.create(window="tokens", limit=4000)
        note("before the first addition")
        conversation.memory.add(UserMessage("Hello"))
        note("after it")
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
