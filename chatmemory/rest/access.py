"""The conversations that a request may reach: its user's own; for staff also those of the owner that they name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_user_model
from django.core.exceptions import ObjectDoesNotExist, ValidationError
from rest_framework.exceptions import NotAuthenticated
from rest_framework.request import Request

from chatmemory import staff
from chatmemory.models import Conversation, ConversationQuerySet, WrittenBy
from chatmemory.rest.problems import NotForUsers, NotFound, invalid
from chatmemory.staff import Act

if TYPE_CHECKING:
    from typing import TypeVar

    from django.db.models import QuerySet

    Rows = TypeVar("Rows", bound=QuerySet[Any])

EVERYBODY = "*"


def is_for_others(request: Request) -> bool:
    """Return whether the request names another owner than its user, which is for staff."""
    return _owner_parameter(request) is not None


def writer(request: Request) -> WrittenBy:
    """Return who writes the messages that a request adds."""
    return WrittenBy.STAFF if is_for_others(request) else WrittenBy.CLIENT


def require(request: Request, *acts: Act) -> None:
    """Check the user's permissions for all of ``acts``, if the request names another owner.

    Raises:
        NotFound: the user is not staff, or lacks one of the permissions.
    """
    if not is_for_others(request):
        return
    user: Any = request.user
    for act in acts:
        if not (getattr(user, "is_staff", False) and staff.may(user, act)):
            raise NotFound(
                "Not found. Here ?owner= needs a member of staff with the permission %(permission)s.",
                permission=staff.permission(act),
            )


def require_free(request: Request, *acts: Act) -> None:
    """Check that the user may do all of ``acts``, where ``USERS`` lets users only chat.

    Raises:
        NotForUsers: the request is about the user's own conversations, and they are no staff with the permissions.
        NotFound: as ``require`` raises it.
    """
    if is_for_others(request):
        require(request, *acts)
    elif not staff.is_free(request.user, *acts):
        raise NotForUsers


def may_read_text(request: Request) -> bool:
    """Return whether the user may read the messages and the metadata of the conversations that the request names."""
    return not is_for_others(request) or staff.may(request.user, "read_text")


def reachable_conversations(request: Request, *acts: Act) -> ConversationQuerySet:
    """Return the conversations that the request may reach, as ``reachable_rows`` does."""
    return reachable_rows(request, Conversation.objects.all(), *acts)


def reachable_rows(request: Request, rows: Rows, *acts: Act, conversation: str = "pk") -> Rows:
    """Return those of ``rows`` that the request may reach: those of ``?owner=``, by default of its user.

    Args:
        request: the request.
        rows: a queryset of conversations, or of other rows with an owner.
        acts: what staff need a permission for.
        conversation: the field with the primary key of the conversation.

    Raises:
        NotFound: the request names another owner, and the user lacks a permission; or there is no such owner.
    """
    require(request, *acts)
    if _owner_parameter(request) == EVERYBODY:
        return staff.reachable(request.user, rows, conversation)
    owner = _owner(request)
    if owner is None:
        return rows.none()
    theirs = rows.filter(owner=owner)
    return staff.reachable(request.user, theirs, conversation) if is_for_others(request) else theirs


def require_reachable(request: Request, database: str, key: Any) -> None:
    """Check that staff reach a conversation that was found or made without ``reachable_conversations``.

    Args:
        request: the request.
        database: the alias of its database.
        key: its primary key.

    Raises:
        NotFound: the request names another owner, and the user does not reach the conversation.
    """
    if is_for_others(request):
        row = Conversation.objects.using(database).filter(pk=key)
        if not staff.reachable(request.user, row).exists():
            raise NotFound("Not found. You have no access to such a conversation of this owner.")


def single_owner(request: Request, *acts: Act) -> Any:
    """Return the one owner that the request is about: the user of ``?owner=``, by default its own.

    Raises:
        NotAuthenticated: no user is signed in.
        NotFound: as ``reachable_conversations`` raises it.
        ValidationError: ``?owner=*`` names all owners.
    """
    require(request, *acts)
    if _owner_parameter(request) == EVERYBODY:
        raise invalid("owner", "expected one user's primary key here")
    owner = one_owner(request)
    if owner is None:
        raise NotAuthenticated
    return owner


def one_owner(request: Request) -> Any:
    """Return the one owner that the request is about, or None if it is about all owners or if no user is signed in.

    Raises:
        NotFound: there is no such owner.
    """
    return None if _owner_parameter(request) == EVERYBODY else _owner(request)


def _owner_parameter(request: Request) -> str | None:
    """Return ``?owner=``, or None if it names the request's user."""
    asked = request.query_params.get("owner")
    return None if asked is None or asked == str(getattr(request.user, "pk", None)) else asked


def _owner(request: Request) -> Any:
    asked = _owner_parameter(request)
    if asked is not None:
        return _user(asked)
    return signed_in_user(request)


def signed_in_user(request: Request) -> Any:
    """Return the row of the request's user, or None if no user is signed in.

    Raises:
        NotFound: there is no such row.
    """
    user = request.user
    if not getattr(user, "is_authenticated", False):
        return None
    # request.user may be a stand-in, such as the claims of a token. The row is what it represents.
    return user if isinstance(user, get_user_model()) else _user(user.pk)


def _user(key: Any) -> Any:
    try:
        return get_user_model()._default_manager.get(pk=key)
    except (ObjectDoesNotExist, ValueError, ValidationError, OverflowError) as error:
        raise NotFound("There is no such owner.") from error
