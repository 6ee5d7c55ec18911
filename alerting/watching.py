"""The watch over the scheduler: once a minute, all conditions whose findings are alerts.

A worker or qcluster does it, whichever comes first, so each notices the death of the other; the service behind the
dead-man ping notices the death of both. No condition that judges the scheduler uses code of the emitter, the tick, the
claims or the plans, each is examined separately, and one that cannot be examined is an alert.

Something is late a minute after it should have happened. After a time in which no process looked (the machine slept,
the database was down), nothing is late for two minutes.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from django.utils.module_loading import autodiscover_modules

from alerting.models import Alert, AlertKind, Watch
from alerting.raising import FoundAlert, UnexaminedAlerts
from jobs.clock import boot_seconds
from operations.conditions import look_at
from operations.finding import CONDITIONS, Finding, Look
from operations.joint_examination import examine_together
from sources.models import Policy

GRACE = timedelta(minutes=2)
LATE = timedelta(seconds=60)
STEP_SECONDS = 30.0
"""The most by which the database's clock and the boot clock may differ between two looks."""
CLOCK_SHOWN_FOR = timedelta(minutes=2)

KINDS = {
    "on_hold": AlertKind.HOLD,
    "open_breakers": AlertKind.BREAKER,
    "places": AlertKind.REPOSITORY,
    "space": AlertKind.SPACE,
    "self_backup": AlertKind.SELF_BACKUP,
    "schedules": AlertKind.SCHEDULE,
    "windows": AlertKind.SCHEDULE,
} | dict.fromkeys(
    (
        "workers", "unserved_queues", "unpromoted", "unclosed", "unclaimed", "stuck_at_breakers", "endless",
        "expired_leases", "endless_leases", "future", "dates", "due", "periodic_tasks", "ticks",
    ),
    AlertKind.WATCHDOG,
)  # fmt: skip
"""Condition → the kind of alert that its findings are. Others are not alerts: an operator paused a queue, a setting
costs time, or a status shows the problem."""

ONLY = {"periodic_tasks": ("gone:", "stands:"), "self_backup": ("self_backup",), "space": ("repository:",)}
"""Condition → the beginnings of the subjects that become alerts."""

LATE_ALONE = ("workers", "unserved_queues", "unpromoted")
"""Conditions that a machine which slept causes as well: no alerts before the grace is over."""

BROKEN = (AlertKind.WATCHDOG, AlertKind.SCHEDULE)
"""Kinds of alerts by which the scheduler itself does not work: while there is one, the dead-man ping is held back."""


def late_before(now: datetime) -> datetime | None:
    """The same instant for the doctor, by the last round; None if no process has looked yet, or not for long enough."""
    return _late_before(Watch.objects.first(), now)


def _late_before(watch: Watch | None, now: datetime) -> datetime | None:
    return now - LATE if watch and now - watch.resumed_at >= GRACE else None


class WatchResult(NamedTuple):
    """The alerts that conditions found, and the unknown ones, whose conditions could not be examined."""

    alerts: list[FoundAlert]
    unexamined: set[UnexaminedAlerts]


def look(watch: Watch, now: datetime, boot: float | None = None) -> WatchResult:
    """Alerts of everything that is wrong at `now`. `boot`: the boot clock's seconds, for tests.

    Raises: django.db.Error when the database is away.
    """
    autodiscover_modules("conditions")
    around = look_at(now, partial(_late_before, watch))
    found = examine_together([CONDITIONS[kind] for kind in KINDS], around)
    made = list(alerts(found, around))
    made += _clock.look(now, boot_seconds() if boot is None else boot)
    return WatchResult(made, {each for one in found if one.error for each in _unexamined(one.kind)})


def _unexamined(condition: str) -> Iterator[UnexaminedAlerts]:
    """The alerts that the findings of a condition are, as `_alert` makes them."""
    kind = KINDS[condition]
    yield UnexaminedAlerts(kind, f"{condition}:" if kind == AlertKind.WATCHDOG else "")
    if condition == "open_breakers":
        yield UnexaminedAlerts(AlertKind.REPOSITORY)


def alerts(findings: Iterable[Finding], around: Look) -> Iterator[FoundAlert]:
    """The alerts of these findings."""
    found = list(map(_lasting, findings))
    policies = (
        dict(Policy.objects.values_list("schedule", "pk")) if any(each.kind in BY_SCHEDULE for each in found) else {}
    )
    if failed := [each for each in found if each.error]:
        names = ", ".join(dict.fromkeys(each.kind for each in failed))
        yield FoundAlert(
            AlertKind.WATCHDOG, "watch", "the watch over the scheduler fails", f"{names}: {failed[0].text}"
        )
    for each in found:
        if each.error or not each.subject or not each.subject.startswith(ONLY.get(each.kind, "")):
            continue
        if each.kind not in LATE_ALONE or around.late_before:
            yield _alert(each, policies)


def _lasting(finding: Finding) -> Finding:
    """A repository that was nearly full is so until an eighth is free again."""
    what, _, key = finding.subject.partition(":")
    if finding.kind != "space" or what != "nearly":
        return finding
    same = replace(finding, subject=f"repository:{key}")
    is_open = Alert.objects.filter(kind=AlertKind.SPACE, subject=same.subject, ended_at=None).exists()
    return same if is_open else finding


BY_SCHEDULE = ("schedules", "windows")


def _alert(finding: Finding, policies: dict[int, int]) -> FoundAlert:
    kind, subject = KINDS[finding.kind], finding.subject
    what, _, key = subject.partition(":")
    if finding.kind == "open_breakers" and key.startswith("repository:"):
        kind = AlertKind.REPOSITORY
    policy = None
    if finding.kind in BY_SCHEDULE and what != "trigger":
        policy = int(key) if finding.kind == "windows" else policies.get(int(key))
    if kind == AlertKind.WATCHDOG:  # of several conditions
        subject = f"{finding.kind}:{subject}"
    name, text = finding.name, finding.text.removeprefix(finding.name).lstrip(" :,")
    if not name:
        name, text = finding.text, finding.remedy
    return FoundAlert(kind, subject[:200], name, text, finding.since, policy)


class _Clock:
    """A comparison of the database's clock with the boot clock of this machine. A step is shown for two minutes."""

    def __init__(self) -> None:
        self._last: tuple[datetime, float] | None = None
        self._shown: tuple[float, str] | None = None

    def look(self, now: datetime, boot: float) -> Iterator[FoundAlert]:
        last, self._last = self._last, (now, boot)
        if last is not None:
            passed, real = (now - last[0]).total_seconds(), boot - last[1]
            if abs(passed - real) > STEP_SECONDS:
                self._shown = (boot, f"in {real:.0f} s it advanced by {passed:.0f} s")
        if self._shown is not None and boot - self._shown[0] <= CLOCK_SHOWN_FOR.total_seconds():
            yield FoundAlert(
                AlertKind.WATCHDOG, "clock", "the clock of the database was set, or has stopped", self._shown[1]
            )


_clock = _Clock()
