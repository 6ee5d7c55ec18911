from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from jobs.formatting import moment
from operations.backlog.facts import as_json
from operations.backlog.rendering import columns, plain, table
from operations.management.base import TerminalCommand
from sources.management.names import named
from sources.models import Assignment, Source
from sources.restores import drills

COLUMNS = columns("source", "policy", "last success (UTC)", "last proved (UTC)", "point", "why the last drill failed")
NAMES = (
    "source__name", "policy__schedule__name", "last_backup_at", "proved_at", "proved_point", "drill_error",
    "drill_facts",
)  # fmt: skip
KEYS = ("source", "policy", "last_backup_at", "proved_at", "proved_point", "error", "facts")


class Command(TerminalCommand):
    help = (
        "Show what was last proved restorable by a drill, and when; with a SOURCE: drill it now, whatever its window. "
        "A drill restores the newest point, or a sample of it, into scratch space, and compares it; a database into a "
        "scratch server. A worker does it. Exit codes: 0; 1 when there is nothing to drill, or it is drilled already; "
        "2 for bad usage."
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
        ids = source.assignments.values_list("pk", flat=True)
        enqueued = drills.drill_now(ids, by="a person at the command line")
        if not enqueued:
            text = "it has no backup, is paused, or a drill of it is on the backlog already"
            raise CommandError(f"{plain(source).plain}: nothing was put on the backlog: {text}", returncode=1)
        text = f"{plain(source).plain}: {enqueued} put on the backlog; `drill` shows what comes of it"
        self.stdout.write(as_json({"enqueued": enqueued}) if options["json"] else text)

    def _list(self, json: bool) -> None:
        rows = list(Assignment.objects.order_by(*NAMES[:2]).values_list(*NAMES))
        if json:
            self.stdout.write(as_json([dict(zip(KEYS, row, strict=True)) for row in rows]))
        else:
            shown = ((*row[:2], moment(row[2]), moment(row[3]), *row[4:6]) for row in rows)
            self.print_out(table(COLUMNS, shown))
