import sys
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from declarations.surfaces.commands.base import VerbCommand
from declarations.surfaces.terminal import columns, table
from external.formatting import several
from jobs.clock import database_clock
from simulation import accuracy, changes, fleet_file, gains, own_changes, schedulers, what_if
from simulation.bound import BoundUnknown, bound
from simulation.fleet_file import SimulatedFleet
from simulation.own_history import recorded_fleet
from simulation.results import Ledger, Result

HEADERS = columns(
    "scheduler", "protected>", "possible>", "share>", "of bound>", "never seen>", "never protected>", "gap p50>",
    "p95>", "max, days>", "busy>", "packets>", "aborted>",
)  # fmt: skip
AT_RISK = columns(
    "protected?", "asked>", "missed>", "right>", "Brier>", "precision>", "recall>", "unnamed>", "foreseen>"
)
STARTS = columns("starts of", "number>", "within 1 min>", "10 min>", "an hour>", "in the interval>", "widened by>")
MOVED = columns("source", "misses as it is>", "with the change>")
SHOWN = 20


class Command(VerbCommand):
    help = (
        "Simulate a fleet: how many of its sources each scheduler protects in each period, what it misses and "
        "what it costs, next to the bound of what was possible. The file says who is there when and how long "
        "backups take; its JSON Schema is fixtures/simulated_fleet.schema.json, and "
        "fixtures/fleet_700_laptops.json is one. With --from-history it is the fleet of this installation, as "
        "its last days were recorded. lookahead decides as this product does; fifo is a plain queue, proactive "
        "the published algorithm. With --parts lookahead is simulated with each part of the order that is off, "
        "too, to see what it would bring; with --accuracy instead the forecast of starts and of what is at "
        "risk is compared with what comes. With a change (--units, --policy, --add) lookahead alone is "
        "simulated, with it and without, and the difference is printed. Nothing is written. Exit code 2 for "
        "bad usage, and for a history that is too short."
    )
    needs_tables = False  # a fleet of a file

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", nargs="?", type=Path, metavar="FLEET.json", help="the fleet")
        parser.add_argument(
            "--from-history",
            type=int,
            metavar="DAYS",
            help="the fleet of this installation, as it was in the last DAYS days",
        )
        parser.add_argument("--days", type=int, metavar="N", help="of its time (14; all of a history)")
        parser.add_argument(
            "--seed",
            type=int,
            metavar="N",
            help="of the random numbers (the file's): the same seed gives the same result",
        )
        parser.add_argument(
            "--scheduler", default=",".join(schedulers.SCHEDULERS), metavar="NAMES",
            help=f"with commas between them ({','.join(schedulers.SCHEDULERS)}); docs/simulation.md has parts that can "
            "be turned on and off, such as lookahead-resume+share",
        )  # fmt: skip
        parser.add_argument(
            "--parts", action="store_true", help="show the effect on this fleet of each part of the order that is off"
        )
        parser.add_argument(
            "--accuracy", action="store_true", help="measure how accurate the forecast is on this fleet, from day 8 on"
        )
        parser.add_argument("--no-bound", action="store_true", help="do not compute the bound of what was possible")
        tried = parser.add_argument_group("what if")
        tried.add_argument("--units", type=int, metavar="N", help="with this many execution units")
        tried.add_argument(
            "--policy", action="append", default=[], metavar="NAME.SETTING=VALUE",
            help="such as daily.window='mon-fri 18:00-06:00; sat 00:00-00:00', daily.cron='0 7 * * *', "
            "daily.wake_every=2h",
        )  # fmt: skip
        tried.add_argument(
            "--add", action="append", nargs="+", default=[], metavar="WORD", help="such as 50 laptops like NAME"
        )
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.set_defaults(verb="simulate")

    def _simulate(self, options: dict[str, Any]) -> None:
        names, days = schedulers.named(options["scheduler"]), options["days"]
        if (options["file"] is None) == (options["from_history"] is None):
            raise ValueError("name a file, or --from-history DAYS")
        if days is not None and not 1 <= days <= schedulers.LONGEST_DAYS:
            raise ValueError(f"--days {days}: simulate 1 to {schedulers.LONGEST_DAYS} days")
        tried = changes.Changes(
            options["units"],
            tuple(changes.policy_setting(each) for each in options["policy"]),
            tuple(changes.addition(each) for each in options["add"]),
        )
        is_changed, lacks = tried != changes.Changes(), list[str]()
        if is_changed and (options["parts"] or options["accuracy"]):
            raise ValueError("--parts and --accuracy are of the fleet as it is: leave out --units, --policy and --add")
        if options["accuracy"] and days is not None:
            accuracy.check_days(days)
        if options["file"] is not None:
            fleet, days = fleet_file.read(options["file"]), days or 14
            changed = tried.made_to(fleet)
        else:
            own_changes.check(tried)
            with _progress() as progress:
                read = _into(progress, progress.add_task("reading the history", total=1.0))
                found = recorded_fleet(database_clock(), options["from_history"], options["units"], progress=read)
            fleet, days, lacks = found.fleet, min(days or found.days, found.days), found.lacks
            changed = own_changes.made_to(found, tried)
        if options["seed"] is not None:
            fleet, changed = (each.model_copy(update={"seed": options["seed"]}) for each in (fleet, changed))
        if options["accuracy"]:
            self._measure(fleet, days, lacks)
            return
        if options["parts"]:
            names = list(dict.fromkeys([*names, *gains.to_try()]))
        if is_changed:
            self._compare(fleet, changed, days, lacks)
        else:
            self._by_scheduler(fleet, names, days, lacks, with_bound=not options["no_bound"])

    def _compare(self, fleet: SimulatedFleet, changed: SimulatedFleet, days: int, lacks: list[str]) -> None:
        with _progress() as progress:
            task = progress.add_task("as it is, and changed", total=1.0)
            found = what_if.compare(fleet, changed, days, progress=_into(progress, task))
        moved = [*found.worse[:SHOWN], *found.better[:SHOWN]]
        lines = [f"{several(found.days, 'day')}, simulated twice", *what_if.as_text(found), *_noted(lacks)]
        self.answer(
            found.as_facts | {"lacks": lacks}, "\n".join(lines),
            lambda: table(MOVED, [tuple(map(str, each)) for each in moved]) if moved else "",
        )  # fmt: skip

    def _measure(self, fleet: SimulatedFleet, days: int, lacks: list[str]) -> None:
        with _progress() as progress:
            task = progress.add_task("the forecast", total=1.0)
            found = accuracy.accuracy_of(fleet, days, _into(progress, task))
        hours, starts = found.as_facts["hours"], found.as_facts["starts"]
        self.answer(
            found.as_facts | {"lacks": lacks},
            lambda: table(AT_RISK, [(name, *map(_shown, each.values())) for name, each in hours.items()]),
            lambda: table(STARTS, [_of_starts(group, each) for group, each in starts.items()]),
            *_noted(lacks),
        )

    def _by_scheduler(
        self, fleet: SimulatedFleet, names: list[str], days: int, lacks: list[str], *, with_bound: bool
    ) -> None:
        ledgers: dict[str, Ledger] = {}
        with _progress() as progress:
            for name in names:
                task = progress.add_task(name, total=1.0)
                ledgers[name] = schedulers.simulate(fleet, name, days, progress=_into(progress, task))
                if not ledgers[name].pairs()[0]:
                    raise ValueError(f"{what_if.nobody_there(days)}, in its window: there is nothing to simulate")
            possible, lacking = _bound(ledgers[names[0]], progress) if with_bound else (None, "")
        results = {name: ledger.result(possible) for name, ledger in ledgers.items()}
        found = gains.gains(results)
        facts = {
            "units": fleet.units, "sources": len(fleet.sources), "days": days, "seed": fleet.seed,
            "bound": None if possible is None else round(possible, 1), "bound_lacks": lacking, "lacks": lacks,
            "schedulers": {name: each.as_facts() for name, each in results.items()},
            "off": gains.off_as_text(), "gains": [each.as_facts for each in found],
        }  # fmt: skip
        shown = table(HEADERS, [_row(name, each) for name, each in results.items()])
        notes = [*([f"of bound is empty: {lacking}"] if lacking else []), *_noted(lacks)]
        self.answer(facts, lambda: shown, *map(str, found), *notes, *([] if found else _off()))


