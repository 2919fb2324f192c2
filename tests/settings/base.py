"""The project that the tests run in. ``CHATMEMORY_TEST_DATABASE`` picks the engine: sqlite, postgres or mysql.

With ``CHATMEMORY_TEST_SERVER_SIDE_BINDING`` PostgreSQL puts the parameters into the statements, otherwise psycopg does.
"""

import os
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.support.paths import ROOT

SECRET_KEY = "only-for-tests"
USE_TZ = True
ROOT_URLCONF = "tests.support.urls"

INSTALLED_APPS = [
    "chatmemory",
    "chatmemory.contrib.feedback",
    "chatmemory.contrib.search",
    "chatmemory.contrib.usage",
    "rest_framework",
    "django_filters",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
]
# Adapters with tables need their packages, which the extra "test" does not install.
for app, package in {"langgraph": "langgraph", "pydantic_ai": "pydantic_ai"}.items():
    if find_spec(package):
        INSTALLED_APPS.append(f"chatmemory.contrib.{app}")
if os.environ.get("CHATMEMORY_TEST_CITUS"):
    INSTALLED_APPS.append("chatmemory.contrib.citus")
MIDDLEWARE = [
    "tests.support.csp.strict_admin",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
CHATMEMORY: dict[str, Any] = {"ASSISTANT": "tests.support.assistants.assistant", "USERS": "all"}
STATIC_URL = "/static/"
STATICFILES_DIRS = [("modules", ROOT / "chatmemory" / "javascript")]  # the modules of the chat, one by one
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

# A commit in memory takes a fiftieth of the time that it waits for a disk. A container's /dev/shm may be too small.
_MEMORY = Path("/dev/shm")
_IN_MEMORY = os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > 2**30
_FOLDER = _MEMORY if _IN_MEMORY else Path(tempfile.gettempdir())

_ENGINES: dict[str, dict[str, Any]] = {
    # A file, for several processes write to it. Otherwise Django's default settings, but for the 5 seconds in which a
    # writer must have the lock: it does not go by turns, and on a busy machine who has it may be halted.
    "sqlite": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": _FOLDER / f"chatmemory-{os.getpid()}.sqlite3",
        "TEST": {"NAME": str(_FOLDER / f"chatmemory-test-{os.getpid()}.sqlite3")},
        "OPTIONS": {"timeout": 60},
    },
    "postgres": {
        "ENGINE": "tests.support.postgresql",
        "HOST": os.environ.get("PGHOST", "127.0.0.1"),
        "USER": os.environ.get("PGUSER", "root"),
        "PASSWORD": os.environ.get("PGPASSWORD", ""),
        "NAME": os.environ.get("PGDATABASE", "postgres"),
        "TEST": {"NAME": f"test_chatmemory_{os.getpid()}"},
        "OPTIONS": {"server_side_binding": bool(os.environ.get("CHATMEMORY_TEST_SERVER_SIDE_BINDING"))},
    },
    "mysql": {
        "ENGINE": "django.db.backends.mysql",
        "HOST": os.environ.get("MYSQL_HOST", "127.0.0.1"),
        "USER": os.environ.get("MYSQL_USER", "root"),
        "PASSWORD": os.environ.get("MYSQL_PASSWORD", ""),
        "NAME": os.environ.get("MYSQL_DATABASE", "test"),
        "OPTIONS": {"charset": "utf8mb4"},
        "TEST": {"NAME": f"test_chatmemory_{os.getpid()}", "CHARSET": "utf8mb4"},
    },
}
# The writers of the concurrency tests are processes of their own, and are told the test database by its name.
if "CHATMEMORY_TEST_NAME" in os.environ:
    for engine in _ENGINES.values():
        engine["NAME"] = os.environ["CHATMEMORY_TEST_NAME"]
DATABASES = {
    "default": _ENGINES[os.environ.get("CHATMEMORY_TEST_DATABASE", "sqlite")],
    "other": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
}
