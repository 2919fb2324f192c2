"""Every app of the package, for mypy."""

from tests.settings.base import *  # noqa: F403

INSTALLED_APPS = list(dict.fromkeys([*INSTALLED_APPS, "chatmemory.contrib.citus", "tests.capability"]))  # noqa: F405
