import os
import socket
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db.utils import Error

from backupsched.management.commands.web import cannot_listen, check_port
from backupsched.places import own_command
from declarations.surfaces.commands.base import unanswered
from external.durations import duration
from external.processes import supervision
from external.processes.supervision import SupervisedProcess
from jobs.management.commands.worker import is_migrated


class Command(BaseCommand):
    help = (
        "Run the whole scheduler on this host: web pages, workers and periodic tasks. A process that dies is started "
        "again; Ctrl-C or SIGTERM ends all cleanly. The database has to be migrated; the periodic tasks are installed. "
        "Exit codes: 0, 2 when it cannot start."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--listen", default="127.0.0.1:8000", metavar="HOST:PORT", help="of the pages (default: %(default)s)"
        )
        parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes (default: %(default)s)")
        parser.add_argument("--concurrency", type=int, default=None, metavar="N", help="execution units of each worker")
        parser.add_argument(
            "--grace", type=duration(), default=30.0, metavar="DURATION", help="for running records at the end (30 s)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        workers, concurrency = options["workers"], options["concurrency"]
        if workers < 1:
            raise CommandError("--workers: at least 1, or nothing would be backed up", returncode=2)
        if concurrency is not None and concurrency < 1:
            raise CommandError("--concurrency: at least 1, or nothing would be backed up", returncode=2)
        _check_listen(options["listen"])
        try:
            is_migrated()
            call_command("qcluster", "install", stdout=open(os.devnull, "w"))  # noqa: SIM115
        except Error as error:
            raise unanswered(error, "nothing was started: ") from error
        units = () if concurrency is None else ("--concurrency", str(concurrency))
        worker = ("worker", *units, "--grace", f"{options['grace']:g}s")
        processes = [
            SupervisedProcess("web", ("web", "--listen", options["listen"])),
            SupervisedProcess("qcluster", ("qcluster",)),
            *(SupervisedProcess(f"worker{number}", worker, options["grace"]) for number in range(1, workers + 1)),
        ]
        try:
            supervision.become(supervision.command(processes, settings.VAR_DIR / "run", own_command()), os.environ)
        except OSError as error:
            raise CommandError(f"nothing was started: {error}", returncode=2) from error


def _check_listen(listen: str) -> None:
    """Check the address. Raises: CommandError naming the program that listens there; the web process would retry for
    ever."""
    host, _, port = listen.rpartition(":")
    if not port.isdecimal():
        raise CommandError(f"--listen {listen}: HOST:PORT, such as 127.0.0.1:8000", returncode=2)
    check_port(listen)
    stream, passive = socket.SOCK_STREAM, socket.AI_PASSIVE
    try:
        found = socket.getaddrinfo(host.strip("[]") or None, int(port), type=stream, flags=passive)
        family, kind, protocol, _, address = found[0]
        with socket.socket(family, kind, protocol) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(address)
            trial.listen()
    except (OSError, UnicodeError) as error:  # not the name of a host
        raise CommandError(cannot_listen(listen, error), returncode=2) from error
