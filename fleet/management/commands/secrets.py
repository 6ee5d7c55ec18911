import getpass
import sys
from argparse import SUPPRESS, ArgumentParser
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.db import transaction

from declarations.problems import lines_of
from declarations.service import InUse
from declarations.surfaces.commands.base import VerbCommand
from declarations.surfaces.commands.options import Examples
from declarations.surfaces.terminal import columns, one_line
from external.formatting import moment
from jobs.conf import PROGRAM
from sealing.key_rotation import Resealing, reseal_all
from sealing.models import StoredSecret
from sealing.references import LONGEST_SECRET
from sealing.stored_secrets import StoredSecrets, users_of

SHOWN_EVERY = 500
VERBS = {
    "list": "list them: names, when they were changed, and what uses them",
    "set": "store a secret, or replace it: typed in without echo, or read from standard input",
    "delete": "delete a secret that nothing uses",
    "rotate": "seal everything anew with the present SECRET_KEY, signing secrets and Authorization of endpoints too; "
    "then SECRET_KEY_FALLBACKS may be emptied. Ended in between, it is run again",
}

COLUMNS = columns("name", "changed (UTC)", "used by")


class Command(VerbCommand):
    help = (
        "Stored secrets, which sources and repositories refer to as stored:NAME. They are sealed in the database, and "
        "never shown. Alone: list. Exit codes: 0; 1 when a secret is in use, or one cannot be opened; 2 for bad usage, "
        "or when the database does not answer."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.formatter_class = Examples
        parser.epilog = f"examples:\n  {PROGRAM} secrets set nas\n  {PROGRAM} secrets set laptop-key < id_ed25519"
        parser.add_argument("--json", action="store_true", help="print JSON")
        verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs")
        made = {name: verbs.add_parser(name, help=what, description=f"{what}.") for name, what in VERBS.items()}
        for name in ("set", "delete"):
            made[name].add_argument("name", metavar="NAME")
        made["delete"].add_argument("--yes", action="store_true", help="do it without asking")
        for each in made.values():
            each.add_argument("--json", action="store_true", default=SUPPRESS, help="print JSON")

    def describe_problems(self, error: ValidationError, options: dict[str, Any]) -> str:
        return "\n".join(["nothing was stored:", *(f"{field}: {text}" for field, text in lines_of(error))])

    def _list(self, options: dict[str, Any]) -> None:
        rows = list(StoredSecret.objects.all())
        users = users_of([row.name for row in rows])
        facts = [{"name": row.name, "changed_at": row.changed_at, "used_by": users[row.name]} for row in rows]
        empty = f"There are no stored secrets. `{PROGRAM} secrets set NAME` stores one."
        self.list_out(facts, COLUMNS, _row, empty)

    def _set(self, options: dict[str, Any]) -> None:
        service, name = StoredSecrets(), options["name"]
        value = _typed(name) if sys.stdin.isatty() else _piped()
        with transaction.atomic():
            row = service.rows().filter(name=name).first() or service.new()
            edit = service.edit(row, {"name": name, "value": value})
        facts = {"name": name, "reference": f"stored:{name}", "is_new": edit.changed is None}
        done = "stored" if edit.changed is None else "replaced"
        self.answer(facts, f"{one_line(name)} is {done}: refer to it as stored:{name}")

    def _delete(self, options: dict[str, Any]) -> None:
        service, name = StoredSecrets(), options["name"]
        row, shown = service.named(name), one_line(name)
        if uses := service.uses(row):
            raise InUse(". ".join(uses))
        if self.is_agreed(options, f"Delete the secret {shown}? It cannot be had back."):
            service.remove([row])
            self.answer({"deleted": name}, f"{shown} is deleted")

    def _rotate(self, options: dict[str, Any]) -> None:
        found = reseal_all(self._show_progress)
        facts = {"resealed": found.resealed, "current": found.current, "unopened": found.unopened}
        text = f"{found.resealed:,} sealed anew, {found.current:,} were sealed with the present SECRET_KEY already"
        self.answer(facts, text)
        if found.unopened:
            names = one_line(", ".join(found.unopened))
            raise CommandError(
                f"{len(found.unopened):,} cannot be opened: {names}. Put the SECRET_KEY that sealed them into "
                "SECRET_KEY_FALLBACKS and rotate again, or enter them anew.",
                returncode=1,
            )
        if not self.json:
            self.stdout.write("Once every process runs with this SECRET_KEY, SECRET_KEY_FALLBACKS may be emptied.")

    def _show_progress(self, found: Resealing) -> None:
        if found.done % SHOWN_EVERY == 0:
            self.stderr.write(f"{found.done:,} of {found.total:,}")


def _describe(users: dict[str, list[str]]) -> str:
    return ", ".join(f"{title} {name}" for title, names in users.items() for name in names)


def _typed(name: str) -> str:
    """Raises: ValueError when it was not typed the same twice."""
    try:
        value, again = (getpass.getpass(prompt) for prompt in (f"Secret {one_line(name)}: ", "Again: "))
    except (EOFError, KeyboardInterrupt):
        raise ValueError("nothing was stored") from None
    if value != again:
        raise ValueError("these were two different secrets; nothing was stored")
    return value


def _piped() -> str:
    try:
        return sys.stdin.read(LONGEST_SECRET + 2)
    except UnicodeDecodeError:
        raise ValueError("standard input is not UTF-8 text; nothing was stored") from None


def _row(facts: dict[str, Any]) -> tuple[object, ...]:
    return facts["name"], moment(facts["changed_at"]), _describe(facts["used_by"]) or "nothing"
