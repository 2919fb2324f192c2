"""The Django project that is measured. Each process of the benchmark has one engine, as its default database."""

import os
from importlib.util import find_spec

from benchmarks.places import mariadb_parameters, postgres_parameters

ENGINE = os.environ.get("CHATMEMORY_BENCHMARK_ENGINE", "sqlite")

_DATABASES = {
    "sqlite": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("CHATMEMORY_BENCHMARK_DATABASE", ":memory:"),
        "OPTIONS": {"init_command": "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL"},
    },
    "postgres": {
        "ENGINE": "django.db.backends.postgresql",
        **{key.upper(): value for key, value in postgres_parameters().items() if key != "dbname"},
        "NAME": os.environ.get("CHATMEMORY_BENCHMARK_DATABASE", "postgres"),
        "CONN_MAX_AGE": None,
        # As docs/databases.md recommends; the peers and the floor prepare their statements too.
        "OPTIONS": {"server_side_binding": True, "prepare_threshold": 5},
    },
    "mariadb": {
        "ENGINE": "django.db.backends.mysql",
        **{key.upper(): value for key, value in mariadb_parameters().items()},
        "NAME": os.environ.get("CHATMEMORY_BENCHMARK_DATABASE", "test"),
        "OPTIONS": {"charset": "utf8mb4"},
        "CONN_MAX_AGE": None,
    },
}

SECRET_KEY = "only-for-benchmarks"
DEBUG = False
USE_TZ = True
ALLOWED_HOSTS = ["127.0.0.1", "testserver"]
ROOT_URLCONF = "benchmarks.urls"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {"default": _DATABASES[ENGINE]}

INSTALLED_APPS = [
    "chatmemory",
    "benchmarks.bare",
    "rest_framework",
    "django_filters",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    *(["django_ai_assistant"] if find_spec("django_ai_assistant") else []),
]
MIDDLEWARE = [
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
STATIC_URL = "/static/"
REST_FRAMEWORK = {"DEFAULT_AUTHENTICATION_CLASSES": ["benchmarks.bare.authentication.FirstUserAuthentication"]}
