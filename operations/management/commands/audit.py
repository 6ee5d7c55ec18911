from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from audit import entries
from audit.models import AuditEntry
from declarations.surfaces.commands.base import VerbCommand, patiently
from declarations.surfaces.terminal import columns
from external import durations
from external.formatting import moment
from jobs.clock import database_clock

COLUMNS = columns("at (UTC)", "who", "by way of", "what", "done")
MAX_LIMIT = 100_000


class Command(VerbCommand):
    help = (
        "Show who changed what: sources, policies, repositories, schedules, throttles, routes, secrets, accounts and "
        "their rights, pauses and holds, in the web, over the API, by a command, a fleet file or SQL. With the values "
        "before and after, but for secrets. Oldest first. Exit codes: 0; 1 when there is nothing; 2 for bad usage."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("verb", nargs="?", choices=("list",), help="what to do: list")
        parser.add_argument(
            "--since", default="7d", metavar="WHEN", help="90m, 7d or 2026-03-02T12:00 (UTC; %(default)s)"
        )
        parser.add_argument("--until", metavar="WHEN", help="in the same form (now)")
        parser.add_argument("--name", metavar="NAME", help="only of rows that had this name")
        parser.add_argument("--who", metavar="WHO", help="only by this account, or system user with its host")
        parser.add_argument("--limit", type=int, default=200, metavar="N", help="the latest N entries (%(default)s)")
        keys = "id, at, who, via, about, row_id, name, verb, changes, text"
        parser.add_argument("--json", action="store_true", help=f"print a list of {{{keys}}}; changes: [before, after]")

    def _list(self, options: dict[str, Any]) -> None:
        if not 1 <= options["limit"] <= MAX_LIMIT:
            raise ValueError(f"--limit {options['limit']}: give 1 to {MAX_LIMIT}")
        now = database_clock()
        since = durations.instant(options["since"], now)
        chosen = AuditEntry.objects.filter(at__gte=since)
        if options["until"] is not None:
            until = durations.instant(options["until"], now)
            if since > until:
                raise ValueError(f"--since {options['since']} is after --until {options['until']}")
            chosen = chosen.filter(at__lt=until)
        for field in ("name", "who"):
            if options[field] is not None:
                chosen = chosen.filter(**{field: options[field]})
        with patiently("give a later --since"):
            latest = list(chosen.order_by("-at", "-pk")[: options["limit"] + 1])
        if len(latest) > options["limit"]:
            self.stderr.write(
                f"these are the latest {options['limit']:,} entries; --limit N shows more", self.style.NOTICE
            )
        found = entries.facts(latest[: options["limit"]][::-1])
        self.list_out(found, COLUMNS, _row, f"Nothing was changed since {moment(since)} UTC.")
        if not found:
            raise CommandError("there is no entry", returncode=1)


def _row(facts: dict[str, Any]) -> tuple[object, ...]:
    what = f"{facts['about']} {facts['name']}" if facts["name"] else facts["about"]
    return moment(facts["at"]), facts["who"], facts["via"], what, entries.sentence(facts)
