"""The live table in the terminal: units at work, progress, and what happens next."""

from rich import box
from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from demo.state import Picture, Row
from demo.summary import Summary
from jobs.formatting import several

COLOURS = {"protected": "green", "copying": "cyan", "waiting": "yellow"}


def live_table(picture: Picture, footer: str) -> RenderableType:
    """The fleet at one moment."""
    table = Table(box=box.SIMPLE_HEAD, expand=True, pad_edge=False)
    columns = (("source", 3, 21), ("kind", 1, 10), ("now", 3, 20), ("", 2, 0), ("failed", 1, 6), ("next", 3, 7))
    for heading, ratio, least in columns:
        table.add_column(heading, ratio=ratio, min_width=least, no_wrap=True, overflow="ellipsis")
    for row in picture.rows:
        table.add_row(row.name, row.kind, _doing(row), _bar(row), str(row.failures or ""), _next(row))
    headline = Text.assemble(
        (f"{picture.protected} of {len(picture.rows)} sources protected", "bold"),
        f"   {picture.busy} of {picture.units} execution units at work   {several(picture.workers, 'worker')}",
    )
    errors = [Text(f"{row.name}: {row.error}", style="yellow") for row in picture.rows if row.error]
    return Group(headline, table, *errors, Text(footer, style="dim"))


def _doing(row: Row) -> Text:
    return Text(row.doing, style=COLOURS.get(row.doing.split()[0], ""))


def _bar(row: Row) -> RenderableType:
    if row.share is None:
        return ""
    return ProgressBar(total=1.0, completed=row.share)


def _next(row: Row) -> str:
    if row.next:
        return row.next
    return f"due {row.next_backup_at:%a %H:%M} UTC" if row.next_backup_at else ""


def summary_table(summary: Summary) -> RenderableType:
    """What a finished run achieved."""
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("source", "kind", "outcome", "attempts", "bytes", "seconds", "identical"):
        table.add_column(heading, justify="right" if heading in ("attempts", "bytes", "seconds") else "left")
    for source in summary.sources:
        table.add_row(
            source.name,
            source.kind,
            source.outcome,
            str(source.attempts),
            "" if source.bytes is None else f"{source.bytes:,}",
            "" if source.seconds is None else f"{source.seconds:.1f}",
            {None: "", True: "yes", False: "NO"}[source.identical],
        )
    back = [
        Text(
            f"restored {each.path} of {each.source} by {each.engine}: {each.bytes:,} bytes in {each.seconds:.1f} s, "
            + ("identical" if each.identical else "NOT IDENTICAL")
        )
        for each in summary.restored
    ]
    protected = f"{summary.protected} of {summary.reachable} reachable sources protected in {summary.seconds:.0f} s"
    return Group(table, *back, Text(protected, style="bold green" if summary.complete else "bold red"))
