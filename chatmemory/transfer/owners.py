"""The owners of imported conversations."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from django.contrib.auth import get_user_model

from chatmemory.core.exceptions import InvalidMessageError
from chatmemory.core.json_text import require_storable


class Owners:
    """The users by the names that a source has for them."""

    def __init__(self, database: str, everybody: Any = None, mapped: Mapping[str, Any] | None = None) -> None:
        """
        Args:
            database: the alias of the database that has the users.
            everybody: the user who becomes the owner of all conversations; by default the source names the owners.
            mapped: users by the names that the source has for them.
        """
        self._users = get_user_model()._default_manager.using(database)
        self._everybody = everybody
        self._mapped = dict(mapped or {})
        self._by_name = lru_cache(maxsize=10_000)(self._look_up)

    def named(self, name: str | None) -> Any:
        """Return the user for a name in the source; None for a conversation without an owner.

        Raises:
            ValueError: no user has this name.
        """
        if self._everybody is not None:
            return self._everybody
        if name is None or name in self._mapped:
            return self._mapped.get(name or "")
        user = self._by_name(name)
        if user is None:
            raise ValueError(f"there is no user {name!r}; create one, or use --map-owner {name}=ID or --owner ID")
        return user

    def _look_up(self, name: str) -> Any:
        try:
            require_storable(name, "owner")
        except InvalidMessageError:
            return None  # databases refuse such a text in a query, too
        model = get_user_model()
        column: Any = model._meta.get_field(model.USERNAME_FIELD)
        found = self._users.filter(**{model.USERNAME_FIELD: name})
        # MariaDB takes "ann", "Ann" and "änn" for the same.
        return next((user for user in found if user.get_username() == column.to_python(name)), None)
