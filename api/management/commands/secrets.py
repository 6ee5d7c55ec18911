import getpass
import sys
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.db import transaction

from declarations.problems import lines_of
from declarations.service import InUse
from declarations.surfaces.commands.nouns import NounCommand
from declarations.surfaces.terminal import columns, one_line
from external.formatting import moment
from jobs.conf import PROGRAM
from sealing.key_rotation import ResealProgress, reseal_all
from sealing.models import StoredSecret
from sealing.references import LONGEST_SECRET
from sealing.stored_secrets import StoredSecrets, users_of

SHOWN_EVERY = 500
ROTATES = (
    "seal everything again with the present SECRET_KEY, signing secrets and Authorization of endpoints too; then "
    "SECRET_KEY_FALLBACKS may be emptied. Ended in between, it is run again"
)
COLUMNS = columns("name", "changed (UTC)", "used by")


class Command(NounCommand):
    help = (
        "Stored secrets, which sources and repositories refer to as stored:NAME: they are sealed in the database, and "
        "never shown; and the tokens of the API. Alone, or with list: the stored secrets. Exit codes: 0; 1 when a "
        "secret is in use, or one cannot be opened; 2 for bad usage, or when the database does not answer."
    )
    examples = {
        "set": f"nas\n  {PROGRAM} secrets set laptop-key < id_ed25519",
        "issue": "--user grafana --name dashboards --scope read --expires 1y",
        "revoke": "7",
    }

    def add_verbs(self, verbs: Any) -> None:
        self.add_verb(verbs, "list", "list them: names, when they were changed, and what uses them")
        setting = self.add_verb(verbs, "set", "store a secret, or replace it: typed without echo, or standard input")
        setting.add_argument("name", metavar="NAME", help="of the secret")
        removing = self.add_verb(verbs, "remove", "delete secrets that nothing uses")
        removing.add_argument("names", nargs="+", metavar="NAME", help="of a secret")
        removing.add_argument("--yes", action="store_true", help="do it without asking")
        self.add_verb(verbs, "rotate", ROTATES)

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

    def _remove(self, options: dict[str, Any]) -> None:
        service = StoredSecrets()
        rows = [service.named(name) for name in dict.fromkeys(options["names"])]
        if uses := [text for row in rows for text in service.uses(row)]:
            raise InUse(". ".join(uses))
        names = [row.name for row in rows]
        shown = one_line(", ".join(names))
        if self.is_agreed(options, f"Delete the secret {shown}? It cannot be recovered."):
            service.remove(rows)
            self.answer({"removed": names}, f"{shown}: deleted")

    def _rotate(self, options: dict[str, Any]) -> None:
        found = reseal_all(self._show_progress)
        facts = {"resealed": found.resealed, "current": found.current, "unopened": found.unopened}
        text = f"{found.resealed:,} sealed again, {found.current:,} were sealed with the present SECRET_KEY already"
        self.answer(facts, text)
        if found.unopened:
            names = one_line(", ".join(found.unopened))
            raise CommandError(
                f"{len(found.unopened):,} cannot be opened: {names}. Put the SECRET_KEY that sealed them into "
                "SECRET_KEY_FALLBACKS and rotate again, or enter them again.",
                returncode=1,
            )
        if not self.json:
            self.stdout.write("Once every process runs with this SECRET_KEY, SECRET_KEY_FALLBACKS may be emptied.")

    def _show_progress(self, found: ResealProgress) -> None:
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
