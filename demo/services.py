"""Web, worker and qcluster, under honcho: one child process that starts, logs and ends them."""

import shlex
import subprocess
import sys
from pathlib import Path

from demo import processes

LEASE_SECONDS = 10
GRACE_SECONDS = 3
"""Below honcho's own patience (5 s), so a worker ends by itself."""


def procfile(manage: Path, *, workers: int, concurrency: int, port: int) -> str:
    """The Procfile: name, then command."""
    python, script = shlex.quote(sys.executable), shlex.quote(str(manage))
    lines = [
        f"web: {python} {script} web --listen 127.0.0.1:{port}",
        f"qcluster: {python} {script} qcluster",
    ]
    command = f"{python} {script} worker --concurrency {concurrency} --grace {GRACE_SECONDS}"
    lines += [f"worker{number}: {command}" for number in range(1, workers + 1)]
    return "\n".join(lines) + "\n"


def start(manage: Path, home: Path, *, workers: int, concurrency: int, port: int) -> subprocess.Popen[bytes]:
    """Start them, under a keeper that outlives the demo to end them. Their output goes to `home/services.log`."""
    path = home / "Procfile"
    path.write_text(procfile(manage, workers=workers, concurrency=concurrency, port=port))
    honcho = [sys.executable, "-m", "honcho", "--no-colour", "--procfile", str(path), "--app-root", str(home), "start"]
    return processes.start_kept(
        [sys.executable, "-m", "demo.keeper", *honcho],
        log=home / "services.log",
        folder=manage.parent,
        environment={"BACKUPSCHED_LEASE": str(LEASE_SECONDS), "PYTHONUNBUFFERED": "1"},
    )
