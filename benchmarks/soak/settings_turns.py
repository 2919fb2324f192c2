"""The Django project of ``tests.support.signalled`` on the databases that the environment names."""

from tests.settings.turns import *  # noqa: F403

from .settings import DATABASES  # noqa: F401
