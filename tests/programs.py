"""Programs of the system that some tests need and that pip does not bring."""

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

SERVERS = "/usr/local/sbin:/usr/sbin:/sbin"
"""Folders of servers, which the PATH of an account may lack."""


def needed(name: str, package: str) -> str:
    """The path of a program. Without it the test is skipped and names what to install; in `.ci/run` it fails."""
    path = shutil.which(name, path=os.pathsep.join((os.environ["PATH"], SERVERS)))
    return path or _missing(f"{name} is not installed (Debian: apt install {package})")


def postgresql_programs(major: int) -> Path:
    """The folder of the programs of an older PostgreSQL, as `initdb` and `postgres`. Skips and fails as `needed`."""
    for folder in (Path(f"/usr/lib/postgresql/{major}/bin"), Path(f"/usr/pgsql-{major}/bin")):
        if os.access(folder / "initdb", os.X_OK):
            return folder
    return _missing(f"PostgreSQL {major} is not installed (Debian: apt install postgresql-{major})")


def _missing(what: str) -> NoReturn:
    text = f"{what}; `.ci/run` installs it"
    if os.environ.get("EVERY_TEST_RUNS") == "1":
        pytest.fail(text)
    pytest.skip(text)
