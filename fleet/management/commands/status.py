import sys
from argparse import ArgumentParser
from dataclasses import asdict, replace
from typing import Any

from declarations.surfaces.commands.base import VerbCommand
from declarations.surfaces.terminal import columns, one_line, table
from fleet.foreseeing.latest_look import latest_look
from fleet.status import FIRST_STEPS, reasons_of, rows_of, summary
from jobs.clock import database_clock
from jobs.conf import PROGRAM
from operations.backlog import HINTS
from operations.backlog.attention import attention
from operations.backlog.summary import summary as backlog_summary
from sources.models import Source

SHOWN = 20
COLUMNS = columns("source", "status", "why")


class Command(VerbCommand):
    help = (
        "Report in one sentence how well the sources are protected, and name those that need an operator, the worst "
        "first, each with its reason, below what else keeps backups from being made or trusted: a hold, no worker, an "
        "open breaker, a paused queue, damage that a check found. Exit codes: 0 when all is well; 1 when anything is "
        "named, a record has given up, or nothing is protected; 2 for bad usage, or when the database does not answer."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print JSON, with all sources that need an operator")
        parser.set_defaults(verb="look")

    def _look(self, options: dict[str, Any]) -> None:
        now = database_clock()
        found = summary(now, None if self.json else SHOWN, need_alone=not self.json)
        around = replace(backlog_summary(now, without=["sources"], ended=False), dead_letters=0)
        lines = attention(around)
        hints = [line for ask in HINTS for line in ask(now)]
        risk = latest_look(now)
        worst = rows_of(found.worst, Source.objects.all())
        reasons = reasons_of(worst, now)
        rows = [(each.name, each.status.value, reasons[each.pk]) for each in worst]
        if self.json:
            facts = {
                "sentence": found.sentence, "is_well": found.is_well and not lines, "total": found.total,
                "protected": found.protected, "in_need": found.in_need, "dead_letters": found.dead_letters,
                "held": around.held, "attention": lines, "hints": hints, "by_status": found.by_status,
                "at_risk": asdict(risk),
                "sources": [dict(zip(("name", "status", "reason"), row, strict=True)) for row in rows],
            }  # fmt: skip
            self.answer(facts)
        else:
            sentence = f"{found.sentence}." if found.total else f"{found.sentence}. {FIRST_STEPS}."
            foreseen = [f"{risk.text}."] if risk.text else []
            self._print(rows, [*lines, sentence, *foreseen, *hints], found)
        if lines or not found.is_well:
            sys.exit(1)

    def _print(self, rows: list[tuple[str, str, str]], lines: list[str], found: Any) -> None:
        self.stdout.write("\n".join(one_line(line) for line in lines))
        if rows:
            self.print_out(table(COLUMNS, rows))
        if found.in_need > len(rows):
            more = found.in_need - len(rows)
            self.stdout.write(f"and {more:,} more: `{PROGRAM} sources --status STATUS` lists them")
        if found.dead_letters:
            self.stdout.write(f"`{PROGRAM} backlog errors` shows why records gave up.")
