"""The demo: everything of the app at work, on an SQLite file beside manage.py. Not for production."""

from importlib.util import find_spec
from pathlib import Path

from demo_project.secret_key import secret_key

BASE_DIR = Path(__file__).resolve().parent.parent

SECRET_KEY = secret_key(BASE_DIR / "demo.key")
DEBUG = True
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]

INSTALLED_APPS = [
    "demo_project",
    "chatmemory",
    "chatmemory.contrib.feedback",
    "chatmemory.contrib.search",
    "chatmemory.contrib.usage",
    "rest_framework",
    "django_filters",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
]
# The extra "demo": a page that describes the API.
INSTALLED_APPS += [app for app in ("drf_spectacular", "drf_spectacular_sidecar") if find_spec(app)]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "demo_project.urls"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
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

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": BASE_DIR / "demo.sqlite3",
        "OPTIONS": {"init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"},
    }
}

# No model, so that the demo needs none: it repeats the first words of what the user said. A summary is due only in
# conversations that say so, because the others are there to show how a model forgets.
CHATMEMORY = {
    "ASSISTANT": "demo_project.chat.assistant.assistant",
    "SUMMARIZER": "demo_project.chat.summarizer.summarize",
    "USERS": "all",  # the demo is there to look at everything, and to change the window
}
SILENCED_SYSTEM_CHECKS = ["chatmemory.W037"]

LOGIN_URL = "sign-in"

STATIC_URL = "static/"
LOCALE_PATHS = [BASE_DIR / "demo_project" / "locale"]
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
