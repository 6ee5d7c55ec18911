"""Shared parts of the kinds `retention`, `check`, `copy` and `drill`: separate records that work on the data of an
assignment in a repository, at most one of a kind for each assignment.

They wait for the policy's window, under its throttle, and go through `availability`, where the source is not asked:
records that are handed on from there pass the gate, which lets one record of a source run at a time.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from django.db.models import (
    DateTimeField,
    Exists,
    ExpressionWrapper,
    F,
    Func,
    JSONField,
    Max,
    OuterRef,
    Q,
    QuerySet,
    Value,
)
from django.db.models.expressions import Combinable
from django.db.models.functions import Least
from django.db.utils import Error
from django.utils.dateparse import parse_datetime

from backups.progress import ProgressWriter
from backups.repository_state import busy
from jobs import conf, decisions
from jobs.clock import boot_seconds, database_clock
from jobs.database_errors import DatabaseTrouble, trouble_of
from jobs.handlers import Run
from jobs.models import BacklogRecord
from jobs.outcomes import Cancelled, ClaimedRecord, Failed, Handoff, Outcome, Postponed, Released, Succeeded
from jobs.priorities import MAX_PRIORITY
from jobs.states import Status, WaitingFor
from jobs.wakeups import notify
from jobs.zones import zone_of
from sources import planning
from sources.availability.check import assignment_of, database_away, not_wanted
from sources.models import Assignment, AtClose, Backup, Policy, Progress
from sources.models.policy import Opening
from storage import layout
from storage.places.locks import Busy
from storage.points.store import StorageFailed, StorageStopped

AT_ONCE = 100
"""The most new records a minute, so that thousands of assignments do not start together."""
PRIORITY = -10
"""The priority of automatically planned records, added to the policy's: backups come first."""
PASSED_OVER = (WaitingFor.WINDOW, WaitingFor.BACKOFF, WaitingFor.SWEEP, WaitingFor.RECHECK)
"""The waits of a record that end when a user asks for it now."""
AHEAD = timedelta(hours=1)
"""The limit of dates in the future. Only a clock that was ahead can have planned anything later, so that counts as not
planned.
"""
ASKED_FOR = {"asked_for": True}
"""A part of the payload of a requested record."""
LEFT_OUT = "something was left out of it; it is not known what, since the result of its run was lost"
PHASE = Value(timedelta(microseconds=1)) * (F("pk") * 618_034 % 1_000_000)
"""A part of a second: a different one for each assignment, spread evenly whatever ids there are (as the phase of a
retry).
"""
CLOSED = "its window closed; it continues in the next opening"


def first_from(seconds: float | str) -> Combinable:
    """The first turn of an assignment in work that is repeated after `seconds` (a number, or a column). It spreads the
    first turns of a fleet that was set up in one day.
    """
    period = Value(float(seconds)) if isinstance(seconds, float) else F(seconds)
    return ExpressionWrapper(F("inserted_at") + PHASE * period, DateTimeField())


def due(wanted: Q, since: str, at_most: int | None = AT_ONCE, *, may_be_new: bool = True) -> list[Assignment]:
    """The due assignments with a backup, the oldest by the column `since` first, at most as many as are started
    together. Related rows are read for these alone, since all assignments may be due on the day after an upgrade.
    `may_be_new`: `since` may be null.
    """
    backed_up = Exists(Backup.objects.filter(assignment=OuterRef("pk")))
    found = Assignment.objects.active().filter(wanted, backed_up)
    parts = [Q()] if since == "pk" else [Q(**{since: None}), Q(**{f"{since}__isnull": False})]
    ids = list[int]()
    for part, order in list(zip(parts, (("pk",), (since, "pk")), strict=False))[0 if may_be_new else -1 :]:
        if at_most is None or len(ids) < at_most:  # if enough were never done, the others need not be sorted
            rows = found.filter(part).order_by(*order).values_list("pk", flat=True)
            ids += rows[: at_most and at_most - len(ids)]
    related = Assignment.objects.select_related("source", "policy__schedule", "policy__repository")
    by_id = related.in_bulk(ids) if ids else {}
    return [by_id[pk] for pk in ids if pk in by_id]


