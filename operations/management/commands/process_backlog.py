import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db.utils import Error

from jobs import conf
from jobs.retries import tiers
from jobs.retries.sweeps import LARGEST, Swept, sweep_by_hand
from operations.management.base import unanswered

OLDEST_DAYS = tiers.OLDEST // tiers.DAY


class Command(BaseCommand):
    help = (
        "Sweep now: make ready what waits for a sweep of the progressive schedule and is at most DAYS old, the newest "
        "first, also what has just failed. Records of other retry policies wait for an instant of their own: for those "
        "see `manage.py backlog retry`. The sweeps by the clock go on as they would have. Exit codes: 0, also when "
        "nothing waited; 2 for bad usage, or when the database does not answer."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("days", type=int, metavar="DAYS", help=f"age of the oldest, 1 to {OLDEST_DAYS}")
        parser.add_argument(
            "--max-records",
            type=int,
            metavar="N",
            help=f"make at most so many ready, 1 to {LARGEST:,}; left out: JOBS['SWEEP_MAX_RECORDS']",
        )
        parser.add_argument("--dry-run", action="store_true", help="say how many it would be, and change nothing")
        parser.add_argument("--json", action="store_true", help="print {max_age_days, ready, left_some, …}")

    def handle(self, *args: Any, **options: Any) -> None:
        days, most = options["days"], options["max_records"]
        if not 1 <= days <= OLDEST_DAYS:
            raise CommandError(f"DAYS is a number from 1 to {OLDEST_DAYS}, not {days}", returncode=2)
        if most is not None and not 1 <= most <= LARGEST:
            raise CommandError(f"--max-records is a number from 1 to {LARGEST:,}, not {most}", returncode=2)
        try:
            swept = sweep_by_hand(days, max_records=most, dry_run=options["dry_run"])
        except Error as error:
            raise unanswered(error, "nothing was swept: ") from error
        if options["json"]:
            self.stdout.write(json.dumps(asdict(swept) | {"dry_run": options["dry_run"]}))
        else:
            self.stdout.write(_describe(swept, most or conf.sweep_max_records(), options["dry_run"]))


def _describe(swept: Swept, most: int, dry_run: bool) -> str:
    old = "1 day" if swept.max_age_days == 1 else f"{swept.max_age_days} days"
    if not swept.ready and not swept.skipped:
        return f"No record up to {old} old waits for a sweep."
    noun = "record is" if swept.ready == 1 else "records are"
    told = f"{swept.ready:,} {noun.replace('is', 'would be').replace('are', 'would be') if dry_run else noun} ready"
    if swept.left_some:
        return f"{told}; older ones were left, since {most:,} is the most for one sweep: run it again, or --max-records"
    if swept.skipped:
        return f"{told}; others are held by somebody else at this moment: run it again"
    return f"{told}; nothing up to {old} old waits for a sweep any more." if not dry_run else f"{told}."
