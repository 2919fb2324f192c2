"""The settings behind a real server: it is asked for by its address, and prints its errors."""

from tests.settings.base import *  # noqa: F403

ALLOWED_HOSTS = ["127.0.0.1"]
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"console": {"class": "logging.StreamHandler", "level": "ERROR"}},
    "root": {"handlers": ["console"]},
}
