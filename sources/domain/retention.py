"""Choice of the points in time that are kept: the last ones, the newest of each hour, day, week, month and year, and
all within a time of the newest. Pure.

Counted as restic and Borg do: an hour, day or week without a point does not count towards its number. No point is
removed because time passes: every number and time counts back from the newest point, so a source that is no longer
backed up loses none, unless it is retired (`Keep.gone_on`).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from external import durations
from jobs.zones import in_zone, zone_of

BUCKETS: dict[str, Callable[[datetime], tuple[int, ...]]] = {
    # of the hour that a change of clocks repeats, both count
    "hourly": lambda local: (local.year, local.month, local.day, local.hour, local.fold),
    "daily": lambda local: (local.year, local.month, local.day),
    "weekly": lambda local: tuple(local.isocalendar()[:2]),
    "monthly": lambda local: (local.year, local.month),
    "yearly": lambda local: (local.year,),
}
"""The hour, day, … of an instant in the policy's zone. Weeks are those of ISO 8601."""

EXAMPLE = 'write {"last": 7, "daily": 14, "weekly": 8, "monthly": 12, "within": "30d"}, or {} to keep all'
MOST = 100_000
USUAL = {"last": 7, "daily": 14, "weekly": 8, "monthly": 12}
NEWEST = "newest"
NEWEST_COMPLETE = "newest complete"
NEWEST_THERE = "newest of its repository"
MISSING = "missing"
"""Added to the reasons of a point that should stay and is known to be lost: another one stays in its place."""
DAMAGED = "damaged"
"""The same of one that is there and cannot be restored."""


def usual() -> dict[str, Any]:
    """The rules of a policy that names none."""
    return dict(USUAL)


@dataclass(frozen=True)
class Point:
    """A point in time of one assignment. `started_at` is aware; `complete`: nothing was left out of it, and it is not
    empty; `repository`: the one that it is in.
    """

    name: str
    started_at: datetime
    complete: bool = True
    repository: int = 0


@dataclass(frozen=True)
class KeptPoint:
    """A point and why it is kept, such as ("last", "weekly"); without a reason it is removed."""

    point: Point
    reasons: tuple[str, ...]


NextAfter = Callable[[datetime], datetime]


def _end_of(local: datetime, *, hourly: bool) -> datetime:
    """The last instant of the hour, or of the day, of a local time."""
    began = (
        local.replace(minute=0, second=0, microsecond=0)
        if hourly
        else local.replace(hour=0, minute=0, second=0, microsecond=0)
    )
    following = began.astimezone(UTC) + timedelta(hours=1) if hourly else began + timedelta(days=1)
    return following.astimezone(UTC) - timedelta(microseconds=1)


@dataclass(frozen=True)
class Keep:
    """Rules of retention. If no rule is given at all, everything is kept. `within` in seconds."""

    last: int = 0
    hourly: int = 0
    daily: int = 0
    weekly: int = 0
    monthly: int = 0
    yearly: int = 0
    within: float = 0

    @classmethod
    def parse(cls, rules: Any) -> "Keep":
        """Read the rules from a JSON object. Raises: ValueError naming the problem, and the right form."""
        if not isinstance(rules, dict):
            raise ValueError(f"what to keep is an object; {EXAMPLE}")
        found: dict[str, Any] = {}
        for name, value in rules.items():
            if name not in cls.__dataclass_fields__:
                raise ValueError(f"{name!r:.60} is not a rule of what to keep; {EXAMPLE}")
            if name == "within":
                found[name] = durations.parse(str(value), least=1)
            elif isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST:
                raise ValueError(f"{name} is {value!r:.60} and must be a whole number from 1 to {MOST:,}; {EXAMPLE}")
            else:
                found[name] = value
        return cls(**found)

    def gone_on(self, since: datetime, now: datetime, zone: str, next_after: NextAfter) -> "Keep | None":
        """The rest of these rules at `now`, had a point been made by each trigger after `since`: a number is less by
        those points, or by the hours, days, … in which one was made, and `within` by the time. None if nothing is left,
        so no point is kept any more.

        `next_after`: the first trigger after an instant. It is called only as often as the rules need.
        """
        if self == Keep():
            return self
        last, left = self.last, {name: getattr(self, name) for name in BUCKETS}
        local = zone_of(zone)
        seen = {name: bucket(in_zone(since, local)) for name, bucket in BUCKETS.items()}
        at = next_after(since)
        while at <= now and (last or any(left.values())):
            last = max(0, last - 1)
            for name, bucket in BUCKETS.items():
                if left[name] and bucket(in_zone(at, local)) != seen[name]:
                    seen[name], left[name] = bucket(in_zone(at, local)), left[name] - 1
            at = next_after(at if last else _end_of(in_zone(at, local), hourly=bool(left["hourly"])))
        rest = Keep(last=last, within=max(0.0, self.within - (now - since).total_seconds()), **left)
        return rest if rest != Keep() else None

    def apply(self, points: Iterable[Point], zone: str) -> list[KeptPoint]:
        """The decision about each point. `points`: as they were made, the newest first, which differs from the order of
        their times if the clock was put back. `zone`: IANA, in which days begin.

        The newest point and the newest complete one always stay, and the newest one of each repository: it holds the
        files that older ones share with it.
        """
        ordered = list(points)
        rules = {name: getattr(self, name) for name in BUCKETS}
        counts, seen = dict.fromkeys(rules, 0), dict[str, tuple[int, ...]]()
        homes: set[int] = set()
        complete = next((point for point in ordered if point.complete), None)
        found = []
        for number, point in enumerate(ordered):
            local = in_zone(point.started_at, zone_of(zone))
            reasons = ["all"] if self == Keep() else []
            if number < self.last:
                reasons.append("last")
            for name, most in rules.items():
                bucket = BUCKETS[name](local)
                if counts[name] < most and seen.get(name) != bucket:
                    counts[name], seen[name] = counts[name] + 1, bucket
                    reasons.append(name)
            if self.within and point.started_at > ordered[0].started_at - timedelta(seconds=self.within):
                reasons.append("within")
            if not reasons and number == 0:
                reasons.append(NEWEST)
            if not reasons and point is complete:
                reasons.append(NEWEST_COMPLETE)
            if not reasons and point.repository not in homes:
                reasons.append(NEWEST_THERE)
            homes.add(point.repository)
            found.append(KeptPoint(point, tuple(reasons)))
        return found
