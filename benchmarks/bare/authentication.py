"""An authentication that makes every request the first user's: the same small work for each API that is measured."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from rest_framework.authentication import BaseAuthentication

__all__ = ["FirstUserAuthentication"]


class FirstUserAuthentication(BaseAuthentication):
    """An authentication that reads the user from the database, as real schemes do."""

    def authenticate(self, request: Any) -> tuple[Any, None]:
        return get_user_model()._default_manager.order_by("pk")[0], None
