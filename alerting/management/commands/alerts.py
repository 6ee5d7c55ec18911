import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any, ClassVar

from django.core.management.base import CommandError

from alerting import raising, sending
from alerting.declarations import Routes
from alerting.models import AlertRoute
from declarations.surfaces.commands.declared_commands import DeclaredCommand
from declarations.surfaces.terminal import columns, one_line
from external.formatting import moment
from jobs.conf import PROGRAM

ALERTS = columns("alert", "about", "since (UTC)", "why")


class Command(DeclaredCommand):
    help = (
        "Problems that need an operator now, and the routes by which operators are notified. Alone, or with "
        "list: the open alerts. Exit codes: 0; 1 when a test was not delivered; 2 for bad usage, or when the "
        "database does not answer."
    )
    service, positional = Routes, ("name",)
    columns = columns("route", "enabled", "alerts", "policies", "digest", "not delivered")
    empty = f"There are no routes: nothing is sent. `{PROGRAM} alerts add NAME --url-file -` makes one."
    options_by_field: ClassVar[dict[str, str]] = {"secret_url": "--url-file"}
    examples = {"add": "ops --url-file -", "set": "ops --digest daily", "test": "ops"}

    def add_more_verbs(self, verbs: Any) -> None:
        self.add_verb(verbs, "routes", "list the routes")
        self.add_each(verbs, "test", "send a test message now, and report whether it was delivered")

    def add_to_changes(self, changes: ArgumentParser) -> None:
        changes.add_argument(
            "--url-file", metavar="FILE",
            help="file with the URL of Apprise, such as ntfys://ntfy.sh/topic; -: standard input. It is kept sealed",
        )  # fmt: skip

    def _list(self, options: dict[str, Any]) -> None:
        found = [
            {"kind": each.kind, "name": each.name, "since": each.since, "text": each.text, "subject": each.subject}
            for each in raising.open_alerts()
        ]
        self.list_out(found, ALERTS, _alert_row, "There are no open alerts.")

    def _routes(self, options: dict[str, Any]) -> None:
        super()._list(options)

    def facts(self, row: AlertRoute) -> dict[str, Any]:
        return Routes().values(row) | {"undelivered": sending.undelivered().filter(route=row).count()}

    def cells(self, facts: dict[str, Any]) -> tuple[object, ...]:
        kinds, policies = (", ".join(facts[name]) or "all" for name in ("kinds", "policies"))
        enabled = "yes" if facts["enabled"] else "no"
        return facts["name"], enabled, kinds, policies, facts["digest"], facts["undelivered"]

    def _test(self, options: dict[str, Any]) -> None:
        route = self.found(options)
        if problem := sending.send_test(route):
            raise CommandError(f"not delivered to {one_line(route)}: {one_line(problem)}", returncode=1)
        self.stdout.write(f"delivered to {one_line(route)}")

    def sent(self, options: dict[str, Any]) -> dict[str, Any]:
        """The fields, with the URL if there is one."""
        if not (file := options.get("url_file")):
            return super().sent(options)
        try:
            text = sys.stdin.read() if file == "-" else Path(file).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"--url-file: {file} cannot be read as text: {error}") from None
        return super().sent(options) | {"secret_url": text.strip()}

    def lost(self, row: AlertRoute) -> str:
        sealed = Routes().sealed_for(row)
        return f" Its URL, the stored secret {sealed.name}, goes with it." if sealed else ""


def _alert_row(facts: dict[str, Any]) -> tuple[object, ...]:
    return facts["kind"], facts["name"], moment(facts["since"]), facts["text"]
