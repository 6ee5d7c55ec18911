"""What pg_dump and pg_dumpall are given. Pure.

Everything about the connection goes through libpq's environment: as an argument, a database name with an equals sign
would be read as a connection string.
"""

from pathlib import Path

from sources.engines.base import SourceSpec
from sources.engines.cleartext import libpq_parameters


def dump_arguments(file: Path, source: SourceSpec) -> tuple[str, ...]:
    """pg_dump's arguments: custom format, compressed, flushed to disk, never a question.

    How it may prove itself stands here and not in the environment, where a libpq that is too old would overlook it.
    """
    return ("--format=custom", "--no-password", f"--file={file}", *_proof(source))


def globals_arguments(file: Path, source: SourceSpec, *, passwords: bool) -> tuple[str, ...]:
    """pg_dumpall's arguments: roles and tablespaces of the server, looked up in the database of the source."""
    left_out = () if passwords else ("--no-role-passwords",)
    database = f"--database={_conninfo(dbname=source.path)}"
    return ("--globals-only", "--no-password", f"--file={file}", database, *left_out, *_proof(source))


def _proof(source: SourceSpec) -> tuple[str, ...]:
    given = _conninfo(**libpq_parameters(source.secret, source.options))
    return (f"--dbname={given}",)


def _conninfo(**parameters: str) -> str:
    # every look at a repository starts a process that imports this module: psycopg would cost it three quarters of that
    from psycopg.conninfo import make_conninfo

    return make_conninfo(**parameters)


def connection_environment(source: SourceSpec, connect_timeout: float) -> dict[str, str]:
    """libpq's environment for `source`. `connect_timeout` in seconds; libpq knows whole ones, from 2 on."""
    environment = {
        "PGHOST": source.address,
        "PGPORT": str(source.port or 5432),
        "PGDATABASE": source.path,
        "PGCONNECT_TIMEOUT": str(max(2, round(connect_timeout))),
        "PGAPPNAME": "backup",
    }
    if user := source.options.get("user"):
        environment["PGUSER"] = str(user)
    if source.secret:
        environment["PGPASSWORD"] = source.secret
    return environment
