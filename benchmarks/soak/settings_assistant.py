"""The Django project of ``tests.support.asgi_site`` on the databases that the environment names."""

from tests.settings.base import *  # noqa: F403

from .settings import DATABASES  # noqa: F401
