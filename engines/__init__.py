"""The engine of each kind of source.

An engine is loaded when it is first needed: each backup has a separate process, and loading all engines takes a quarter
of its start.
"""

from functools import cache
from importlib import import_module
from typing import Any

from engines.engine import Engine
from external.processes.programs import ProgramMissing
from storage.places.location import RCLONE, RESTIC

_RCLONE = "rclone.engine:RcloneEngine"

ENGINES = {
    "sftp": _RCLONE,
    "s3": _RCLONE,
    "webdav": _RCLONE,
    "local": _RCLONE,
    "rclone": _RCLONE,
    "postgresql": "postgresql.engine:PgDumpEngine",
    "mariadb": "mariadb.engine:MariadbDumpEngine",
    "sqlite": "sqlite.engine:SqliteEngine",
    "imap": "imap.engine:ImapEngine",
}
"""Kind of source → its engine, a class in this folder."""


def engine_for(kind: str, format: str = RCLONE) -> Engine:
    """The engine that copies sources of `kind` into a repository of `format`. Raises: ValueError naming the known
    kinds."""
    try:
        place = ENGINES[kind]
    except KeyError:
        raise ValueError(f"no engine copies sources of kind {kind!r}; known kinds: {', '.join(ENGINES)}") from None
    engine: Engine = _loaded(place)()
    return _loaded("restic.engine:ResticEngine")(engine) if format == RESTIC else engine


@cache
def _loaded(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(f"{__name__}.{module}"), name)


def missing_program(kind: str) -> str | None:
    """The program that a backup of `kind` runs and that is not installed here, and how to get it; None if nothing is
    missing.

    Raises: ValueError for an unknown kind.
    """
    try:
        engine_for(kind).find_programs()
    except ProgramMissing as error:
        return str(error)
    return None
