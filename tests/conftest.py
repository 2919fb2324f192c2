"""What several test modules share."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from tests.factories import UserFactory


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
