"""Conditions of sources and repositories.

plans         when backups are due
reach         the addresses that sources and repositories lead to
repositories  the state of repositories, and of what is done to their contents
"""

from fleet.conditions import plans, reach, repositories  # noqa: F401 - declare their conditions
