"""`python -m proving.chaos --minutes 2`: a storm over real workers and a separate database, then an audit.

The database is the embedded one, which any worker starts again, on a small disk that is full now and then. Progress
goes to standard error, the report to standard output. Exit code 0: the books balance; 1: they do not; 2: bad arguments,
no database or no worker that starts; 130: stopped by Ctrl-C. In any case the processes are ended and the database is
removed; journals and logs are kept only if the books do not balance.
"""

import argparse
import json
import os
import secrets
import signal
import sys
from contextlib import suppress
from pathlib import Path

import django

from backupsched.embedded import EmbeddedDatabaseError
from external.processes.interrupts import deliver_lost_interrupts, interrupt_at_term
from proving.chaos.server import CrashingServer, make_directory, remove_directory
from proving.chaos.small_disk import SmallDisk
from proving.upgrades.checkout import check_out, has

DISCREPANCIES = 1
DISK_MEGABYTES = 1024
MAX_MINUTES = 60
"""The audit holds every record and attempt in memory."""


def main() -> int:
    options = _arguments()
    interrupt_at_term()
    deliver_lost_interrupts()
    directory = make_directory()
    (directory / "disk").mkdir(mode=0o711)
    disk = SmallDisk(directory / "disk", DISK_MEGABYTES)
    can_be_full = disk.mount()
    server = CrashingServer(disk.directory)
    code = 2
    try:
        if not can_be_full:
            sys.stderr.write("the disk is never full in this storm: to mount a small one takes root\n")
        server.ensure_running()
        os.environ.update(
            DJANGO_SETTINGS_MODULE="proving.chaos.settings",
            DATABASE_URL="",
            BACKUPSCHED_VAR=str(disk.directory),
            BACKUPSCHED_LEASE=str(options.lease),
            SECRET_KEY=secrets.token_hex(),
        )
        django.setup()
        wait_for_no_start(server)
        code = _storm(directory, server, options, disk if can_be_full else None)
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
        code = 130
    except EmbeddedDatabaseError as error:
        sys.stderr.write(f"chaos: {error}\n")
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        disk.make_room()
        with suppress(EmbeddedDatabaseError):
            server.destroy()
        disk.unmount()
        if code == DISCREPANCIES:
            sys.stderr.write(f"the journals and logs of the workers are kept in {directory}\n")
        else:
            remove_directory(directory)
    return code


def wait_for_no_start(server: CrashingServer) -> None:
    """Let this process's connections fail while the server is down. A worker that starts the server holds its lock, and
    the storm may stop that worker just then; only the storm can resume it.
    """
    from django.db import connections

    found = connections.databases["default"]
    found["PASSWORD"] = server.password()
    del found["EMBEDDED_IN"]


def _storm(directory: Path, server: CrashingServer, options: argparse.Namespace, disk: SmallDisk | None) -> int:
    from proving.chaos import report
    from proving.chaos.fleet import WorkersDoNotStart
    from proving.chaos.run import StormRun

    try:
        beside = _beside(options.beside, directory)
        found = StormRun(directory, server, options.minutes, options.seed, options.workers, disk, beside).run()
    except WorkersDoNotStart as error:
        sys.stderr.write(f"chaos: {error}\n")
        return 2
    found["seed"] = options.seed
    sys.stdout.write(f"{json.dumps(found, indent=2) if options.json else report.text(found, options.seed)}\n")
    return DISCREPANCIES if found["discrepancies"] else 0


def _beside(commit: str | None, directory: Path) -> Path | None:
    """The folder with the program of a commit, whose workers work on the same backlog."""
    if commit is None:
        return None
    folder = directory / "beside"
    folder.mkdir()
    check_out(commit, folder)
    return folder


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        allow_abbrev=False, prog="python -m proving.chaos", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--minutes", type=float, default=2.0, help="duration of the storm in minutes (2)")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6), help="repeats the same storm")
    parser.add_argument("--workers", type=int, default=3, help="worker processes at a time (3)")
    parser.add_argument("--lease", type=float, default=4.0, help="seconds that a lease lasts (4)")
    parser.add_argument("--beside", metavar="COMMIT", help="half of the workers run this commit, an older version")
    parser.add_argument("--json", action="store_true", help="the report as JSON")
    options = parser.parse_args()
    if not 0 < options.minutes <= MAX_MINUTES:
        parser.error(f"--minutes is a number above 0, at most {MAX_MINUTES}")
    if not 1 <= options.lease <= 60:
        parser.error("--lease is a number of seconds from 1 to 60")
    if not 2 <= options.workers <= 32:
        parser.error("--workers is a number from 2 to 32: one of them is always spared")
    if options.beside is not None and not has(options.beside):
        parser.error(f"--beside: this clone has no commit {options.beside}")
    return options


if __name__ == "__main__":
    sys.exit(main())
