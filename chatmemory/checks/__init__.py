"""The system checks. Each error says how to correct it."""

from chatmemory.checks.settings import check_apps, check_databases, check_settings

__all__ = ["check_apps", "check_databases", "check_settings"]
