"""Cron expressions in a time zone: when a period begins. Pure.

The calendar is cronsim's, asked by the wall clock alone; the instant of a wall clock time is decided here, since
cronsim drops triggers in some gaps (`*/15 2 * * *` in Berlin) and doubles some in folds (`0 */2 * * *`):

* a local time that does not exist (a gap) fires at the first instant after the gap, together with those due there;
* a local time that exists twice (a fold) fires the first time only, unless the expression names all 24 hours: then an
  hour that comes twice fires twice, so that an hourly period has 23 and 25 triggers on the days of a change.

All instants that come out are aware and in UTC.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import cache, cached_property, lru_cache
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from external.formatting import several
from jobs.zones import zone_of

_ANY = datetime(2000, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_NONE = timedelta(0)
_SMALLEST = timedelta(microseconds=1)

MOST_REMEMBERED = 50_000

NAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
"""Words that other programs accept as an expression, and the five fields that they mean."""

FIELDS = {
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day of month": "1 to 31, or L for the last",
    "month": "1 to 12, or JAN to DEC",
    "day of week": "0 to 7 (0 and 7 are Sunday), or SUN to SAT",
}
"""The fields of an expression in their order, and their values."""


LONGEST_ABBREVIATION = 4


OF_NO_PLACE = {"localtime", "Factory", "posixrules", "leapseconds"}
"""Files next to those of zones: the first is the host's, so other hosts would keep another time."""


@cache
def _zones() -> frozenset[str]:
    there = available_timezones() - OF_NO_PLACE
    return frozenset(name for name in there if not name.startswith(("posix/", "right/")))


@cache
def check_zone(zone: str) -> None:
    """Raises: ValueError when `zone` is not the name of an IANA time zone."""
    if zone not in _zones():
        alike = _alike(zone)
        meant = f"did you mean {alike}?" if alike else "use an IANA name, such as Europe/Berlin or UTC"
        raise ValueError(f"unknown time zone {zone!r}; {meant}")


def _alike(zone: str) -> str:
    """The known zone that `zone` most resembles in its whole name or its last part. Empty if none is close."""
    by_whole = {name.lower(): name for name in sorted(_zones())}
    by_city = {name.lower().rpartition("/")[2]: name for name in sorted(_zones()) if "/" in name}
    asked = zone.lower().strip().replace(" ", "_")
    for names, word in ((by_whole, asked), (by_city, asked.rpartition("/")[2])):
        # all short names are alike: CEST is not EST
        cutoff = 0.75 if len(word) > LONGEST_ABBREVIATION else 1.0
        if found := get_close_matches(word, names, n=1, cutoff=cutoff):
            return names[found[0]]
    return ""


@lru_cache(maxsize=10_000)
def check_expression(expression: str) -> None:
    """Raises: ValueError when `expression` is not five-field cron, or can never fire (30 February)."""
    fields = expression.split()
    if name := NAMES.get(expression.strip().lower()):
        raise ValueError(f"cron {expression!r} is a name; write it in five fields, as `{name}`")
    if len(fields) != 5:
        raise ValueError(
            f"cron {expression!r} has {several(len(fields), 'field')}, not 5 ({', '.join(FIELDS)}), such as "
            "`0 9 * * 1-5`"
        )
    for name, field in zip(FIELDS, fields, strict=True):
        if problem := _problem_of_field(name, field):
            raise ValueError(f"cron {expression!r}: {problem}")
    try:
        next(CronSim(expression, _ANY))
    except (CronSimError, StopIteration):
        raise ValueError(f"cron {expression!r} never fires: no such date exists") from None


def _problem_of_field(name: str, field: str) -> str:
    """The problem with one field of an expression; empty if there is none."""
    alone = [field if each == name else "*" for each in FIELDS]
    try:
        CronSim(" ".join(alone), _ANY)
    except CronSimError:
        values = FIELDS[name]
        return (
            f"{field!r} is not a valid {name}; use {values}, * for all, 1,3 for some, 1-3 for a range, */2 for "
            "every second"
        )
    return ""


def from_fields(
    minute: str | int | None = None,
    hour: str | int | None = None,
    day_of_month: str | int | None = None,
    month: str | int | None = None,
    day_of_week: str | int | None = None,
) -> str:
    """The expression of five fields, each as in an expression; a field that is None, empty or `*` is left out.

    A minute that is left out while hours are not means on the hour: hours of `3,6,9` fire three times a day, as in the
    batch scheduler that this one follows. In an expression that would be 180 times; here that is `0-59`. Raises:
    ValueError naming the field.
    """
    given = (minute, hour, day_of_month, month, day_of_week)
    parts = {name: "*" if part is None else str(part).strip() or "*" for name, part in zip(FIELDS, given, strict=True)}
    for name, part in parts.items():
        if len(part.split()) != 1:
            raise ValueError(f"{name} {part!r} is more than one field; use {FIELDS[name]}, without spaces")
        if problem := _problem_of_field(name, part):
            raise ValueError(problem)
    if parts["minute"] == "*" and parts["hour"] != "*":
        parts["minute"] = "0"
    expression = " ".join(parts.values())
    check_expression(expression)
    return expression


