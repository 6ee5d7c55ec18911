"""Sources, policies and backups in Django's admin. Each module registers its own."""

from fleet.admin import backups, policies, repositories, restores, sources, stored_secrets  # noqa: F401
