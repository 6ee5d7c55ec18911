import json
import shutil
import sys
import textwrap
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db.utils import Error

from jobs import database_errors
from jobs.formatting import several
from operations.doctor import Finding, Severity, examine, names
from operations.printable import printable

WIDTH_OF_A_FILE, WIDTH_OF_A_SEVERITY = 120, 7
BOLD = "\x1b[1m"
COLOURS = {Severity.PROBLEM: "\x1b[1;31m", Severity.WARNING: "\x1b[33m", Severity.OK: "\x1b[32m"}
"""The worst first."""


class Command(BaseCommand):
    help = (
        "Look at the running system and say what is wrong and what to do: the settings, the database and its health, "
        "the workers, the queues. It changes nothing and takes a second or two. Exit code 0: no problem (warnings do "
        "not fail); 1: at least one problem; 2: the database is away, or bad usage. docs/operations.md explains each "
        "finding."
    )
    # the doctor says itself what the system checks would end it with
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print a list of {name, severity, what, do, numbers}")
        parser.add_argument(
            "--skip",
            action="append",
            default=[],
            metavar="NAME",
            help="leave this finding out, as one that you accept; may be given more than once",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if unknown := [name for name in options["skip"] if name not in names()]:
            raise CommandError(f"--skip: no finding {unknown[0]!r}; there are {', '.join(names())}", returncode=2)
        try:
            findings = examine(skip=options["skip"])
        except Error as error:
            raise CommandError(
                database_errors.describe(error) or database_errors.describe_away(error), returncode=2
            ) from error
        if options["json"]:
            self.stdout.write(json.dumps([asdict(finding) for finding in findings], indent=2, ensure_ascii=False))
        else:
            width = shutil.get_terminal_size((WIDTH_OF_A_FILE, 0)).columns
            colours = options["force_color"] or (self.stdout.isatty() and not options["no_color"])
            self.stdout.write(report(findings, width=width, colours=colours), ending="")
        if any(finding.severity is Severity.PROBLEM for finding in findings):
            sys.exit(1)


def report(findings: Sequence[Finding], *, width: int, colours: bool = False) -> str:
    """A table of `width` characters, the worst first, and one line as “1 problem, 2 warnings, 15 ok”."""
    names = max((len(finding.name) for finding in findings), default=0)
    margin = " " * (WIDTH_OF_A_SEVERITY + names + 4)
    lines = []
    for finding in sorted(findings, key=lambda finding: list(COLOURS).index(finding.severity)):
        what, do = _folded(finding.what, width - len(margin)), f"→ {finding.do}" if finding.do else ""
        steps = [_styled(line, BOLD if colours else "") for line in _folded(do, width - len(margin))]
        severity = _styled(f"{finding.severity:{WIDTH_OF_A_SEVERITY}}", COLOURS[finding.severity] if colours else "")
        lines.append(f"{severity}  {finding.name:{names}}  {what[0] if what else ''}")
        lines += [f"{margin}{line}" for line in (*what[1:], *steps)]
    counts = Counter(finding.severity for finding in findings)
    problems, warnings = several(counts[Severity.PROBLEM], "problem"), several(counts[Severity.WARNING], "warning")
    lines.append(f"{problems}, {warnings}, {counts[Severity.OK]} ok")
    return printable("".join(f"{line.rstrip()}\n" for line in lines), colours=colours)


def _folded(text: str, width: int) -> list[str]:
    return [line for each in text.splitlines() for line in textwrap.wrap(each, max(width, 20))]


def _styled(text: str, style: str) -> str:
    return f"{style}{text}\x1b[0m" if style else text
