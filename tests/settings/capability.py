"""The project of the tests, with a capability of its own."""

from tests.settings.base import *  # noqa: F403

INSTALLED_APPS = ["tests.capability", *INSTALLED_APPS]  # noqa: F405  # before the other search
