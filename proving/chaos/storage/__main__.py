"""`python -m proving.chaos.storage --kind remote`: kills workers that back up, copy and remove, then restores points.

The report goes to standard output. Exit code 0: each point was restored as it was; 1: there are problems; 2: bad
arguments; 130: stopped by Ctrl-C. In any case the processes are ended; the repositories are kept only if there are
problems. As root, they are stored on a small disk that is full now and then.
"""

import argparse
import json
import os
import secrets
import shutil
import signal
import sys
import tempfile
from typing import Any

import django

from external.processes.interrupts import deliver_lost_interrupts, interrupt_at_term
from proving.chaos.server import make_directory, remove_directory
from proving.chaos.small_disk import SmallDisk
from proving.chaos.storage.site import KINDS, StorageSite

PROBLEMS = 1
DISK_MEGABYTES = 1024
MAX_SECONDS = 600


def main() -> int:
    options = _arguments()
    interrupt_at_term()
    deliver_lost_interrupts()
    site = StorageSite(options.kind, make_directory())
    site.disk.mkdir()
    scratch = site.directory / "tmp"
    scratch.mkdir()
    disk = SmallDisk(site.disk, DISK_MEGABYTES)
    can_be_full = disk.mount()
    os.environ.update(
        DJANGO_SETTINGS_MODULE="proving.chaos.settings",
        DATABASE_URL="",
        BACKUPSCHED_VAR=str(site.directory),
        SECRET_KEY=secrets.token_hex(),
        TMPDIR=str(scratch),
    )
    tempfile.tempdir = None  # killed processes leave their scratch files there
    code = 130
    try:
        django.setup()
        from proving.chaos.storage.storm import StorageStorm

        found = StorageStorm(site, options.seed, disk if can_be_full else None).run(options.seconds)
        report = {"seed": options.seed} | found
        sys.stdout.write(f"{json.dumps(report, indent=2) if options.json else _text(report)}\n")
        code = PROBLEMS if report["problems"] else 0
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        if can_be_full:
            if code == PROBLEMS:
                shutil.copytree(site.disk, site.directory / "disk-as-it-was", symlinks=True)
            disk.unmount()
        if code == PROBLEMS:
            sys.stderr.write(f"the repositories and logs are kept in {site.directory}\n")
        else:
            remove_directory(site.directory)
    return code


def _text(report: dict[str, Any]) -> str:
    def listed(counts: dict[str, int]) -> str:
        return ", ".join(f"{count} {what}" for what, count in counts.items()) or "nothing"

    lines = [
        f"storm      {report['kind']}, seed {report['seed']}",
        f"done to it {listed(report['deeds'])}",
        f"answers    {listed(report['answers'])}",
        f"points     {report['points']} at the end; {report['verified']} restores of points, each as it was",
        *(f"PROBLEM    {each}" for each in report["problems"]),
        f"{len(report['problems'])} problems",
    ]
    return "\n".join(lines)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        allow_abbrev=False, prog="python -m proving.chaos.storage", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--kind", choices=KINDS, default="remote", help="kind of the repositories (remote)")
    parser.add_argument("--seconds", type=float, default=60.0, help="duration of the storm in seconds (60)")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6), help="repeats the same storm")
    parser.add_argument("--json", action="store_true", help="the report as JSON")
    options = parser.parse_args()
    if not 0 < options.seconds <= MAX_SECONDS:
        parser.error(f"--seconds is a number above 0, at most {MAX_SECONDS}")
    return options


if __name__ == "__main__":
    sys.exit(main())
