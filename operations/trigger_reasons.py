"""Reasons why a schedule did not fire at an instant, or when it fires next: from its cron, its triggers, the log and
the audit.

Later edits are undone by the audit: cron, zone and whether it was enabled are those of that instant.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from audit.entries import of_rows
from audit.models import Verb
from external.durations import span
from external.formatting import moment, several
from jobs import conf
from jobs.conf import PROGRAM
from jobs.models import Decision, Worker
from operations.backlog.reason import Code, Explanation, Reason
from schedules import batches
from schedules.cron import Period
from schedules.facts import paused_words
from schedules.models import Schedule, Trigger

A_MOMENT = timedelta(seconds=60)
"""A trigger may be asked for to the minute."""
ON_TIME = timedelta(seconds=90)


def explain_schedule(schedule: Schedule, now: datetime, at: datetime | None = None) -> Explanation:
    """Explain the trigger at `at`, an aware instant; if None, when the schedule fires next, and what keeps it from
    that. `at` to come: whether its cron has a trigger then.
    """
    found = (
        _coming(schedule, now) if at is None else _to_come(schedule, at, now) if at > now else _past(schedule, at, now)
    )
    return Explanation(at or now, runnable=False, reasons=tuple(found))


@dataclass(frozen=True)
class _PastSchedule:
    """A schedule as it was at an instant. `made_at`: its creation, if that is later; `edits`: the changes since."""

    period: Period
    enabled: bool
    made_at: datetime | None
    disabled: Any
    edits: list[Any]


def _then(schedule: Schedule, at: datetime) -> _PastSchedule:
    entries = list(of_rows([(Schedule, schedule.pk)]).order_by("at", "pk"))
    later = [each for each in entries if each.at > at]
    values: dict[str, Any] = {"cron": schedule.cron, "zone": schedule.zone, "enabled": schedule.enabled}
    edits = [each for each in later if each.verb == Verb.CHANGED and values.keys() & each.before.keys()]
    for each in reversed(edits):
        values |= {name: value for name, value in each.before.items() if name in values}
    made = next((each.at for each in later if each.verb == Verb.CREATED), None)
    disabled = [each for each in entries if each.at <= at and each.after.get("enabled") is False]
    return _PastSchedule(Period(values["cron"], values["zone"]), values["enabled"], made, disabled[-1:], edits)


def _obstacles(schedule: Schedule) -> Iterator[Reason]:
    if not schedule.enabled:
        text = f"it is {paused_words(schedule)}: `{PROGRAM} schedules resume {schedule.name}` ends that"
        yield Reason(Code.DISABLED, text, schedule.paused_until)
    try:
        schedule.period.check()
    except ValueError as error:
        yield Reason(Code.UNREADABLE, f"it emits nothing until it is corrected: {error}")


def _to_come(schedule: Schedule, at: datetime, now: datetime) -> Iterator[Reason]:
    obstacles = list(_obstacles(schedule))
    yield from obstacles
    if any(each.code == Code.UNREADABLE for each in obstacles):
        return
    try:
        yield _to_come_by_cron(schedule.period, at, now)
    except (ValueError, OverflowError) as error:
        yield Reason(Code.UNREADABLE, f"its triggers around then are not known: {error}")


def _to_come_by_cron(period: Period, at: datetime, now: datetime) -> Reason:
    """Raises: ValueError or OverflowError at the end of the calendar."""
    last = period.current(at)
    if last <= max(now, at - A_MOMENT):
        return _not_a_trigger(period, at, "comes" if last > now else "came")
    ahead = span((last - now).total_seconds())
    return Reason(Code.NOT_DUE, f"its trigger at {_both(last, period)} comes in {ahead}", last)


def _coming(schedule: Schedule, now: datetime) -> Iterator[Reason]:
    obstacles = list(_obstacles(schedule))
    yield from obstacles
    if any(each.code == Code.UNREADABLE for each in obstacles):
        return
    if not Worker.alive(now).exists():
        yield Reason(
            Code.UNSERVED, f"no worker is alive: `{PROGRAM} worker` starts one; the tick of qcluster fires, too"
        )
    unemitted = Trigger.objects.filter(schedule=schedule, finished_at=None, emitted_at=None).order_by("trigger_at")
    if waiting := list(unemitted[:100]):
        wait, first = ("waits", "since") if len(waiting) == 1 else ("wait", "the first since")
        text = f"{several(len(waiting), 'trigger')} {wait} for an earlier batch to end, {first}"
        yield Reason(Code.OVERLAP, f"{text} {moment(waiting[0].trigger_at)} UTC")
    if schedule.next_trigger_at and schedule.next_trigger_at <= now:
        yield Reason(
            Code.NOT_PLANNED, f"its trigger at {moment(schedule.next_trigger_at)} UTC is fired by the next tick"
        )
    coming = schedule.period.next_after(now)
    ahead = span((coming - now).total_seconds())
    yield Reason(Code.NOT_DUE, f"its next trigger comes at {_both(coming, schedule.period)}, in {ahead}", coming)


def _past(schedule: Schedule, at: datetime, now: datetime) -> Iterator[Reason]:
    row = Trigger.objects.filter(schedule=schedule, trigger_at__lte=at).order_by("-trigger_at").first()
    if row and at - row.trigger_at < A_MOMENT:
        yield _fired(row)
        return
    if at < (kept := now - conf.keep_finished()):
        yield Reason(Code.NO_TRIGGER, f"triggers are kept from {moment(kept)} UTC on, and that was before")
        return
    then = _then(schedule, at)
    if then.made_at:
        yield Reason(Code.NO_TRIGGER, f"it was made at {moment(then.made_at)} UTC, after that", then.made_at)
        return
    if not then.enabled:
        by = f", since {moment(then.disabled[0].at)} UTC by {then.disabled[0].who}" if then.disabled else ""
        yield Reason(Code.DISABLED, f"it was disabled then{by}")
    for edit in then.edits:
        if words := ", ".join(f"{name} was {edit.before[name]}" for name in ("cron", "zone") if name in edit.before):
            yield Reason(Code.EDITED, f"until {edit.who} changed it at {moment(edit.at)} UTC, its {words}", edit.at)
    yield from _by_cron(schedule, then.period, at, now)


def _by_cron(schedule: Schedule, period: Period, at: datetime, now: datetime) -> Iterator[Reason]:
    """The reasons by the cron of that instant; and if it should have fired, what happened to its trigger."""
    try:
        last, _ = period.current(at), period.next_after(at)
    except ValueError as error:
        yield Reason(Code.UNREADABLE, f"it could not be read then: {error}")
        return
    if last <= at - A_MOMENT:
        yield _not_a_trigger(period, at, "came")
        return
    if line := _missed(schedule, last, now):
        yield Reason(Code.SKIPPED, f"it was missed, since nothing ticked then: {line.text}", facts=dict(line.facts))
    elif schedule.next_trigger_at and schedule.next_trigger_at <= last:
        since = moment(schedule.next_trigger_at)
        yield Reason(
            Code.NOT_PLANNED, f"it has been due since then, and nothing has ticked: it is emitted up to {since} UTC"
        )
    elif schedule.enabled:
        yield Reason(Code.NO_TRIGGER, f"it should have fired at {_both(last, period)}, and nothing is kept of that")


def _not_a_trigger(period: Period, at: datetime, verb: str) -> Reason:
    last, following = period.current(at), period.next_after(at)
    text = f"`{period.expression}` in {period.zone} has no trigger at {_both(at, period)}"
    around = f"the last one before {verb} at {_both(last, period)}, the next one at {_both(following, period)}"
    return Reason(Code.NO_TRIGGER, f"{text}: {around}", following)


def _missed(schedule: Schedule, trigger_at: datetime, now: datetime) -> Decision | None:
    lines = Decision.objects.filter(kind=schedule.kind, subject=batches.subject_of(schedule), what="missed")
    instants = (line for line in lines.filter(at__gte=trigger_at, at__lte=now).order_by("at"))
    wanted = trigger_at.isoformat()
    return next((line for line in instants if line.facts["first"] <= wanted <= line.facts["last"]), None)


def _fired(row: Trigger) -> Reason:
    facts = {"trigger_at": row.trigger_at, "seen_at": row.seen_at, "emitted_at": row.emitted_at, "events": row.events}
    by = f", triggered by hand by {row.asked_by}" if row.asked_by else ""
    if row.skipped_for:
        text = f"its trigger at {moment(row.trigger_at)} UTC{by} emitted nothing: {row.skipped_for}"
        return Reason(Code.SKIPPED, text, facts=facts)
    late = row.seen_at - row.trigger_at
    seen = f"; it was seen {span(late.total_seconds())} late" if late > ON_TIME else ""
    if row.emitted_at is None:
        text = f"its trigger at {moment(row.trigger_at)} UTC{by} waits for an earlier batch to end{seen}"
        return Reason(Code.OVERLAP, text, facts=facts)
    ended = f", which ended by {moment(row.finished_at)} UTC" if row.finished_at else ", which are not all done"
    events = f"{several(row.events, 'record')} on the backlog{ended if row.events else ''}"
    text = f"it fired: its trigger at {moment(row.trigger_at)} UTC{by} was emitted at {moment(row.emitted_at)} UTC"
    return Reason(Code.FIRED, f"{text}{seen}, and put {events}", facts=facts)


def _both(instant: datetime, period: Period) -> str:
    """The instant in UTC, and on the clock of the period's zone."""
    local = f" ({instant.astimezone(period.tzinfo):%a %H:%M} in {period.zone})" if period.zone != "UTC" else ""
    return f"{moment(instant)} UTC{local}"
