from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.db.utils import Error

from declarations.surfaces.commands.base import TerminalCommand, unanswered
from external.formatting import several
from jobs import conf
from jobs.retries import tiers
from jobs.sweeps import LARGEST, Swept, sweep_by_hand
from operations.backlog.arguments import number

OLDEST = tiers.OLDEST // tiers.DAY


HELP = (
    "Sweep now: make records ready that wait for a sweep of the progressive schedule and are at most DAYS old, "
    "the newest first, also those that have just failed. Records of other retry policies wait for a separate "
    f"instant: for those see `{conf.PROGRAM} backlog retry`. The scheduled sweeps are not affected. Exit codes: "
    "0, also if nothing waited; 2 for bad usage, or when the database does not answer."
)


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("days", type=number("number of days", OLDEST), metavar="DAYS", help="age of the oldest")
    parser.add_argument(
        "--max-records", type=number("number of records", LARGEST), metavar="N",
        help=f"make at most this many ready, up to {LARGEST:,}; left out: JOBS['SWEEP_MAX_RECORDS']",
    )  # fmt: skip
    parser.add_argument("--dry-run", action="store_true", help="count them, and change nothing")


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    most, dry_run = options["max_records"], options["dry_run"]
    try:
        swept = sweep_by_hand(options["days"], max_records=most, dry_run=dry_run)
    except Error as error:
        raise unanswered(error, "nothing was swept: ") from error
    command.answer(asdict(swept) | {"dry_run": dry_run}, _describe(swept, most or conf.sweep_max_records(), dry_run))


def _describe(swept: Swept, most: int, dry_run: bool) -> str:
    old = "1 day" if swept.max_age_days == 1 else f"{swept.max_age_days} days"
    if not swept.ready and not swept.skipped:
        return f"No record up to {old} old waits for a sweep."
    verb = "would be" if dry_run else "is" if swept.ready == 1 else "are"
    text = f"{several(swept.ready, 'record')} {verb} ready"
    if swept.left_some:
        return f"{text}; older ones were left, since {most:,} is the most for one sweep: run it again, or --max-records"
    if swept.skipped:
        return f"{text}; others are held by another process at this moment: run it again"
    return f"{text}." if dry_run else f"{text}; nothing up to {old} old waits for a sweep any more."
