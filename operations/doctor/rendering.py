"""The findings for people, the worst first."""

from collections import Counter
from collections.abc import Sequence
from io import StringIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from operations.doctor.finding import Finding, Severity, several
from operations.printable import printable

COLOURS = {Severity.OK: "green", Severity.WARNING: "yellow", Severity.PROBLEM: "bold red"}
WORST_FIRST = (Severity.PROBLEM, Severity.WARNING, Severity.OK)


def report(findings: Sequence[Finding], *, width: int, colours: bool = False) -> str:
    """A table of `width` characters, and one line that sums it up."""
    table = Table.grid(padding=(0, 2))
    for finding in sorted(findings, key=lambda finding: WORST_FIRST.index(finding.severity)):
        text = Text(finding.what)
        if finding.do:
            text.append(f"\n→ {finding.do}", style="bold")
        table.add_row(Text(finding.severity, style=COLOURS[finding.severity]), finding.name, text)
    page = StringIO()
    console = Console(file=page, width=width, force_terminal=colours, no_color=not colours, highlight=False)
    console.print(table)
    console.print(Text(summed_up(findings)))
    lines = page.getvalue().removesuffix("\n").split("\n")
    return printable("".join(f"{line.rstrip()}\n" for line in lines), colours=colours)


def summed_up(findings: Sequence[Finding]) -> str:
    """As “1 problem, 2 warnings, 15 ok”."""
    counts = Counter(finding.severity for finding in findings)
    problems, warnings = counts[Severity.PROBLEM], counts[Severity.WARNING]
    return f"{several(problems, 'problem')}, {several(warnings, 'warning')}, {counts[Severity.OK]} ok"
