"""The project of the benchmark: that of ``benchmarks.settings``, with the app that stores usage if it is asked for."""

import os

from benchmarks.settings import *  # noqa: F403

if os.environ.get("CHATMEMORY_BENCHMARK_USAGE", "1") == "1":
    INSTALLED_APPS.append("chatmemory.contrib.usage")  # noqa: F405