def _off() -> list[str]:
    return [f"a part of the order that is off: {each} (--parts shows its effect)" for each in gains.off_as_text()]


def _noted(lacks: list[str]) -> list[str]:
    return [f"not known: {each}" for each in lacks]


def _bound(ledger: Ledger, progress: Progress) -> tuple[float | None, str]:
    """The bound of what was possible, and a sentence without its full stop if that is not known."""
    progress.add_task("bound", total=None)
    try:
        return bound(ledger), ""
    except BoundUnknown as error:
        return None, str(error)


def _progress() -> Progress:
    """A bar a scheduler, if a user sees it."""
    return Progress(
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:3.0f} %"), TimeRemainingColumn(),
        console=Console(file=sys.__stderr__), disable=not sys.stderr.isatty(), transient=True,
    )  # fmt: skip


def _into(progress: Progress, task: TaskID) -> Callable[[float], None]:
    return lambda share: progress.update(task, completed=share)


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.2f}"


def _of_starts(group: str, found: dict[str, Any]) -> list[str]:
    shares = [*found["within"], found["inside"]]
    return [group, f"{found['number']:,}", *(f"{share:.0%}" for share in shares), f"{found['factor']:.2f}"]


def _row(name: str, result: Result) -> list[str]:
    of_bound = "–" if result.of_bound is None else f"{result.of_bound:.3f}"
    return [
        name, f"{result.protected:,}", f"{result.possible:,}", f"{result.share:.3f}", of_bound,
        f"{result.never_seen:,}", f"{result.never_protected:,}", f"{result.gap_days_p50:.1f}",
        f"{result.gap_days_p95:.1f}", f"{result.gap_days_max:.1f}", f"{result.utilisation:.0%}",
        f"{result.wake_packets:,}", f"{result.aborted:,}",
    ]  # fmt: skip
