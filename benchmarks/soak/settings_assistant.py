"""The Django project of ``tests.asgi_site`` on the databases that the environment names."""

from tests.settings_asgi import *  # noqa: F403

from .settings import DATABASES  # noqa: F401
