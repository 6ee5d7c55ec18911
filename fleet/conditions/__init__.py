"""Conditions of sources and repositories: upkeep, which is known of their backups, and plans, when they are due."""

from fleet.conditions import plans, upkeep  # noqa: F401 - declare their conditions
