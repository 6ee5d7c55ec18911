"""Programs of the system that some tests need and that pip does not bring.

Tests find in PATH what a bare machine has, `.ci/bare-programs`, and nothing else. So one that reaches for more and does
not say so fails on every machine. It says so by `needed`, for a program that it starts itself, or by the mark `needs`,
for one that the product looks for in PATH. Where the program is not installed, both skip the test.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from glob import glob
from pathlib import Path
from typing import Any, NoReturn

import pytest

CI = Path(__file__).parents[1] / ".ci"
WHOLE_PATH = "BACKUPSCHED_TEST_PATH"
"""The variable with the PATH of who runs the tests, and the folders of servers, which that may lack."""
SERVERS = ("/usr/local/sbin", "/usr/sbin", "/sbin", *glob("/usr/lib/postgresql/*/bin"), *glob("/usr/pgsql-*/bin"))
INSTALLED_BY = "`.ci/run` installs it"

needs_restic = pytest.mark.needs("restic", "restic")
needs_mariadb_client = pytest.mark.needs("mariadb-client", "mariadb", "mariadb-dump")
needs_mariadb_server = pytest.mark.needs("mariadb-server-core", "mariadbd", "mariadb-install-db")


def names_in(file: str) -> list[str]:
    """The lines of a list in `.ci`, without comments."""
    return [line for line in (CI / file).read_text().splitlines() if not line.startswith("#")]


def needed(name: str, package: str) -> str:
    """The path of a program. Without it the test is skipped and names what to install; in `.ci/run` it fails.

    `package`: Debian's, one of `.ci/packages`.
    """
    assert os.sep not in name, "a path is not hidden from a test: give the name"
    if package not in names_in("packages"):
        pytest.fail(f"add {package} to .ci/packages: a test needs its program {name}")
    return _installed(name) or _missing(f"{name} is not installed (Debian: apt install {package})")


def postgresql_programs(major: int) -> Path:
    """The folder of the programs of an older PostgreSQL, as `initdb` and `postgres`. Skips and fails as `needed`."""
    for folder in map(Path, os.environ[WHOLE_PATH].split(os.pathsep)):
        if folder.parent.name in (str(major), f"pgsql-{major}") and os.access(folder / "initdb", os.X_OK):
            return folder
    return _missing(f"PostgreSQL {major} is not installed (Debian: apt install postgresql-{major})")


def _installed(name: str) -> str | None:
    return shutil.which(name, path=os.environ[WHOLE_PATH])


def _missing(what: str) -> NoReturn:
    text = f"{what}; {INSTALLED_BY}"
    if os.environ.get("EVERY_TEST_RUNS") == "1":
        pytest.fail(text)
    pytest.skip(text)


def hide_programs(var: Path) -> None:
    """Leave in the PATH of this process, and of all that it starts, what a bare machine has: links in a folder."""
    if WHOLE_PATH in os.environ:
        return
    os.environ[WHOLE_PATH] = os.pathsep.join((os.environ["PATH"], *SERVERS))
    folder = var / "programs"
    folder.mkdir()
    for name in names_in("bare-programs"):
        if found := _installed(name):
            (folder / name).symlink_to(found)
    # a link to Python would look for its library beside the link
    python = folder / "python3"
    python.unlink(missing_ok=True)
    python.write_text(f'#!/bin/sh\nexec {sys._base_executable} "$@"\n')  # type: ignore[attr-defined]
    python.chmod(0o755)
    os.environ["PATH"] = str(folder)


def _wanted(item: pytest.Item) -> dict[str, str]:
    """Program → Debian package."""
    marks = [mark.args for mark in item.iter_markers("needs")]
    return {name: package for package, *names in marks for name in names}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """While a test runs, with its fixtures, PATH has also the programs that it needs."""
    bare, var = os.environ["PATH"], Path(os.environ["BACKUPSCHED_TEST_VAR"])
    for name in _wanted(item):
        if found := _installed(name):
            (folder := var / f"needed-{name}").mkdir(exist_ok=True)
            with suppress(FileExistsError):  # another process of this run was first
                (folder / name).symlink_to(found)
            os.environ["PATH"] += f"{os.pathsep}{folder}"
    try:
        return (yield)
    finally:
        os.environ["PATH"] = bare


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    for name, package in _wanted(item).items():
        needed(name, package)


def pytest_runtest_logreport(report: Any) -> None:
    """Append each test that was skipped for a program to the file SKIPPED_TO, for `pytest @file` where it is there."""
    file = os.environ.get("SKIPPED_TO")
    if file and report.skipped and INSTALLED_BY in str(report.longrepr) and "PYTEST_XDIST_WORKER" not in os.environ:
        with open(file, "a") as skipped:
            skipped.write(f"{report.nodeid}\n")
