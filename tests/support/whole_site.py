"""The site of a server that has imported, before it forks, what its first request would import."""

from django.core.wsgi import get_wsgi_application
from django.urls import get_resolver

application = get_wsgi_application()
get_resolver().url_patterns  # noqa: B018 - imports the addresses and their views
