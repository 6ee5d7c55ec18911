from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from jobs.formatting import moment
from operations.backlog.facts import as_json
from operations.management.base import TerminalCommand, person
from operations.terminal import columns, one_line, table
from sources.backups import copies
from sources.management.names import named
from sources.models import Copy, Source

COLUMNS = columns("source", "policy", "repository", "last success (UTC)", "points", "behind since (UTC)", "error")
NAMES = (
    "assignment__source__name", "assignment__policy__schedule__name", "repository__name", "copied_at", "points",
    "assignment__to_copy_since", "error",
)  # fmt: skip
KEYS = ("source", "policy", "repository", "copied_at", "points", "to_copy_since", "error")


class Command(TerminalCommand):
    help = (
        "Show the copies of sources in other repositories: when each last had all points, and since when one is not "
        "there; with a SOURCE: copy it now, whatever its window. A worker does it. Exit codes: 0; 1 when there is "
        "nothing to copy, or it is copied already; 2 for bad usage."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("source", nargs="?", metavar="SOURCE", help="name of a source")
        parser.add_argument(
            "--json", action="store_true", help=f"print a list of {{{', '.join(KEYS)}}}, or {{enqueued}}"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["source"] is None:
            self._list(options["json"])
            return
        source = named(Source.objects, options["source"], "source")
        enqueued = copies.copy_now(source.assignments.values_list("pk", flat=True), by=person())
        if not enqueued:
            text = "it has no backup, its policy names no second repository (copy_to), or it is copied already"
            raise CommandError(f"{one_line(source)}: nothing was put on the backlog: {text}", returncode=1)
        text = f"{one_line(source)}: {enqueued} put on the backlog; `copy` shows what comes of it"
        self.stdout.write(as_json({"enqueued": enqueued}) if options["json"] else text)

    def _list(self, json: bool) -> None:
        rows = list(Copy.objects.order_by(*NAMES[:3]).values_list(*NAMES))
        if json:
            self.stdout.write(as_json([dict(zip(KEYS, row, strict=True)) for row in rows]))
        else:
            shown = ((*row[:3], moment(row[3]), len(row[4]), moment(row[5]), row[6]) for row in rows)
            self.print_out(table(COLUMNS, shown))
