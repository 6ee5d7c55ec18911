"""The database that the workers of pytest-xdist copy. It is migrated once, by a process that works while they collect
their tests: `python -m tests.migrated_database`."""

import fcntl
import gc
import os
import subprocess
import sys
from pathlib import Path
from threading import Thread
from typing import Any

import django
import pytest

from backupsched.embedded import Server

ROOT = Path(__file__).parents[1]
TEMPLATE = "test_migrated"
WITHOUT_ROWS = {"serialize": False} if django.VERSION < (6, 0) else {}
"""Django 6 keeps no copy of the rows unless it is asked for, and warns of the argument."""


class Preparation(Thread):
    """Starts the server of a session, and for one of several workers migrates the database. It holds a lock from the
    beginning to the end."""

    def __init__(self, server: Server, var_dir: Path, *, migrates: bool) -> None:
        super().__init__(name="preparation")
        self.server, self.var_dir, self.migrates = server, var_dir, migrates
        self.lock: Any = lock_file(var_dir).open("w")
        fcntl.flock(self.lock, fcntl.LOCK_EX)

    def run(self) -> None:
        with self.lock:
            self.server.ensure_running()
            if self.migrates:
                subprocess.run([sys.executable, "-m", __name__], cwd=ROOT, check=True)
            done_file(self.var_dir).touch()

    def undo(self) -> None:
        self.join()
        self.server.destroy()


def lock_file(var_dir: Path) -> Path:
    return var_dir / "preparation.lock"


def done_file(var_dir: Path) -> Path:
    return var_dir / "prepared"


def wait_for_it(var_dir: Path) -> None:
    """End the tests if it fails."""
    with lock_file(var_dir).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
    if not done_file(var_dir).exists():
        pytest.exit("the PostgreSQL of these tests could not be started and migrated")


def main() -> None:
    gc.disable()  # what migrations make stays until the end
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    django.setup()
    from django.db import connection

    connection.settings_dict["TEST"]["NAME"] = TEMPLATE
    connection.creation.create_test_db(verbosity=0, autoclobber=True, **WITHOUT_ROWS)


if __name__ == "__main__":
    main()
