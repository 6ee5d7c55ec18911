import getpass
import os
import re
import secrets
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection, transaction
from django.db.utils import ProgrammingError
from django.template.defaultfilters import filesizeformat

from backupsched import first_backup, first_run
from backupsched.embedded import Layout
from backupsched.embedded.binaries import installed_bin
from backupsched.first_run import Unfit
from backupsched.places import own_command
from backupsched.secret_files import PASSWORD
from declarations.surfaces.commands.base import TerminalCommand, ask
from external.formatting import several
from jobs.conf import PROGRAM
from operations.task_installation import install

POLICY, REPOSITORY = "daily", "backups"
CRON = "0 20 * * *"
EMBEDDED = "embedded"
ANSWERED = "BACKUPSCHED_INIT_ANSWERED"
"""Set where the question for the database has been answered, in the process before."""
UNUSUAL = re.compile(r"[^a-z0-9._-]+")
PAGE = "http://127.0.0.1:8000/"
ALONE = "SELECT pg_advisory_xact_lock(hashtext('init'), 0)"
"""Two that were answered at the same time set up one after the other."""


class Command(TerminalCommand):
    help = (
        "Set up a new installation: a database, a repository, an administrator and a first source, each tried "
        "at once, and a first backup. It asks for the options that are not given; without a terminal it asks "
        "nothing. Exit codes: 0; 1 where the first backup failed; 2 for an answer that cannot be used."
    )

    needs_tables = False  # it migrates

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--database", metavar="URL",
            help="postgresql://user:password@host/name; default: DATABASE_URL, else the embedded PostgreSQL",
        )  # fmt: skip
        parser.add_argument("--source", metavar="FOLDER", help="the first folder on this host to back up")
        parser.add_argument("--repository", metavar="FOLDER", help="where backups go, preferably on another disk")
        parser.add_argument("--zone", metavar="ZONE", help="time zone of the first policy; default: this host's")
        parser.add_argument("--administrator", metavar="NAME", help="account for the pages; default: yours")
        parser.add_argument("--password-file", metavar="FILE", help="its password; default: one is made and shown")
        parser.add_argument("--json", action="store_true", help="ask nothing, and print what was set up as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        self.asks = sys.stdin.isatty() and not self.json
        is_another = self._database(options)
        call_command("migrate", verbosity=0)
        if source_name := self._unfinished():
            self._refuse_other_folders(source_name, options)
            first_backup.ask_once_more(source_name)
            self.answer(*self._ended(source_name, {}))
            return
        self._remember_the_database(is_another)
        home = os.path.expanduser("~") if self.asks else ""
        source = self._ask("source", "Which folder should be backed up first?", home, options, first_run.source)
        repository = self._ask(
            "repository", "Where should backups go (a folder, preferably on another disk)?", "", options,
            lambda text: first_run.repository(text, source),
        )  # fmt: skip
        zone = self._ask("zone", "In which time zone are you?", first_run.zone_of_host(), options, first_run.zone)
        mine = first_run.name_of_user()
        name = self._ask("administrator", "Name of your account for the pages?", mine, options, first_run.account)
        password = self._password_of(name, options["password_file"])
        source_name = UNUSUAL.sub("-", Path(source).name.lower()).strip("-.") or "root"
        with transaction.atomic():
            self._be_alone()
            install()
            self._apply(source_name, source, repository, zone)
            account = {"administrator": name} | self._account(name, password)  # last: it shows a password
        self.answer(*self._ended(source_name, account))

    def _database(self, options: dict[str, Any]) -> bool:
        """Ask for the database, and start this command again if the settings have another one. A database with sources
        is left as it is. Returns True if it was started again. Raises: CommandError."""
        current = os.environ.get("DATABASE_URL", "")
        if current or Layout(settings.VAR_DIR).data.exists():
            self._unfinished()
        if os.environ.pop(ANSWERED, ""):
            return True
        shown = "that of DATABASE_URL" if current else EMBEDDED
        url = self._ask(
            "database", f"Database: the URL of a PostgreSQL, or `{EMBEDDED}`?", shown, options,
            lambda text: "" if text == EMBEDDED else first_run.database(current if text == shown else text),
        )  # fmt: skip
        if not url:
            installed_bin()
        if url != current:
            self.stdout.flush()
            names = ("source", "repository", "zone", "administrator", "password_file")
            given = [f"--{each.replace('_', '-')}={options[each]}" for each in names if options[each] is not None]
            program = [*own_command(), "init", *given, *(["--json"] if self.json else [])]
            environment = {**os.environ, "DATABASE_URL": url, ANSWERED: "1"}
            os.execve(program[0], program, environment)  # noqa: S606 - this program
        return False

    def _remember_the_database(self, is_another: bool) -> None:
        """Write the database into the file of settings, unless this process found it in such a file, or with a separate
        secret, which stays where it is."""
        found = "DATABASE_URL" in settings.KEPT_IN_FILES or settings.DATABASE_SECRET_IS_KEPT_APART
        url = os.environ.get("DATABASE_URL", "")
        if found and not is_another:
            return
        if url or (settings.VAR_DIR / first_run.SETTINGS).exists():  # else another one there would be used from now on
            # a password in another file is that of the earlier database
            no_password = {PASSWORD: ""} if PASSWORD in os.environ else {}
            first_run.write_settings(settings.VAR_DIR, {"DATABASE_URL": url} | no_password)

    def _unfinished(self) -> str:
        """Returns the name of the source of an `init` that ended before its first backup, empty for a new
        installation. Raises: CommandError for one that is in use."""
        from sources.models import Backup, Source

        try:
            names = list(Source.objects.values_list("name", flat=True)[:2])
            own = Source.objects.filter(assignments__policy__schedule__name=POLICY, kind="local")
            if len(names) == 1 and own.exists() and not Backup.objects.exists():
                return names[0]
        except ProgrammingError:  # no tables yet
            return ""
        if names:
            raise CommandError(
                f"this installation is set up: it has sources, such as {names[0]}. `{PROGRAM} run` starts it, "
                f"`{PROGRAM} sources add` adds more",
                returncode=2,
            )
        return ""

    def _be_alone(self) -> None:
        """Let no other `init` set this up, until the end of the transaction. Raises: CommandError if one has done it
        since the first question."""
        with connection.cursor() as cursor:
            cursor.execute(ALONE)
        if name := self._unfinished():
            said = f"another `{PROGRAM} init` has set up {name} in the meantime: run this one again, without options"
            raise CommandError(said, returncode=2)

    def _refuse_other_folders(self, name: str, options: dict[str, Any]) -> None:
        """Raises: CommandError for options that differ from those of an earlier `init`, which has set up `name`."""
        from sources.models import Assignment

        found = Assignment.objects.get(source__name=name, policy__schedule__name=POLICY)
        repository = found.policy.repository
        for option, there, change in (
            ("source", found.source.path, f"sources set {name} --path"),
            ("repository", repository.location, f"repositories set {repository.name} --location"),
        ):
            given = options[option]
            if given is not None and os.path.realpath(os.path.expanduser(given)) != os.path.realpath(there):
                raise CommandError(
                    f"--{option}: an earlier `init` has set up {there}, and has made no backup yet. Leave this option "
                    f"out, or change that first: `{PROGRAM} {change} FOLDER`",
                    returncode=2,
                )

    def _ended(self, source_name: str, account: dict[str, str]) -> tuple[dict[str, Any], str]:
        """Make the first backup. Returns the facts of the new installation, and the same as text."""
        backup = self._back_up(source_name)
        facts = {
            "database": "embedded" if "EMBEDDED_IN" in settings.DATABASES["default"] else "external",
            "repository": backup.repository.location, "source": source_name, "path": backup.assignment.source.path,
            "page": PAGE, "files": backup.files, "bytes": backup.size,
            "seconds": round((backup.ended_at - backup.started_at).total_seconds(), 1),
        } | account  # fmt: skip
        return facts, self._ending(facts)

    def _ask(
        self, name: str, question: str, default: str, options: dict[str, Any], check: Callable[[str], str],
        *, may_be_empty: bool = False,
    ) -> str:  # fmt: skip
        """The answer of the option, or of the user, repeated until one passes. Raises: CommandError."""
        given = options[name]
        while True:
            asked = given is None and self.asks
            text = ask(input, f"{question}{f' [{default}]' if default else ''} ").strip() if asked else (given or "")
            text = text or default
            if not text and not may_be_empty:
                if asked:
                    continue
                raise CommandError(f"--{name} is missing: {question}", returncode=2)
            try:
                return check(text)
            except Unfit as error:
                if not asked:
                    raise CommandError(f"--{name}: {error}", returncode=2) from error
                self.stdout.write(self.style.ERROR(str(error)))

    def _password(self, file: str | None) -> tuple[str, bool]:
        """The password, and whether it was made here."""
        if file:
            try:
                return first_run.password(Path(file).read_text(encoding="utf-8").rstrip("\r\n")), False
            except OSError as error:
                raise CommandError(f"--password-file: {file} cannot be read: {error.strerror}", returncode=2) from error
            except UnicodeError as error:
                raise CommandError(f"--password-file: {file} is not text in UTF-8", returncode=2) from error
            except Unfit as error:
                raise CommandError(f"--password-file: {error}", returncode=2) from error
        while self.asks:
            if not (first := ask(getpass.getpass, "Password (leave it empty to have one made)? ")):
                break
            try:
                first_run.password(first)
            except Unfit as error:
                self.stdout.write(self.style.ERROR(str(error)))
                continue
            if ask(getpass.getpass, "Once more? ") == first:
                return first, False
            self.stdout.write(self.style.ERROR("These differ."))
        return secrets.token_urlsafe(12), True

    def _password_of(self, name: str, file: str | None) -> tuple[str, bool] | None:
        """The password of a new account, and whether it was made here; None for an account that is there."""
        from django.contrib.auth.models import User

        return None if User.objects.filter(username=name).exists() else self._password(file)

    def _account(self, name: str, given: tuple[str, bool] | None) -> dict[str, str]:
        """Make the administrator's account, unless it is there. Returns a password that was made here."""
        from django.contrib.auth.models import User

        if given is None:
            return {}
        password, is_made = given
        User.objects.create_superuser(name, password=password)
        if not is_made:
            return {}
        said = f"the account {name} has the password {password} (it is shown this once)"
        (self.stderr if self.json else self.stdout).write(said)
        return {"password": password}

    def _apply(self, name: str, path: str, repository: str, zone: str) -> None:
        fleet = {
            "repositories": [{"name": REPOSITORY, "location": repository}],
            "policies": [{"name": POLICY, "cron": CRON, "zone": zone, "repository": REPOSITORY}],
            "sources": [{"name": name, "kind": "local", "path": path, "policies": [POLICY]}],
        }
        from fleet.files.apply import apply_fleet
        from fleet.files.schema import FleetError

        try:
            apply_fleet(fleet, "init", folder=Path("/"), dry_run=False, prune=False, force=False)
        except FleetError as error:
            raise CommandError("; ".join(map(str, error.errors)), returncode=2) from error

    def _back_up(self, name: str) -> Any:
        """Make the first backup. Returns it. Raises: CommandError."""
        began = time.monotonic()
        try:
            return first_backup.back_up(name, lambda found: self._show(found, began))
        finally:
            if self.asks:
                self.stdout.write("")

    def _show(self, found: dict[int, dict[str, int]], began: float) -> None:
        if not self.asks:
            return
        done = next(iter(found.values()), {"files_done": 0, "bytes_done": 0})
        size, seconds = filesizeformat(done["bytes_done"]), time.monotonic() - began
        text = f"the first backup: {done['files_done']:,} files, {size}, {seconds:.0f} s"
        if stream := sys.__stdout__:  # itself, since the one of commands escapes the character that begins a line again
            stream.write(f"\r{text:<78}")
            stream.flush()

    def _ending(self, facts: dict[str, Any]) -> str:
        size = filesizeformat(facts["bytes"])
        lines = [
            f"{facts['source']} is backed up: {several(facts['files'], 'file')}, {size}, in {facts['seconds']} s.",
            "",
            f"Start it:          {PROGRAM} run",
            f"Its pages:         {PAGE}",
            f"Bring a file back: {PROGRAM} restores points {facts['source']}, then `restores run`",
            f"More sources:      {PROGRAM} sources add --help, or the pages",
            f"Automatically:     each day at 20:00, or when this host is back (policy {POLICY})",
        ]
        return "\n".join(lines)
