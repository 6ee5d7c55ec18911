import errno
import logging
import os
import signal
import sys
import time
from argparse import ArgumentParser
from threading import Event, Thread
from typing import Any

import waitress
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import Error, connection
from django.db.backends.signals import connection_created

from backupsched.embedded.binaries import installed_bin
from declarations.surfaces.patience import PAGE_SECONDS
from jobs import conf
from jobs.conf import PROGRAM
from jobs.management.commands.worker import is_migrated
from jobs.worker import upgrades
from operations.ports import free_port, listener_on

log = logging.getLogger(__name__)

CONNECTIONS = 1000
"""A slow one costs a socket and no thread: whole requests are read before one of the threads is spent."""
LONGEST_BODY_BYTES = 16 << 20
SILENCE_SECONDS = 60
LOCK_SECONDS = PAGE_SECONDS
LAST_PORT = 65_535


class Command(BaseCommand):
    help = (
        "Serve the web pages and the API. It does no TLS: put a proxy in front of it for anything beyond this host, "
        "and name the proxy's address in BACKUPSCHED_PROXY."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--listen", default="127.0.0.1:8000", metavar="HOST:PORT", help="default: %(default)s")
        parser.add_argument("--threads", type=int, default=8, help="requests worked on at once (default: %(default)s)")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["threads"] < 1:
            raise CommandError("--threads: at least 1, or requests would be accepted and none answered", returncode=2)
        from backupsched.wsgi import application

        check_port(options["listen"])
        if "EMBEDDED_IN" in settings.DATABASES["default"]:
            installed_bin()  # else each page would fail
        watch, is_outdated = upgrades.UpgradeWatch("this web process"), Event()
        _refuse_other_tables(watch)
        limit_lock_waits()
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        try:
            server = waitress.create_server(
                application,
                listen=options["listen"],
                threads=options["threads"],
                connection_limit=CONNECTIONS,
                asyncore_use_poll=True,
                channel_timeout=SILENCE_SECONDS,
                max_request_body_size=LONGEST_BODY_BYTES,
                ident="",
                **behind_proxy(settings.PROXY),
            )
        except (OSError, ValueError) as error:
            raise CommandError(cannot_listen(options["listen"], error), returncode=2) from error
        self.stdout.write(f"http://{options['listen']}/")
        Thread(target=_end_when_outdated, args=(watch, is_outdated), name="upgrades", daemon=True).start()
        server.run()
        if is_outdated.is_set():
            raise CommandError(upgrades.OUTDATED, returncode=2)


def _end_when_outdated(watch: upgrades.UpgradeWatch, is_outdated: Event) -> None:
    """Look for upgrades until one makes this process outdated, then end it as SIGTERM does."""
    while not (found := watch.look()):
        time.sleep(upgrades.LOOK_EVERY_SECONDS)
    log.warning("%s after this web process started: it ends", found)
    is_outdated.set()
    os.kill(os.getpid(), signal.SIGTERM)


def _refuse_other_tables(watch: upgrades.UpgradeWatch) -> None:
    """Check the tables. Raises: CommandError if this version cannot use them. Pages report a database that is down."""
    try:
        is_migrated()
        watch.begin()
    except Error:
        return
    finally:
        connection.close()


def check_port(listen: str) -> None:
    """Raises: CommandError for a number that is not a port: this number modulo 65,536 would be listened on."""
    port = listen.rpartition(":")[2]
    if port.isdecimal() and int(port) > LAST_PORT:
        raise CommandError(f"cannot listen on {listen}: a port is at most {LAST_PORT}", returncode=2)


def cannot_listen(listen: str, error: OSError | ValueError) -> str:
    """The reason of the system; for a port that is taken its listener, and how to choose another port."""
    host, _, port = listen.rpartition(":")
    number = getattr(error, "errno", None)
    if number != errno.EADDRINUSE or not port.isdecimal():
        to_do = "name an address of this host and a port, such as 127.0.0.1:8000"
        if number == errno.EACCES:
            to_do = "ports below 1024 need root: name a higher one, and let a proxy have that"
        # each Python has other words for that
        why = "it is not the name of a host" if isinstance(error, UnicodeError) else error
        return f"cannot listen on {listen}: {why}. What to do: {to_do}"
    other = f"{host}:{free_port('127.0.0.1', 8001)}"
    return (
        f"cannot listen on {listen}: {listener_on(int(port))} listens there. End it, or name another port: "
        f"`{PROGRAM} web --listen {other}`, `{PROGRAM} run --listen {other}`"
    )


def limit_lock_waits() -> None:
    """Let no statement wait for a lock for more than LOCK_SECONDS, on connections that are opened from now on.

    An agent asks again while its first request waits, and eight waiting requests occupy all threads. Does nothing in an
    installation that polls: a pooler would hand the setting to other programs.
    """
    if conf.listens():
        connection_created.connect(_limit_lock_waits, dispatch_uid=__name__)


def _limit_lock_waits(connection: Any, **_: object) -> None:
    connection.connection.execute(f"SET lock_timeout = {LOCK_SECONDS * 1000:.0f}")


def behind_proxy(address: str) -> dict[str, Any]:
    """Arguments that let waitress trust the proxy at `address` (none if empty) for the client's address and scheme."""
    if not address:
        return {}
    return {"trusted_proxy": address, "trusted_proxy_headers": {"x-forwarded-for", "x-forwarded-proto"}}
