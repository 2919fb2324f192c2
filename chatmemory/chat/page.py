"""The facts about a page that the scripts of all tags need."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest
from django.shortcuts import resolve_url
from django.urls import NoReverseMatch, Resolver404, resolve, reverse
from django.utils.translation import get_language


def request_of(context: Any, tag: str) -> HttpRequest:
    """Return the request for which the page is made.

    Raises:
        ImproperlyConfigured: the templates of the project do not get it.
    """
    request: HttpRequest | None = context.get("request")
    if request is None:
        raise ImproperlyConfigured(
            f"{tag} needs the request: add django.template.context_processors.request to the "
            "context_processors of TEMPLATES, and render the template with the request."
        )
    return request


def api_address(tag: str, view: str, *args: Any) -> str:
    """Return the address of a view of the REST API.

    Raises:
        ImproperlyConfigured: the project does not have the API.
    """
    try:
        return reverse(f"chatmemory:{view}", args=args)
    except NoReverseMatch as error:
        raise ImproperlyConfigured(
            f"{tag} needs the REST API of this app: add "
            'path("api/", include("chatmemory.urls")) to the urlpatterns of the project.'
        ) from error


def page_context() -> dict[str, Any]:
    """Return the context that all tags have: the names of the CSRF token, the address to sign in, and the language."""
    return {
        "csrf_cookie": settings.CSRF_COOKIE_NAME,
        "csrf_header": settings.CSRF_HEADER_NAME.removeprefix("HTTP_").replace("_", "-"),
        "sign_in": _sign_in(),
        "language": get_language() or settings.LANGUAGE_CODE,
    }


def _sign_in() -> str:
    """Return the address of the page where one signs in; empty if the project has none at ``LOGIN_URL``."""
    try:
        address = resolve_url(settings.LOGIN_URL)
        if not urlsplit(address).netloc:
            resolve(urlsplit(address).path)
    except (NoReverseMatch, Resolver404):
        return ""
    return address
