"""`python -m proving.chaos.hosts partition`: faults between hosts, each on fresh servers and with an audit after it.

Without a name it runs all faults. Progress goes to standard error, the report to standard output. Exit code 0: the
books balance and all healed; 1: they do not; 2: bad arguments, or a machine that cannot have such hosts; 130: stopped
by Ctrl-C. In any case the processes are ended and the namespaces removed; logs are kept only after exit code 1.
"""

import argparse
import json
import os
import secrets
import signal
import sys
from pathlib import Path

import django

from backupsched.embedded import EmbeddedDatabaseError
from external.processes.interrupts import deliver_lost_interrupts, interrupt_at_term
from proving.chaos.hosts.faults import FAULTS
from proving.chaos.hosts.lan import Lan, NoHosts
from proving.chaos.hosts.servers import ReplicatedPair, ServerDidNot
from proving.chaos.hosts.stage import HOSTS
from proving.chaos.server import make_directory, remove_directory

DISCREPANCIES = 1
LEASE_SECONDS = 12.0


def main() -> int:
    options = _arguments()
    interrupt_at_term()
    deliver_lost_interrupts()
    directory = make_directory()
    lan = Lan(HOSTS, options.seed)
    pair: ReplicatedPair | None = None
    code = 2
    try:
        lan.open()
        pair = ReplicatedPair(directory, lan.hosts["primary"], lan.hosts["replica"])
        pair.one.ensure_running()
        pair.open_doors()
        os.environ.update(
            DJANGO_SETTINGS_MODULE="proving.chaos.settings",
            DATABASE_URL=pair.url(),
            BACKUPSCHED_VAR=str(directory / "var"),
            BACKUPSCHED_LEASE=str(options.lease),
            SECRET_KEY=secrets.token_hex(),
        )
        django.setup()
        code = _all(directory, lan, pair, options)
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
        code = 130
    except (EmbeddedDatabaseError, NoHosts, ServerDidNot) as error:
        sys.stderr.write(f"chaos: {error}\n")
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        if pair:
            pair.destroy()
        lan.close()
        if code == DISCREPANCIES:
            sys.stderr.write(f"the journals and logs are kept in {directory}\n")
        else:
            remove_directory(directory)
    return code


def _all(directory: Path, lan: Lan, pair: ReplicatedPair, options: argparse.Namespace) -> int:
    from django.core.management import call_command
    from django.db import connection, connections

    from proving.chaos.fleet import WorkersDoNotStart
    from proving.chaos.hosts import services
    from proving.chaos.hosts.run import HostsRun
    from proving.chaos.hosts.verdict import text
    from proving.chaos.run import BOOKING_TABLE

    call_command("migrate", verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute(BOOKING_TABLE)
    services.prepare()
    connections.close_all()
    pair.keep()
    reports = []
    try:
        for name in options.faults or FAULTS:
            place = directory / name
            place.mkdir()
            reports.append(HostsRun(name, FAULTS[name], lan, pair, place, options.seed).run())
            if not options.json:
                sys.stdout.write(f"{text(reports[-1])}\n")
                sys.stdout.flush()
    except (WorkersDoNotStart, services.ServiceDoesNotStart) as error:
        sys.stderr.write(f"chaos: {error}\n")
        return DISCREPANCIES
    if options.json:
        sys.stdout.write(f"{json.dumps(reports, indent=2)}\n")
    return DISCREPANCIES if any(found["discrepancies"] for found in reports) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        allow_abbrev=False, prog="python -m proving.chaos.hosts", description=__doc__.split("\n")[0]
    )
    parser.add_argument("faults", nargs="*", metavar="FAULT", help="one or more of the faults (all)")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6), help="enqueues the same records again")
    parser.add_argument("--lease", type=float, default=LEASE_SECONDS, help="seconds that a lease lasts (12)")
    parser.add_argument("--json", action="store_true", help="the report as JSON")
    options = parser.parse_args()
    if unknown := set(options.faults) - FAULTS.keys():
        parser.error(f"there is no fault {min(unknown)!r}: there are {', '.join(FAULTS)}")
    if not 6 <= options.lease <= 20:
        parser.error("--lease is a number of seconds from 6 to 20")
    return options


if __name__ == "__main__":
    sys.exit(main())
