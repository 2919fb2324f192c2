"""The user who signs in to the demo."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.utils.crypto import salted_hmac

__all__ = ["USERNAME", "ensure_demo_user", "password"]

USERNAME = "demo"


def password() -> str:
    """Return the demo user's password, which follows from the secret key, so that each run can print it."""
    return salted_hmac("demo_project.demo_user", USERNAME, algorithm="sha256").hexdigest()[:12]


def ensure_demo_user() -> User:
    """Return the demo user, created if need be, who may do everything and has the printed password."""
    user, created = User.objects.get_or_create(username=USERNAME)
    user.is_active = user.is_staff = user.is_superuser = True
    # A new hash would end the sessions of the previous run. Who is new has none, and a check takes as long as a hash.
    if created or not user.check_password(password()):
        user.set_password(password())
    user.save()
    return user
