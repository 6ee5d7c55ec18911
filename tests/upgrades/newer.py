"""A database of a test's own, and programs of a newer version: this one with more migrations of the audit."""

import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.copied_database import copy_tables
from tests.jobs.worker_processes import Programs, database_url

SETTINGS = """
from backupsched.settings import *
MIGRATION_MODULES = {{"audit": "{package}.migrations"}}
"""
OF_AUDIT = 'from importlib import import_module\nMigration = import_module("audit.migrations.{}").Migration\n'
HERE = {
    each.stem: OF_AUDIT.format(each.stem)
    for each in sorted((Path(__file__).parents[2] / "audit/migrations").glob("0*.py"))
}
"""The migrations of this version, by name: the text of a module."""
EXPANDS = f"""
from django.db import migrations
class Migration(migrations.Migration):
    dependencies = [("audit", "{max(HERE)}")]
    operations = [migrations.RunSQL("ALTER TABLE audit_entry ADD COLUMN more integer")]
"""
CONTRACTS = """
from django.db import migrations
class Migration(migrations.Migration):
    contracts_after = ("audit", "9001_more")
    dependencies = [("audit", "9001_more")]
    operations = [migrations.RunSQL("ALTER TABLE audit_entry DROP COLUMN more")]
"""
NEWER = {**HERE, "9001_more": EXPANDS}
NEWEST = {**NEWER, "9002_less": CONTRACTS}


class Installation(Programs):
    """Programs of several versions on one database, at `url`."""

    def __init__(self, directory: Path, url: str) -> None:
        super().__init__(directory)
        self.url = url

    def start(
        self, *arguments: str, migrations: dict[str, str] | None = None, **environment: str
    ) -> "subprocess.Popen[bytes]":
        """`manage.py` with these arguments: of this version, or with these migrations of the audit. Returns the
        process."""
        version = {} if migrations is None else version_with(migrations, self.directory)
        return self.run("-W", "ignore", "manage.py", *arguments, DATABASE_URL=self.url, **version, **environment)

    def end_of(self, *arguments: str, migrations: dict[str, str] | None = None, **environment: str) -> tuple[int, str]:
        """Exit code and output of the same, once it has ended."""
        code = self.start(*arguments, migrations=migrations, **environment).wait()
        return code, self.log(len(self.started) - 1)

    def ends_of(
        self, *commands: tuple[str, ...], migrations: dict[str, str] | None = None
    ) -> list[tuple[tuple[str, ...], int, str]]:
        """Each command with its exit code and output, of all at the same time."""
        first = len(self.started)
        processes = [self.start(*command, migrations=migrations) for command in commands]
        codes = [process.wait() for process in processes]
        return [(command, codes[n], self.log(first + n)) for n, command in enumerate(commands)]


def version_with(migrations: dict[str, str], directory: Path) -> dict[str, str]:
    """The environment of a program with these migrations of the audit, which are written into `directory`."""
    package = f"version{len(migrations)}"
    folder = directory / package / "migrations"
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in {
        folder.parent / "__init__.py": "",
        folder.parent / "settings.py": SETTINGS.format(package=package),
        folder / "__init__.py": "",
        **{folder / f"{name}.py": text for name, text in migrations.items()},
    }.items():
        path.write_text(text)
    root = Path(__file__).parents[2]
    return {"DJANGO_SETTINGS_MODULE": f"{package}.settings", "PYTHONPATH": f"{root}:{directory}"}


@pytest.fixture
def empty_url(transactional_db: None) -> Iterator[str]:
    """A new database on the test's server."""
    server, _, _ = database_url().rpartition("/")
    name = f"test_upgrade_{secrets.token_hex(4)}"
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield f"{server}/{name}"
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def empty_installation(tmp_path: Path, empty_url: str) -> Iterator[Installation]:
    """A database of a test's own without tables, and its programs."""
    installation = Installation(tmp_path, empty_url)
    yield installation
    installation.end()


@pytest.fixture
def installation(empty_installation: Installation) -> Installation:
    """The same, migrated."""
    copy_tables(empty_installation.url)
    return empty_installation
