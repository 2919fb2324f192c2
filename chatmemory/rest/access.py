"""The permissions of the API. Users reach their own conversations; staff may name another owner."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import ObjectDoesNotExist, ValidationError
from django.utils.module_loading import import_string
from rest_framework.exceptions import NotAuthenticated, NotFound
from rest_framework.request import Request

from chatmemory.conf import setting
from chatmemory.models import Conversation, ConversationQuerySet
from chatmemory.rest.problems import invalid

__all__ = ["EVERYBODY", "permission_classes", "reachable_conversations", "single_owner"]

EVERYBODY = "*"

_ACTS = {"POST": "change", "PUT": "change", "PATCH": "change", "DELETE": "delete"}


def permission_classes() -> list[Any]:
    """Return the classes that ``CHATMEMORY["PERMISSION_CLASSES"]`` names."""
    return [import_string(path) for path in setting("PERMISSION_CLASSES")]


def reachable_conversations(request: Request, act: str | None = None) -> ConversationQuerySet:
    """Return the conversations that the request may reach: those of ``?owner=``, by default of its user.

    Args:
        request: the request.
        act: the model permission that staff need: by default what the method does.

    Raises:
        NotFound: the owner is another, and the user may not see their conversations, or there is no such owner.
    """
    if _owner_parameter(request) == EVERYBODY:
        _require_permission(request, act)
        return Conversation.objects.all()
    owner = _owner(request, act)
    return Conversation.objects.none() if owner is None else Conversation.objects.owned_by(owner)


def single_owner(request: Request, act: str | None = None) -> Any:
    """Return the user who shall own the conversation: the one of ``?owner=``, by default the request's.

    Raises:
        NotAuthenticated: there is nobody.
        NotFound: as above.
        ValidationError: ``?owner=*``.
    """
    if _owner_parameter(request) == EVERYBODY:
        _require_permission(request, act)
        raise invalid("owner", "expected one user's primary key here")
    owner = _owner(request, act)
    if owner is None:
        raise NotAuthenticated
    return owner


def _owner_parameter(request: Request) -> str | None:
    """Return ``?owner=``, or None if it names the request's user."""
    asked = request.query_params.get("owner")
    return None if asked is None or asked == str(getattr(request.user, "pk", None)) else asked


def _owner(request: Request, act: str | None) -> Any:
    asked = _owner_parameter(request)
    if asked is not None:
        _require_permission(request, act)
        return _user(asked)
    user = request.user
    if not getattr(user, "is_authenticated", False):
        return None
    # request.user may be a stand-in, such as the claims of a token. The owner is the row that it represents.
    return user if isinstance(user, get_user_model()) else _user(user.pk)


def _user(key: Any) -> Any:
    try:
        return get_user_model()._default_manager.get(pk=key)
    except (ObjectDoesNotExist, ValueError, ValidationError, OverflowError) as error:
        raise NotFound("There is no such owner.") from error


def _require_permission(request: Request, act: str | None) -> None:
    act = act or _ACTS.get(request.method or "", "view")
    permission = f"chatmemory.{act}_conversation"
    enough = [permission, "chatmemory.change_conversation"] if act == "view" else [permission]  # as in the admin
    user: Any = request.user
    if not (getattr(user, "is_staff", False) and any(map(user.has_perm, enough))):
        raise NotFound(f"Not found. ?owner= is for staff who have the permission {permission}.")