def instant_of(wall: datetime, zone: ZoneInfo) -> datetime:
    """The first UTC instant at which the clocks of `zone` show the naive time `wall` or a later one.

    That is the first of two in a fold, and the end of the gap for a time that does not exist.
    """
    local = wall.replace(tzinfo=zone, fold=0)
    instant = local.astimezone(UTC)
    if _overlap(local) >= _NONE:
        return instant
    # read with the offset before the gap (fold 0) and with the one after it (fold 1): the gap ends between the two
    low = local.replace(fold=1).astimezone(UTC).replace(microsecond=0)
    high = instant.replace(microsecond=0)
    while high - low > _SECOND:
        middle = (low + (high - low) / 2).replace(microsecond=0)
        if _wall(middle.astimezone(zone)) < wall:
            low = middle
        else:
            high = middle
    return high


def _overlap(local: datetime) -> timedelta:
    """The time from the first reading of a local time to the second: negative in a gap, zero if it is unique."""
    first, second = local.replace(fold=0).utcoffset(), local.replace(fold=1).utcoffset()
    return (first or _NONE) - (second or _NONE)


def _wall(local: datetime) -> datetime:
    """The time on the wall: local, without its zone."""
    return local.replace(tzinfo=None, fold=0)


@dataclass(frozen=True)
class Period:
    """The periods into which a cron expression divides time in a zone: each trigger begins a new one."""

    expression: str
    zone: str

    @cached_property
    def tzinfo(self) -> ZoneInfo:
        """The zone in which its days are counted."""
        return zone_of(self.zone)

    def check(self) -> None:
        """Raises: ValueError if its expression or zone, written outside of the forms, cannot be read. Every call that
        needs a trigger raises it, too."""
        check_expression(self.expression)
        check_zone(self.zone)

    def next_after(self, instant: datetime) -> datetime:
        """The first trigger strictly after `instant` (aware). Returns an aware UTC instant."""
        return next(self.after(instant))

    def after(self, instant: datetime) -> Iterator[datetime]:
        """All triggers strictly after `instant`, in order. Raises: ValueError behind the last one of the year 9999."""
        self.check()
        previous = instant
        try:
            local = instant.astimezone(self.tzinfo)
            # in an hour that comes twice, times that were due earlier in it come again
            for found in self._triggers(_wall(local) - max(_overlap(local), _NONE)):
                if found > previous:
                    previous = found
                    yield found
        except OverflowError:
            pass
        raise ValueError(f"cron {self.expression!r} does not fire any more before the end of the calendar")

    def _triggers(self, wall: datetime) -> Iterator[datetime]:
        """The triggers that the wall clock shows after `wall`, in order; several may be the end of one gap."""
        zone = self.tzinfo
        simulation = CronSim(self.expression, wall)
        all_hours = len(simulation.hours) == 24
        again: deque[datetime] = deque()
        for shown in simulation:
            instant = instant_of(shown, zone)
            while again and again[0] <= instant:
                yield again.popleft()
            yield instant
            if all_hours and (overlap := _overlap(shown.replace(tzinfo=zone))) > _NONE:
                again.append(instant + overlap)

    def around(self, instant: datetime) -> tuple[datetime, datetime, datetime]:
        """The last two triggers at or before `instant`, and the next one: the period that it is in, and the one
        before. Remembered until the next trigger: working that out for 10,000 policies each minute takes 2 s."""
        known = _around.get(self)
        if known is None or not known[1] <= instant < known[2]:
            began = self.current(instant)
            if len(_around) >= MOST_REMEMBERED:
                _around.clear()
            known = _around[self] = (self.current(began - _SMALLEST), began, self.next_after(instant))
        return known

    def current(self, instant: datetime) -> datetime:
        """The last trigger at or before `instant`: the start of the period that it is in."""
        self.check()
        search = _wall(instant.astimezone(self.tzinfo)) + _SECOND
        for shown in CronSim(self.expression, search.replace(microsecond=0), reverse=True):
            if (began := instant_of(shown, self.tzinfo)) <= instant:
                break
        else:
            raise ValueError(f"cron {self.expression!r} never fired before {instant.isoformat()}")
        # in an hour that comes twice, times that the wall clock shows later may have been there already
        for following in self.after(began):
            if following > instant:
                break
            began = following
        return began


_around: dict[Period, tuple[datetime, datetime, datetime]] = {}
