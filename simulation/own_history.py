"""The fleet of this installation as it was recorded: which source was there when, how long backups took, and which
source is under which policy. Facts that were not recorded are named as well, since a simulation is only as good as its
facts.

Sightings are the attempts of records (a question that was answered or was not, a copy from its start to its end), and
those check-ins of agents that were news, with the last one of each. Nothing is written.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from math import inf

from django.db.models import QuerySet

from external.formatting import several
from fleet.foreseeing.sightings import first_attempt_at
from jobs.conf import PROGRAM
from operations.backlog.surroundings import Surroundings
from simulation.fleet_file import SimulatedFleet, SimulatedPolicy
from simulation.recorded_sources import RecordedSources
from simulation.samples import ALL, WHOLE, SampleRequest, in_turn, units_in
from sources.models import Assignment, AtClose, Policy
from sources.planning.names import BACKUPS

LONGEST_DAYS = 90
AT_ONCE = 50
"""Sources that are read together."""


class HistoryTooShort(ValueError):
    """A fleet cannot be made of the recorded facts. The message names the reason."""


@dataclass(frozen=True)
class RecordedFleet:
    """A fleet with the number of whole days for which it is known, and sentences about the facts that are not. `read`
    of `sources` are in it, with their `share` of the load, and so of the `units`.
    """

    fleet: SimulatedFleet
    days: int
    lacks: list[str]
    units: int
    read: int
    sources: int
    share: Fraction


class History:
    """This installation's last `days` days, of which some sources are read at a time. `units`: their number if no
    worker is alive, whose units would count. `sampling`: the sources that are enough.

    Raises: HistoryTooShort naming what is missing; ValueError for a number of days that is not 1 to 90.
    """

    def __init__(self, now: datetime, days: int, units: int | None = None, sampling: SampleRequest = ALL) -> None:
        if not 1 <= days <= LONGEST_DAYS:
            raise ValueError(f"{days} days: simulate the last 1 to {LONGEST_DAYS}")
        self._policies = {each.pk: each for each in Policy.objects.select_related("schedule")}
        unreadable = [each.pk for each in self._policies.values() if each.problem]
        self._active = Assignment.objects.active().exclude(policy__in=unreadable)
        if not self._active.exists():
            raise HistoryTooShort(
                "no source is under a policy that is enabled and can be read: there is nothing to simulate"
            )
        here = Surroundings([], now).units[BACKUPS] or units
        if not here:
            raise HistoryTooShort("no worker is alive, so the number of units is not known: name one")
        self._asked, self._units = days, here
        since, self._begins, self.days = _recorded_days(now, days)
        self._recorded, self.read = RecordedSources(since, self._begins, self.days), 0
        self._loads = _loads(self._active, self._policies, now)
        self._sources = sampling.chosen(self._active, self._loads)

    @property
    def sources(self) -> int:
        """The number of sources that there are, of which `read` have been read."""
        return len(self._loads)

    def read_on(
        self, most: float = inf, until: float = inf, progress: Callable[[float], None] = lambda share: None
    ) -> None:
        """Read until `most` sources have been read, or `until` of the monotonic clock, but some. `progress` gets the
        share that has been read."""
        wanted = self._sources[self.read : int(min(most, len(self._sources)))]
        for some in in_turn(wanted, AT_ONCE):
            if self.read and time.monotonic() > until:
                break
            active = self._active.filter(source__in=some)
            self._recorded.add(_assignments(active, self._policies))
            self.read += len(some)
            progress(self.read / len(self._sources))

    def fleet(self) -> RecordedFleet:
        """The fleet of the sources that have been read. Raises: HistoryTooShort."""
        if not (made := self._recorded.made()):
            raise HistoryTooShort(self._recorded.nothing())
        share = WHOLE
        if self.read < self.sources:
            of_read = sum(self._loads[each] for each in self._sources[: self.read])
            share = Fraction(of_read / sum(self._loads.values()))
        fleet = SimulatedFleet.model_construct(
            units=units_in(self._units, share), seed=1, start=self._begins,
            policies=[_policy(each) for each in self._recorded.policies], sources=made,
        )  # fmt: skip
        lacks = [*self._recorded.lacks(), _without_effect(self._recorded.policies)]
        if self.days < self._asked:
            begins = f"it begins on {self._begins:%Y-%m-%d}"
            lacks.insert(0, f"history is too short for {several(self._asked, 'day')}: {begins}")
        return RecordedFleet(fleet, self.days, lacks, self._units, self.read, self.sources, share)


def recorded_fleet(
    now: datetime,
    days: int,
    units: int | None = None,
    sampling: SampleRequest = ALL,
    progress: Callable[[float], None] = lambda share: None,
) -> RecordedFleet:
    """The fleet of the last `days` days. The rest, and what it raises: as for `History`."""
    history = History(now, days, units, sampling)
    history.read_on(progress=progress)
    return history.fleet()


def _loads(active: QuerySet[Assignment], policies: dict[int, Policy], now: datetime) -> dict[int, float]:
    """Source → the seconds of a unit that its backups take a day, by the last ones; the usual ones if none is known."""
    rows = list(active.order_by().values_list("source_id", "policy_id", "last_backup_for"))
    known = [seconds for *_, seconds in rows if seconds]
    usual = sum(known) / len(known) if known else 1.0
    a_day = {pk: _periods_a_day(policies[pk], now) for pk in {policy for _, policy, _ in rows} & policies.keys()}
    found: dict[int, float] = defaultdict(float)
    for source, policy, seconds in rows:
        found[source] += (seconds or usual) * a_day.get(policy, 1.0)
    return dict(found)


def _periods_a_day(policy: Policy, now: datetime) -> float:
    try:
        _, began, ends = policy.schedule.period.around(now)
    except ValueError:  # it has never fired, or does not any more
        return 1.0
    return timedelta(days=1) / (ends - began)


def _assignments(active: QuerySet[Assignment], policies: dict[int, Policy]) -> list[Assignment]:
    """The rows, with these policies: a copy of its policy for each of 100,000 takes longer than the rest."""
    found = [each for each in active.select_related("source").order_by("pk") if each.policy_id in policies]
    for each in found:
        each.policy = policies[each.policy_id]
    return found


def _recorded_days(now: datetime, days: int) -> tuple[datetime, datetime, int]:
    """The instant since which is read, the first midnight of the history, and the whole days since. Raises:
    HistoryTooShort."""
    since = _midnight(now - timedelta(days=days))
    first = first_attempt_at(since, days + 1)
    if first is None:
        raise HistoryTooShort(
            f"no attempt was recorded since {since:%Y-%m-%d}: there is no history; `{PROGRAM} simulate FLEET.json` "
            "takes a file"
        )
    begins = max(_midnight(first), since)
    whole = int((now - begins) / timedelta(days=1))
    if whole < 1:
        raise HistoryTooShort(
            f"history begins at {begins:%Y-%m-%d %H:%M} UTC: one whole day is needed, and it is not over"
        )
    return since, begins, whole


def _without_effect(policies: Collection[Policy]) -> str:
    """A sentence about the causes of delay that these policies have and that are not simulated."""
    present = {
        "throttles": any(each.schedule.throttle_id or each.seeding_limit for each in policies),
        "priorities": any(each.schedule.priority for each in policies),
        "excluded dates": any(each.excluded_dates for each in policies),
        "rules for the close of a window": any(
            each.only_if_it_fits or each.at_close != AtClose.FINISH for each in policies
        ),
    }
    named = ["failures", "breakers", *(name for name, is_there in present.items() if is_there)]
    return f"the effect of {', '.join(named[:-1])} and {named[-1]}, which are not simulated"


def _midnight(instant: datetime) -> datetime:
    return instant.replace(hour=0, minute=0, second=0, microsecond=0)


def _policy(policy: Policy) -> SimulatedPolicy:
    schedule = policy.schedule
    names = ("connect_timeout", "recheck_after", "wake_every", "wake_wait", "vanish_grace")
    return SimulatedPolicy.model_construct(
        name=schedule.name, period=schedule.cron, zone=schedule.zone, windows=policy.window,
        **{name: getattr(policy, name) for name in names},
    )  # fmt: skip
