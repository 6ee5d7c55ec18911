import json
import logging
import signal
import sys
import time
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db.utils import OperationalError
from psycopg import Error as PsycopgError
from rich.console import Console
from rich.live import Live

from demo.display import live_table, picture, summary_table
from demo.processes import DemoError
from demo.session import Options, Session
from external.durations import duration
from external.processes.programs import ProgramMissing
from jobs.conf import PROGRAM
from operations.ports import free_port, listener_on

LOOK_EVERY_SECONDS = 0.5
USUAL_PORT = 8000
TO_TRY = f"""\
Try to restore: change a file below {{machines}}, choose *Back up now* on the page of its source, then *Restore*
there. Or in another terminal:
  export DATABASE_URL= BACKUPSCHED_VAR={{home}}
  {PROGRAM} restores run demo-share --to /tmp/demo-share
  {PROGRAM} restores drill demo-shop-database
  {PROGRAM} repositories key demo-encrypted"""


class Command(BaseCommand):
    help = (
        "Back up a real demo fleet on this machine: SFTP hosts, an S3 bucket, a WebDAV share, a folder and a "
        "database, each a process on loopback. Two are late, one sleeps, one vanishes in mid-backup, one "
        "refuses the password; those that come and go have agents. The demo has a separate database, in  "
        "var/demo, and touches no installation, whatever DATABASE_URL says. Ctrl-C ends everything that the "
        "demo started and deletes var/demo and var/demo-hosts."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--once", action="store_true", help="end when every reachable source is protected")
        parser.add_argument("--json", action="store_true", help="with --once: print the summary as JSON")
        parser.add_argument("--hosts", type=int, default=12, help="number of SFTP hosts, at least 5 (12)")
        parser.add_argument("--workers", type=int, default=1, help="number of worker processes (1)")
        parser.add_argument("--concurrency", type=int, default=16, help="execution units of each worker (16)")
        parser.add_argument("--port", type=int, help="of the web pages (8000 if that is free, else any)")
        parser.add_argument(
            "--timeout",
            type=duration(),
            default=300,
            metavar="DURATION",
            help="with --once: give up after this time, such as 10m (5m)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["json"] and not options["once"]:
            raise CommandError("--json prints a summary at the end, so it needs --once", returncode=2)
        if options["hosts"] < 5 or min(options["workers"], options["concurrency"]) < 1:
            raise CommandError("--hosts must be at least 5, --workers and --concurrency at least 1", returncode=2)
        self.quiet = options["json"]
        self.signals = 0
        logging.getLogger("jobs.doing").setLevel(logging.WARNING)  # the table shows it, and the services log it
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._signalled)
        chosen = {name: options[name] for name in ("hosts", "workers", "concurrency", "timeout")}
        chosen |= {"port": self._web_port(options["port"]), "runs_on": not options["once"]}
        session = Session(Options(**chosen), self._say)
        code = 1
        try:
            code = self._run(session, once=options["once"], as_json=options["json"])
        except (DemoError, ProgramMissing, PsycopgError) as error:
            raise CommandError(str(error)) from error
        finally:
            if not self.signals:
                self._say("ending the demo's processes")
            session.stop(force=self.signals > 1)
        if code in (0, 130) and self.signals < 2:
            session.clear()
        else:
            self._say(f"the demo's files stay in {session.home} and {session.machines} until the next demo")
        if code:
            sys.exit(code)

    def _run(self, session: Session, *, once: bool, as_json: bool) -> int:
        session.prepare()
        session.start()
        self._watch(session, once=once)
        if not once:
            return 0
        if self.signals:
            return 130
        if missing := session.missing():
            self._say(f"not protected within {session.options.timeout:.0f} s: {', '.join(missing)}")
        summary = session.summary()
        if as_json:
            self.stdout.write(json.dumps(asdict(summary), indent=2, ensure_ascii=False))
        else:
            Console().print(summary_table(summary))
        return 0 if summary.complete and not missing else 1

    def _watch(self, session: Session, *, once: bool) -> None:
        footer = f"{session.url}, {session.login}. Logs: {session.home}. Ctrl-C ends the demo"
        to_try = TO_TRY.format(home=session.home, machines=session.machines)
        deadline = time.monotonic() + session.options.timeout
        last_line = ""
        with Live(console=Console(file=sys.__stdout__, quiet=self.quiet), auto_refresh=False) as live:
            while not self.signals:
                try:
                    session.look()
                    seen = picture()
                    is_done = not session.missing()
                    live.update(live_table(seen, f"{footer}\n{to_try}" if is_done else footer), refresh=True)
                    line = f"{seen.protected} of {len(seen.rows)} sources protected"
                    if self.quiet and line != last_line:
                        self._say(line)
                        last_line = line
                    if once and (is_done or time.monotonic() > deadline):
                        return
                except OperationalError as error:
                    self._say(f"the database does not answer: {error}")
                time.sleep(LOOK_EVERY_SECONDS)

    def _signalled(self, number: int, _frame: object) -> None:
        """First: end the demo. Second: wait for no process. Before the fleet is up: end at once."""
        self.signals += 1
        if self.signals > 2:
            raise KeyboardInterrupt

    def _say(self, line: str) -> None:
        """Print one line for the user: on standard error if standard output is for JSON."""
        stream = sys.stderr if self.quiet else sys.stdout
        stream.write(f"{line}\n")
        stream.flush()

    def _web_port(self, asked: int | None) -> int:
        """The port of the web pages. Raises: CommandError when the one that was asked for is taken."""
        wanted = asked or USUAL_PORT
        if (found := free_port("127.0.0.1", wanted)) == wanted:
            return found
        taken = f"{wanted} is taken on 127.0.0.1 by {listener_on(wanted)}"
        if asked:
            raise CommandError(f"--port: {taken}; name another, or leave --port out", returncode=2)
        self._say(f"port {taken}: the pages are at port {found}")
        return found
