"""A project with django-ai-assistant, and its database in the file that the environment names."""

import os

SECRET_KEY = "only-for-tests"
USE_TZ = True
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "django_ai_assistant"]
DATABASES = {
    "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ["CHATMEMORY_TEST_AI_ASSISTANT"]},
}