def asked_for(kind: str, ids: Iterable[int], since: str, by: str, now: datetime) -> list[Assignment]:
    """The assignments among these that have a backup. The log gets a line for each: `by`, a user, asked for it."""
    found, text = due(Q(pk__in=ids), since, at_most=None), f"{by} asked for a {kind}"
    decisions.log_all(
        (decisions.DecisionLine("asked for", text, kind, planning.subject_of(each.pk)) for each in found), now
    )
    return found


def enqueue(
    kind: str,
    assignments: Iterable[Assignment],
    now: datetime,
    *,
    priority: int = 0,
    at_once: bool = False,
    asked: dict[str, Any] = ASKED_FOR,
    payload: Mapping[str, Any] = MappingProxyType({}),
    opening: Callable[[Policy, datetime], Opening] = Policy.opening,
) -> int:
    """Put a record of each on the backlog, for the next `opening` of its policy. Returns the number of new ones.

    `priority`: added to the policy's. `payload`: further facts for their payloads. `at_once`: even outside of its
    window, with `asked` in the payload; records that waited for the window, or for their next try, count as new.
    """

    def record(assignment: Assignment) -> BacklogRecord:
        made = _record(kind, assignment, now, priority, None if at_once else opening(assignment.policy, now))
        made.payload |= {**payload, **(asked if at_once else {})}
        return made

    records = {planning.subject_of(each.pk): record(each) for each in assignments}
    unfinished = BacklogRecord.objects.unfinished().filter(kind=kind, subject__in=records)
    for subject in unfinished.values_list("subject", flat=True):
        del records[subject]
    waited = unfinished.filter(status=Status.WAITING, waiting_for__in=PASSED_OVER if at_once else ())
    facts = payload_with({**payload, **asked})
    moved = waited.update(status=Status.READY, waiting_for=None, run_after=now, closes_at=None, payload=facts)
    BacklogRecord.objects.bulk_create(records.values(), ignore_conflicts=True)
    if records or moved:
        notify(planning.AVAILABILITY)
    return len(records) + moved


def payload_with(facts: dict[str, Any]) -> Combinable:
    """An expression for an update of records: their payload, with these facts."""
    return Func(F("payload"), Value(facts, JSONField()), template="%(expressions)s", arg_joiner=" || ")


def _record(kind: str, assignment: Assignment, now: datetime, priority: int, opening: Opening | None) -> BacklogRecord:
    source, schedule = assignment.source, assignment.policy.schedule
    opens_at, closes_at = opening or (now, None)
    today = now.astimezone(zone_of(schedule.zone)).date()
    return BacklogRecord(
        kind=kind,
        queue=planning.AVAILABILITY,
        subject=planning.subject_of(assignment.pk),
        payload={"assignment": assignment.pk, "source": source.pk, "title": source.name, "key": source.exclusive_key},
        status=Status.READY if opens_at <= now else Status.WAITING,
        waiting_for=None if opens_at <= now else WaitingFor.WINDOW,
        run_after=opens_at,
        closes_at=closes_at,
        priority=max(-MAX_PRIORITY, schedule.priority + priority),
        due_day=today,
        rank_day=today,
        origin=schedule,
        retry_policy_id=schedule.retry_policy_id,
        lane=assignment.policy.lane(first_backup=False),
    )


async def hand_on(run: Run) -> Outcome:
    """Pass the gate. The source is not asked: nothing is wanted from it."""
    return Handoff(planning.BACKUPS, exclusive_key=run.record.payload["key"])


class Work:
    """A record that runs in its execution unit: the stop signal and the progress of its programs. `stops_at_close`: it
    stops when its window closes, whatever the policy says about backups.
    """

    stops_at_close = False

    def __init__(self, run: Run, assignment: Assignment) -> None:
        self.record, self.assignment, self.grace = run.record, assignment, conf.ending_seconds()
        self.repository = assignment.policy.repository
        self._stop, self.on_progress = run.stop, ProgressWriter(run.record)
        stops = self.stops_at_close or assignment.policy.at_close == AtClose.STOP
        closes_at = run.record.closes_at if stops else None
        seconds = (closes_at - database_clock()).total_seconds() if closes_at else float("inf")
        self._closes_at = boot_seconds() + seconds

    @property
    def is_asked_for(self) -> bool:
        return bool(self.record.payload.get("asked_for"))

    @property
    def closed(self) -> bool:
        return boot_seconds() >= self._closes_at

    def is_set(self) -> bool:
        return self._stop.is_set() or self.closed

    @property
    def stopped(self) -> Outcome:
        """The outcome for a record that was stopped."""
        return Released(CLOSED) if self.closed else Released()


