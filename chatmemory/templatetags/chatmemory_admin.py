"""Template tags for this app's pages in the admin."""

from __future__ import annotations

import re
from typing import Any

import django
from django import template
from django.forms import BaseForm, Media
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import conditional_escape, format_html_join
from django.utils.safestring import SafeString, mark_safe

from chatmemory.models import Message

register = template.Library()

# The words before the end of the list: <li>Words</li></ol> or &rsaquo; Words</div>.
_LAST_CRUMB = re.compile(r"[^<>;]+(?=(?:</li>\s*)?</(?:ol|div)>\s*$)")


@register.inclusion_tag("admin/chatmemory/dashboard.html", takes_context=True)
def chatmemory_dashboard(context: Any) -> dict[str, Any]:
    """Draw the dashboard of the conversations that this admin site shows; nothing for staff who may not see them."""
    # Not above: Django imports this module wherever it has templates, and these register models with the admin.
    from chatmemory.admin.display.dashboard import PERIODS, Dashboard, Period
    from chatmemory.admin.lists import conversation_admin

    request = context["request"]
    site = getattr(request.resolver_match.func, "admin_site", None)
    conversations = conversation_admin(site) if site is not None else None
    if site is None or conversations is None or not conversations.has_view_permission(request):
        return {"dashboard": None}
    period = Period.asked_for(request.GET)
    found = conversations.get_queryset(request)
    dashboard = Dashboard.read(found, period, list_address=_messages_address(site, request))
    first, last = (period.name_of(dashboard.steps[place].start) for place in (0, -1))
    return {"dashboard": dashboard, "periods": PERIODS, "first": first, "last": last}


@register.simple_tag(takes_context=True)
def chatmemory_media(context: Any, media: Media | None = None) -> str:
    """Draw the links to the admin's style sheet of forms and to ``media``; without it, to that of this app.

    They bear the nonce of the page's content security policy, where Django has one for them: from Django 6.1 on.
    """
    from chatmemory.admin.lists import SCRIPTS, STYLES

    drawn = Media(css={"all": ["admin/css/forms.css"]}) + (media or Media(css=STYLES, js=SCRIPTS))
    nonce = context.get("csp_nonce")
    if nonce is None or django.VERSION < (6, 1):
        return drawn.render()
    rendered: str = drawn.render(attrs={"nonce": nonce})
    return rendered


@register.simple_block_tag
def breadcrumbs_to(content: str, title: Any) -> SafeString:
    """Draw Django's own breadcrumbs, ``content``, with ``title`` as their last."""
    return mark_safe(_LAST_CRUMB.sub(lambda _: f" {conditional_escape(title)}", content, count=1))


@register.simple_tag
def hidden_fields(form: BaseForm) -> SafeString:
    """Draw the values of a form once more, unseen, and without the ids, which its visible fields have."""
    return format_html_join("", "{}", ((field.as_hidden(attrs={"id": False}),) for field in form))


def _messages_address(site: Any, request: HttpRequest) -> str | None:
    if not site.is_registered(Message) or not site.get_model_admin(Message).has_view_permission(request):
        return None
    return reverse("admin:chatmemory_message_changelist", current_app=site.name)
