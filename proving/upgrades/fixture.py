"""`python -m proving.upgrades.fixture COMMIT FILE`: a database of that commit with rows of each kind, as a small dump.

The program of that commit migrates an empty database, backs a folder up, and makes a row of each kind (`rows.py`). It
runs with this environment's packages. Prints the entry for `releases.toml`.
"""

import argparse
import gzip
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from backupsched.embedded import Server
from backupsched.embedded.binaries import installed_bin
from proving.upgrades.checkout import check_out

SECRET_KEY = "of the fixtures of releases"  # noqa: S105 - seals what is made up
BACKUP_SECONDS = 120
FLEET = """{
  "repositories": [{"name": "here", "location": "REPOSITORY"}],
  "policies": [{"name": "always", "cron": "* * * * *", "zone": "UTC", "repository": "here"}],
  "sources": [{"name": "papers", "kind": "local", "path": "PAPERS", "policies": ["always"]}]
}"""
LEFT_OUT = ("\\restrict", "\\unrestrict", "SET transaction_timeout")
"""Lines that only newer servers and programs know."""
LEAVES = """
SELECT DISTINCT ON (app) app, name FROM django_migrations
 WHERE app = ANY(%s) ORDER BY app, name DESC"""


class Program:
    """The program in `folder`, on the database at `url`, with `home` for its files."""

    def __init__(self, folder: Path, url: str, home: Path) -> None:
        self.folder = folder
        self.environment = {
            **os.environ, "DATABASE_URL": url, "BACKUPSCHED_VAR": str(home / "var"), "SECRET_KEY": SECRET_KEY,
            "DJANGO_SETTINGS_MODULE": "backupsched.settings", "PYTHONPATH": str(folder),
        }  # fmt: skip

    def run(self, *arguments: str) -> str:
        """Raises: subprocess.CalledProcessError."""
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


def make(commit: str, file: Path) -> str:
    """Write the dump. Returns the entry for `releases.toml`."""
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
            return _make(Program(home / "program", url_of(server), home), server, home, file)
        finally:
            server.destroy()


def url_of(server: Server) -> str:
    socket = str(server.layout.socket_directory).replace("/", "%2F")
    return f"postgresql://backupsched:{server.password()}@{socket}/backupsched"


def _make(program: Program, server: Server, home: Path, file: Path) -> str:
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
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(gzip.compress(text.encode(), mtime=0))
    if empty:
        sys.stderr.write(f"without rows: {', '.join(empty)}\n")
    apps = sorted({path.parent.parent.name for path in program.folder.glob("*/migrations/0*.py")})
    with server.connect("backupsched") as connection:
        leaves = connection.execute(LEAVES, [apps]).fetchall()
    return "\n".join(f'  {app} = "{name}",' for app, name in leaves)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m proving.upgrades.fixture", description=__doc__.split("\n")[0])
    parser.add_argument("commit", help="with the program")
    parser.add_argument("file", type=Path, help="to write, *.sql.gz")
    options = parser.parse_args()
    sys.stdout.write(f"{make(options.commit, options.file.resolve())}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
