"""Conditions of sources and repositories: upkeep, which is known of their backups, plans, when they are due, and reach,
where they lead."""

from fleet.conditions import plans, reach, upkeep  # noqa: F401 - declare their conditions
