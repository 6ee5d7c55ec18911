"""`python -m proving.upgrades.fixture VERSION`: makes a small dump of a release's database with rows of each kind.

The program of the released commit migrates an empty database, backs a folder up, and makes a row of each kind
(`rows.py`). It runs with this environment's packages. The release is entered in `releases.toml` once its dump exists.

Exit codes: 0; 1 if that program failed; 2 for a commit that is not ready to be released.
"""

import argparse
import gzip
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

from backupsched.embedded import Server
from backupsched.embedded.binaries import installed_bin
from proving.upgrades import releases
from proving.upgrades.checkout import check_out, commit_named, text_of
from proving.upgrades.releases import ROOT, Release

SECRET_KEY = "of the fixtures of releases"  # noqa: S105 - seals what is made up
BACKUP_SECONDS = 120
FLEET = """{
  "repositories": [{"name": "here", "location": "REPOSITORY"}],
  "policies": [{"name": "always", "cron": "* * * * *", "zone": "UTC", "repository": "here"}],
  "sources": [{"name": "papers", "kind": "local", "path": "PAPERS", "policies": ["always"]}]
}"""
LEFT_OUT = ("\\restrict", "\\unrestrict", "SET transaction_timeout")
"""Beginnings of lines that only newer servers and programs understand."""
LEAVES = """
SELECT DISTINCT ON (app) app, name FROM django_migrations
 WHERE app = ANY(%s) ORDER BY app, name DESC"""


class ReleasedProgram:
    """The program in `folder`, on the database at `url`, with `home` for its files."""

    def __init__(self, folder: Path, url: str, home: Path) -> None:
        self.folder = folder
        self.environment = {
            **os.environ, "DATABASE_URL": url, "BACKUPSCHED_VAR": str(home / "var"), "SECRET_KEY": SECRET_KEY,
            "DJANGO_SETTINGS_MODULE": "backupsched.settings", "PYTHONPATH": str(folder),
        }  # fmt: skip

    def run(self, *arguments: str) -> str:
        """Run a command of the program. Returns its output. Raises: subprocess.CalledProcessError."""
        done = subprocess.run(
            [sys.executable, *arguments], cwd=self.folder, env=self.environment, check=True, stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        return done.stdout

    def back_up(self) -> None:
        """Run a worker until its first backup is there. Raises: TimeoutError."""
        command, ends = [sys.executable, "manage.py", "worker", "--grace", "5"], time.monotonic() + BACKUP_SECONDS
        with subprocess.Popen(command, cwd=self.folder, env=self.environment) as worker:
            try:
                made = "from sources.models import Backup; print(Backup.objects.count())"
                while self.run("manage.py", "shell", "-c", made).split()[-1] == "0":
                    if time.monotonic() > ends:
                        raise TimeoutError(f"no backup within {BACKUP_SECONDS} s")
            finally:
                worker.terminate()


class UnreadyCommit(Exception):
    """The commit cannot be released as this version."""


def look_at(commit: str, version: str) -> str:
    """The hash of a commit whose files name `version`. Raises: UnreadyCommit."""
    if version in {each.version for each in releases.read(releases.FILE).releases}:
        raise UnreadyCommit(f"releases.toml has {version} already")
    try:
        named = str(tomllib.loads(text_of(commit, "pyproject.toml"))["project"]["version"])
        changes = re.findall(r"^## .*$", text_of(commit, "CHANGELOG.md"), re.MULTILINE)
        found = commit_named(commit)
    except subprocess.CalledProcessError as error:
        raise UnreadyCommit(f"{commit}: {error.stderr.strip()}") from error
    if named != version:
        raise UnreadyCommit(f"{commit} is version {named} by its pyproject.toml: write {version} there, and commit it")
    newest = changes[0] if changes else "nothing"
    if not re.match(rf"## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)", newest):
        raise UnreadyCommit(
            f"{commit}: write `## {version} (the date)` in place of `{newest}` in CHANGELOG.md, and commit it"
        )
    return found


def make(commit: str, version: str) -> Release:
    """Write the dump of a release. Raises: TimeoutError, subprocess.CalledProcessError."""
    file = ROOT / f"proving/upgrades/{version}.sql.gz"
    with tempfile.TemporaryDirectory(prefix="backupsched-release-") as made:
        home = Path(made)
        home.chmod(0o711)
        for name in ("program", "papers"):
            (home / name).mkdir()
        (home / "papers/letter").write_text("precious")
        check_out(commit, home / "program")
        server = Server(home / "server")
        server.ensure_running()
        try:
            leaves = _make(ReleasedProgram(home / "program", url_of(server), home), server, home, file)
        finally:
            server.destroy()
    return Release(version, commit, file, leaves)


def url_of(server: Server) -> str:
    socket = str(server.layout.socket_directory).replace("/", "%2F")
    return f"postgresql://backupsched:{server.password()}@{socket}/backupsched"


def _make(program: ReleasedProgram, server: Server, home: Path, file: Path) -> dict[str, str]:
    program.run("manage.py", "migrate", "--verbosity", "0")
    (home / "fleet.json").write_text(
        FLEET.replace("REPOSITORY", str(home / "repository")).replace("PAPERS", str(home / "papers"))
    )
    program.run("manage.py", "apply", str(home / "fleet.json"))
    program.back_up()
    empty = program.run(str(Path(__file__).with_name("rows.py"))).split()
    dump = [str(installed_bin() / "pg_dump"), "--no-owner", "--no-privileges", url_of(server)]
    lines = subprocess.run(dump, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines(keepends=True)
    text = "".join(line for line in lines if not line.startswith(LEFT_OUT)).replace(str(home), "/tmp/of-the-release")  # noqa: S108
    file.write_bytes(gzip.compress(text.encode(), mtime=0))
    if empty:
        sys.stderr.write(f"without rows: {', '.join(empty)}\n")
    apps = sorted({path.parent.parent.name for path in program.folder.glob("*/migrations/0*.py")})
    with server.connect("backupsched") as connection:
        return dict(connection.execute(LEAVES, [apps]).fetchall())


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m proving.upgrades.fixture", description=__doc__.split("\n")[0])
    parser.add_argument("version", help="the version to release, such as 0.1.0")
    parser.add_argument("--commit", default="HEAD", help="the commit to release (HEAD)")
    options = parser.parse_args(arguments)
    try:
        release = make(look_at(options.commit, options.version), options.version)
    except UnreadyCommit as why:
        sys.stderr.write(f"Error: {why}\n")
        return 2
    except (TimeoutError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"Error: {error}\n")
        return 1
    with releases.FILE.open("a") as file:
        file.write(f"\n{releases.entry(release)}")
    sys.stdout.write(f"commit both: {release.database.relative_to(ROOT)}, and the release in {releases.FILE.name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
