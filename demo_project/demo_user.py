"""The user who signs in to the demo."""

from __future__ import annotations

from django.contrib.auth.models import User

__all__ = ["PASSWORD", "USERNAME", "ensure_demo_user"]

USERNAME = "demo"

# Fixed and printed, so that nobody has to look for it. It protects only sample data, on a server that listens on
# 127.0.0.1 only.
PASSWORD = "demo"


def ensure_demo_user() -> User:
    """Return the demo user, created if need be, who may do everything and has the printed password."""
    user, _created = User.objects.get_or_create(username=USERNAME)
    user.is_active = user.is_staff = user.is_superuser = True
    # A new hash would end the sessions of the previous run.
    if not user.check_password(PASSWORD):
        user.set_password(PASSWORD)
    user.save()
    return user
