"""Which engine copies which kind of source."""

from sources.engines.base import Engine
from sources.engines.pg_dump.engine import PgDumpEngine
from sources.engines.rclone.engine import RcloneEngine
from sources.processes.programs import ProgramMissing, find_postgresql_program, find_rclone

_rclone = RcloneEngine()

ENGINES: dict[str, Engine] = {
    "sftp": _rclone,
    "s3": _rclone,
    "webdav": _rclone,
    "local": _rclone,
    "postgresql": PgDumpEngine(),
}
"""Kind of source → its engine."""


def engine_for(kind: str) -> Engine:
    """The engine that copies sources of `kind`. Raises: ValueError naming the known kinds."""
    try:
        return ENGINES[kind]
    except KeyError:
        raise ValueError(f"no engine copies sources of kind {kind!r}; known kinds: {', '.join(ENGINES)}") from None


def missing_program(kind: str) -> str | None:
    """What is not installed here that the engine of `kind` runs, and how to get it; None when all is there.

    Raises: ValueError for an unknown kind.
    """
    try:
        if isinstance(engine_for(kind), PgDumpEngine):
            for name in ("pg_dump", "pg_dumpall", "pg_restore"):
                find_postgresql_program(name)
        else:
            find_rclone()
    except ProgramMissing as error:
        return str(error)
    return None
