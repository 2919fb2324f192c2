"""The Django project of a scenario and of its traffic: the tests', on the databases that the environment names."""

import json
import os

from tests.settings.base import *  # noqa: F403

DATABASES = json.loads(os.environ["CHATMEMORY_SOAK_DATABASES"])

ALLOWED_HOSTS = ["testserver"]  # what Django's test client calls this
