"""Web, worker and qcluster, under honcho: one child process that starts, logs and ends them."""

import shlex
import subprocess
import sys
from pathlib import Path

from django.conf import settings

from demo import processes

LEASE_SECONDS = 10
GRACE_SECONDS = 3
"""Below honcho's own patience (5 s), so a worker ends by itself."""


def procfile(*, workers: int, concurrency: int, port: int) -> str:
    """The Procfile: name, then command."""
    program = f"{shlex.quote(sys.executable)} -m backupsched"
    lines = [
        f"web: {program} web --listen 127.0.0.1:{port}",
        f"qcluster: {program} qcluster",
    ]
    command = f"{program} worker --concurrency {concurrency} --grace {GRACE_SECONDS}"
    lines += [f"worker{number}: {command}" for number in range(1, workers + 1)]
    return "\n".join(lines) + "\n"


def start(home: Path, *, workers: int, concurrency: int, port: int) -> subprocess.Popen[bytes]:
    """Start them, under a keeper that outlives the demo to end them. Their output goes to `home/services.log`."""
    path = home / "Procfile"
    path.write_text(procfile(workers=workers, concurrency=concurrency, port=port))
    honcho = [sys.executable, "-m", "honcho", "--no-colour", "--procfile", str(path), "--app-root", str(home), "start"]
    return processes.start_kept(
        [sys.executable, "-m", "demo.keeper", *honcho],
        log=home / "services.log",
        folder=settings.BASE_DIR,
        environment={"BACKUPSCHED_LEASE": str(LEASE_SECONDS), "PYTHONUNBUFFERED": "1"},
    )
