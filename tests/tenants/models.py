"""The tenants of django-tenants: each has a schema of PostgreSQL, and a domain by which requests find it."""

from __future__ import annotations

from django_tenants.models import DomainMixin, TenantMixin


class Client(TenantMixin):
    """A tenant."""


class Domain(DomainMixin):
    """The domain of a tenant."""
