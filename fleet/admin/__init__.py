"""Sources, policies and backups in Django's admin. Each module registers its models."""

from fleet.admin import backups, policies, repositories, restores, sources, stored_secrets  # noqa: F401
