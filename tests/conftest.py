"""What several test modules share."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from hypothesis import HealthCheck, settings

from tests.support.factories import UserFactory

# A machine that is shared may be slow at any moment, and that says nothing of a strategy.
settings.register_profile(
    "shared", settings.get_profile(settings.get_current_profile_name()), suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("shared")


def pytest_collection_finish() -> None:
    """Millions of objects of other frameworks are imported by now, which the garbage collector need not look at."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def user(db: None) -> Any:
    """Who uses the API."""
    return UserFactory()


@pytest.fixture
def api(user: Any) -> Client:
    """A client that is signed in as ``user``."""
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def grant(user: Any) -> Any:
    """Gives ``user`` model permissions on conversations."""

    def give(*acts: str) -> None:
        codenames = [f"{act}_conversation" for act in acts]
        user.user_permissions.add(*Permission.objects.filter(codename__in=codenames))

    return give
