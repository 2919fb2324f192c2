"""Projects with tenants: the app of the tenants of django-tenants, and the tests."""
