"""Conditions of sources and repositories: upkeep, the state of their backups, plans, when they are due, and reach, the
addresses that they lead to.
"""

from fleet.conditions import plans, reach, upkeep  # noqa: F401 - declare their conditions
