"""The rows of django-q2 that this installation needs, and the differences of an existing row from its wanted state.

A periodic task is recognised by its name, or else by the function that it calls. A sweep's `next_run` is on the grid of
its tier (`jobs/retries/tiers.py`): django-q2 only ever adds the interval to it, so it stays there.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django_q.models import Schedule as PeriodicTask

from external.formatting import several
from jobs.retries import tiers

SKEW = timedelta(minutes=1)
"""django-q2 goes by the clock of its host, which may be ahead of the database's."""

HOW_OFTEN = {300: "every 5 minutes", 3_600: "hourly", 86_400: "daily"}


@dataclass(frozen=True)
class WantedTask:
    """A periodic task as wanted. `every` in seconds; `on_grid`: it runs at multiples of that since the epoch."""

    name: str
    func: str
    args: str | None
    every: int
    on_grid: bool

    def fields(self) -> dict[str, Any]:
        """The wanted fields of django-q2's row, except `next_run`."""
        fields = {"name": self.name, "func": self.func, "args": self.args, "kwargs": None, "cluster": None}
        # not django-q2's daily: that keeps to the hour of a local day, and leaves the grid when clocks change
        if self.every == tiers.HOUR:
            often = {"schedule_type": PeriodicTask.HOURLY}
        else:
            often = {"schedule_type": PeriodicTask.MINUTES, "minutes": self.every // tiers.MINUTE}
        return {**fields, **often, "repeats": -1}

    def first_run(self, now: datetime) -> datetime:
        """The first run if it is installed at `now`: at once, or at its next slot."""
        if not self.on_grid:
            return now
        return datetime.fromtimestamp(tiers.slot_of(now.timestamp(), self.every) + self.every, UTC)

    def runs_as_it_should(self, next_run: datetime | None, now: datetime) -> bool:
        """True if its next run (aware; None if never) is on its grid, and no further ahead than one interval."""
        if next_run is None or next_run > now + timedelta(seconds=self.every) + SKEW:
            return False
        return not self.on_grid or next_run.timestamp() % self.every == 0

    def differences(self, task: PeriodicTask, now: datetime) -> dict[str, tuple[Any, Any]]:
        """Field → (the present value, the wanted value), for fields that differ."""
        found = {key: (getattr(task, key), value) for key, value in self.fields().items()}
        # django-q2's own form leaves an empty text for a missing value
        different = {key: (is_, to_be) for key, (is_, to_be) in found.items() if (is_ or None) != (to_be or None)}
        if not self.runs_as_it_should(task.next_run, now):
            different["next_run"] = (task.next_run, self.first_run(now))
        return different


def _of_tier(tier: tiers.Tier) -> WantedTask:
    often = HOW_OFTEN.get(tier.every, f"every {tier.every // tiers.HOUR} hours")
    old = f"{several(tier.max_age_days, 'day')} old"
    name = f"backlog sweep: up to {old}, {often}"
    return WantedTask(name, "jobs.periodic.process_backlog", f"({tier.max_age_days},)", tier.every, on_grid=True)


WANTED = (
    WantedTask("backlog tick", "jobs.periodic.tick", None, tiers.MINUTE, on_grid=False),
    WantedTask("backlog prune", "jobs.periodic.prune", None, tiers.HOUR, on_grid=False),
    *map(_of_tier, tiers.TIERS),
    WantedTask("backups at risk", "fleet.foreseeing.at_risk.keep", None, 15 * tiers.MINUTE, on_grid=True),
    WantedTask("alert digests", "alerting.digest.send_due", None, tiers.HOUR, on_grid=True),
)


def matched(tasks: Iterable[PeriodicTask]) -> tuple[dict[str, PeriodicTask], list[PeriodicTask]]:
    """The wanted tasks by their wanted names, and others that call the same functions: a user's, or a second copy."""
    left = list(tasks)
    found: dict[str, PeriodicTask] = {}
    for same in (_has_the_name, _calls_the_same):
        for wanted in WANTED:
            task = next((task for task in left if wanted.name not in found and same(task, wanted)), None)
            if task is not None:
                found[wanted.name] = task
                left.remove(task)
    functions = {wanted.func for wanted in WANTED}
    return found, [task for task in left if task.func in functions]


def _has_the_name(task: PeriodicTask, wanted: WantedTask) -> bool:
    return bool(task.name == wanted.name)


def _calls_the_same(task: PeriodicTask, wanted: WantedTask) -> bool:
    return (task.func, task.args or None) == (wanted.func, wanted.args)
