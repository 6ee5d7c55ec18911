import sys
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from declarations.surfaces.commands.base import VerbCommand
from declarations.surfaces.terminal import columns, table
from simulation import fleet_file, schedulers
from simulation.bound import BoundUnknown, bound
from simulation.results import Ledger, Result

HEADERS = columns(
    "scheduler", "protected>", "possible>", "share>", "of bound>", "never seen>", "never protected>", "gap p50>",
    "p95>", "max, days>", "busy>", "packets>", "aborted>",
)  # fmt: skip


class Command(VerbCommand):
    help = (
        "Simulate a fleet: how many of its sources each scheduler protects in each period, what it misses and what it "
        "costs, beside what was possible at all. The file says who is there when and how long backups take; its JSON "
        "Schema is fixtures/simulated_fleet.schema.json, and fixtures/fleet_700_laptops.json is one. lookahead decides "
        "as this product does; fifo is a plain queue, proactive the published algorithm. No database is read or "
        "written. Exit code 2 for bad usage."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, metavar="FLEET.json", help="the fleet")
        parser.add_argument("--days", type=int, default=14, metavar="N", help="of its time (14)")
        parser.add_argument(
            "--seed", type=int, metavar="N", help="of chance (the file's): the same one, the same result"
        )
        parser.add_argument(
            "--scheduler", default=",".join(schedulers.SCHEDULERS), metavar="NAMES",
            help=f"with commas between them ({','.join(schedulers.SCHEDULERS)}); docs/simulation.md has parts that can "
            "be added, as lookahead+resume+sizes",
        )  # fmt: skip
        parser.add_argument("--no-bound", action="store_true", help="do not work out what was possible at all")
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.set_defaults(verb="simulate")

    def _simulate(self, options: dict[str, Any]) -> None:
        names, days = schedulers.named(options["scheduler"]), options["days"]
        if not 1 <= days <= schedulers.LONGEST_DAYS:
            raise ValueError(f"--days {days}: simulate 1 to {schedulers.LONGEST_DAYS} days")
        fleet = fleet_file.read(options["file"])
        ledgers: dict[str, Ledger] = {}
        with _progress() as progress:
            for name in names:
                task = progress.add_task(name, total=1.0)
                ledgers[name] = schedulers.simulate(fleet, name, days, options["seed"], _into(progress, task))
            possible, lacking = (None, "") if options["no_bound"] else _bound(ledgers[names[0]], progress)
        results = {name: ledger.result(possible) for name, ledger in ledgers.items()}
        facts = {
            "units": fleet.units, "sources": len(fleet.sources), "days": days,
            "seed": fleet.seed if options["seed"] is None else options["seed"],
            "bound": None if possible is None else round(possible, 1), "bound_lacks": lacking,
            "schedulers": {name: each.as_facts() for name, each in results.items()},
        }  # fmt: skip
        shown = table(HEADERS, [_row(name, each) for name, each in results.items()])
        self.answer(facts, lambda: shown, *([f"of bound is empty: {lacking}"] if lacking else []))


def _bound(ledger: Ledger, progress: Progress) -> tuple[float | None, str]:
    """What was possible, and a sentence without its full stop when that is not known."""
    progress.add_task("bound", total=None)
    try:
        return bound(ledger), ""
    except BoundUnknown as error:
        return None, str(error)


def _progress() -> Progress:
    """A bar a scheduler, where a person sees it."""
    return Progress(
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:3.0f} %"), TimeRemainingColumn(),
        console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True,
    )  # fmt: skip


def _into(progress: Progress, task: TaskID) -> Callable[[float], None]:
    return lambda share: progress.update(task, completed=share)


def _row(name: str, result: Result) -> list[str]:
    of_bound = "–" if result.of_bound is None else f"{result.of_bound:.3f}"
    return [
        name, f"{result.protected:,}", f"{result.possible:,}", f"{result.share:.3f}", of_bound,
        f"{result.never_seen:,}", f"{result.never_protected:,}", f"{result.gap_days_p50:.1f}",
        f"{result.gap_days_p95:.1f}", f"{result.gap_days_max:.1f}", f"{result.utilisation:.0%}",
        f"{result.wake_packets:,}", f"{result.aborted:,}",
    ]  # fmt: skip
