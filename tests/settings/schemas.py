"""The settings behind a real server of a project with django-tenants."""

from tests.settings.turns import *  # noqa: F403

SHARED_APPS = ["django_tenants", "tests.tenants", "django.contrib.contenttypes", "django.contrib.auth"]
TENANT_APPS = INSTALLED_APPS  # noqa: F405
INSTALLED_APPS = [*SHARED_APPS, *(app for app in TENANT_APPS if app not in SHARED_APPS)]
TENANT_MODEL = "tenants.Client"
TENANT_DOMAIN_MODEL = "tenants.Domain"
DATABASES["default"]["ENGINE"] = "django_tenants.postgresql_backend"  # noqa: F405
DATABASE_ROUTERS = ["django_tenants.routers.TenantSyncRouter"]
MIDDLEWARE = ["django_tenants.middleware.main.TenantMainMiddleware", *MIDDLEWARE]  # noqa: F405
PUBLIC_SCHEMA_URLCONF = ROOT_URLCONF  # noqa: F405
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
ALLOWED_HOSTS = ["*"]
CHATMEMORY = {
    "USERS": "all",
    "ASSISTANT": "tests.tenants.assistant.assistant",
    "THREAD_CONTEXT": "tests.tenants.schemas.thread_context",
}