def do(run: Run, work: Callable[[Work], Any], *, although_retired: bool = False, at_work: type[Work] = Work) -> Outcome:
    """Do the work of a record; what `work` returns is the outcome, or its result. Blocks until that is done.

    `although_retired`: even if its source is retired.
    """
    try:
        assignment = assignment_of(run.record)
        if assignment is None:
            return Cancelled("its assignment is gone")
        if refused := not_wanted(assignment, although_retired=although_retired):
            return refused
        run.max_seconds = assignment.policy.max_running_for
        of_it = at_work(run, assignment)
        try:
            result = work(of_it)
            return result if isinstance(result, Succeeded) else Succeeded(result)
        except UpkeepRefused as error:
            return error.outcome
        except Busy as error:
            return busy(str(error))
        except StorageStopped:
            return of_it.stopped
        except StorageFailed as error:
            return Failed(f"repository {of_it.repository}: {error}")
    except Error as error:
        if trouble_of(error) is DatabaseTrouble.OURS:
            raise
        return database_away(run.record, error)


class UpkeepRefused(Exception):
    """The work cannot start now: its record gets this outcome."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__()
        self.outcome = outcome


def record_points(assignment_id: int, repository_id: int, found: Iterable[dict[str, Any]]) -> None:
    """Write the missing rows of backups whose result was lost, such as when the database went away: a point without a
    row is never removed. `found`: the result of `lost_results.unrecorded`.
    """
    written = Backup.objects.filter(assignment=assignment_id, repository=repository_id)
    known = {layout.point_of(each) for each in written.values_list("snapshot", flat=True)}
    rows = []
    for each in found:
        at = layout.instant_of(each["name"])
        if each["name"] not in known:
            rows.append(
                Backup(
                    assignment_id=assignment_id, repository_id=repository_id, attempt=0, engine=each["engine"][:20],
                    started_at=at, ended_at=_instant(each["ended_at"]) or at, size=each["size"], files=each["files"],
                    snapshot=each["name"], warnings=[] if each["complete"] else [LEFT_OUT],
                )
            )  # fmt: skip
    Backup.objects.bulk_create(rows)


def count_what_is_left(assignment: Assignment, left: QuerySet[Backup]) -> None:
    """Update an assignment after points were removed and only `left` remain: its last success becomes the newest of
    them, and if that is older, it is due. If none remains, it counts as never backed up.
    """
    last, now = assignment.last_backup_at, database_clock()  # anything later is of a clock that was ahead
    at = left.annotate(at=Least("started_at", "ended_at")).filter(at__lte=now).aggregate(last=Max("at"))["last"]
    # the name of a point, from which a lost row is written again, has whole seconds
    if last and not (at and at > last - timedelta(seconds=1)):
        Assignment.objects.filter(pk=assignment.pk, last_backup_at=last).update(
            last_backup_at=at, next_backup_at=at and now, proved_at=None, proved_point=""
        )


def _instant(written: str) -> datetime | None:
    try:
        return parse_datetime(written)
    except ValueError:
        return None


def log_outcome(record: ClaimedRecord, outcome: Outcome, now: datetime) -> None:
    """Write the line of the log for an outcome that is not a success. Runs in the settle's transaction."""
    if record.queue != planning.BACKUPS:
        return
    Progress.objects.filter(record_id=record.id).delete()
    match outcome:
        case Failed(error):
            log(record, "failed", error.partition("\n")[0], now)
        case Cancelled(reason) | Released(reason):
            log(record, "cancelled" if isinstance(outcome, Cancelled) else "released", reason, now)
        case Postponed(until, _, reason):
            log(record, "postponed", f"{reason} {until:%Y-%m-%d %H:%M} UTC", now)


def log(record: ClaimedRecord, what: str, text: str, now: datetime, **facts: Any) -> None:
    title = f"{record.kind} of {record.payload['title']}"
    decisions.log(what, f"{title}: {text}", record=record, facts={"attempt": record.attempt, **facts}, now=now)
