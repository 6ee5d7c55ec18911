"""The ledger of days is what the attempts say, whatever happened."""

import random
from datetime import UTC, date, datetime, time, timedelta
from itertools import takewhile
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from fleet.policy_edits import Policies
from jobs import backlog
from jobs.models import Attempt, BacklogRecord
from jobs.prepared_statements import execute
from jobs.states import FINISHED, AttemptOutcome, Status, WaitingFor
from operations import silences
from sources import planning
from sources.domain.days import Day
from sources.models import Assignment, Pause, Source
from sources.planning import retirement
from sources.protection import ledger
from tests.factories import build_record, make_record
from tests.sources.factories import MONDAY, make_assignment, make_policy

pytestmark = pytest.mark.django_db

NOW = MONDAY + timedelta(days=30, hours=11)  # past the change of clocks in Berlin, at the end of March
FIRST = date(2026, 3, 2)
DATES = [FIRST + timedelta(days=number) for number in range(31)]

POLICIES = (
    {"cron": "0 0 * * *"},
    {"cron": "0 22 * * *", "zone": "Europe/Berlin", "window": [{"start": "22:00", "end": "06:00"}]},
    {"cron": "0 9 * * 1-5", "zone": "America/New_York", "excluded_dates": ["2026-03-10..2026-03-12"]},
    {"cron": "0 0 * * 3", "zone": "Pacific/Auckland"},
    {"cron": "0 */6 * * *", "zone": "Europe/Berlin", "window": [{"days": "mon-fri", "start": "08:00", "end": "18:00"}]},
)
IN_AVAILABILITY = (AttemptOutcome.UNAVAILABLE,) * 4 + (AttemptOutcome.HANDOFF, AttemptOutcome.RELEASED)
IN_BACKUPS = (AttemptOutcome.FAILED, AttemptOutcome.UNAVAILABLE, AttemptOutcome.HANDOFF, AttemptOutcome.RESCUED)


def write_history(assignment: Assignment, rng: random.Random) -> None:
    """Records after each other, each with attempts after each other; some succeed, some give up, the last one waits."""
    records: list[BacklogRecord] = []
    attempts: list[Attempt] = []

    def remember() -> None:
        instant = MONDAY - timedelta(days=3) + timedelta(hours=rng.randrange(200))
        subject = planning.subject_of(assignment.pk)
        while instant < NOW:
            record = build_record(Status.WAITING, kind="backup", subject=subject, waiting_for=WaitingFor.RECHECK)
            record.inserted_at = instant
            records.append(record)
            for number in range(1, rng.randrange(2, 12)):
                instant += timedelta(minutes=rng.choice((7, 20, 300, 1300, 4000)))
                ended_at = instant + timedelta(minutes=rng.choice((0, 1, 30, 600)))
                if ended_at > NOW:
                    return
                queue = rng.choice(("availability", "availability", "arrivals", "backups"))
                outcome = rng.choice(IN_BACKUPS if queue == "backups" else IN_AVAILABILITY)
                attempts.append(attempt(record, number, queue, outcome, instant, ended_at))
                instant = ended_at
            record.status, record.waiting_for = rng.choice(FINISHED), None
            if record.status == Status.SUCCEEDED:
                ended_at = min(instant + timedelta(minutes=rng.choice((1, 50, 2000))), NOW)
                attempts.append(attempt(record, 50, "backups", AttemptOutcome.SUCCEEDED, instant, ended_at))
                record.started_at = rng.choice((instant, instant, None))
                instant = ended_at
            record.finished_at = instant
            instant += timedelta(hours=rng.choice((0, 5, 40)))

    remember()
    BacklogRecord.objects.bulk_create(records)
    Attempt.objects.bulk_create(attempts)


def attempt(
    record: BacklogRecord, number: int, queue: str, outcome: AttemptOutcome, started_at: datetime, ended_at: datetime
) -> Attempt:
    return Attempt(record=record, number=number, queue=queue, outcome=outcome, started_at=started_at, ended_at=ended_at)


def triggers_of(assignment: Assignment) -> list[datetime]:
    coming = assignment.policy.schedule.period.after(MONDAY - timedelta(days=10))
    return list(takewhile(lambda trigger: trigger < NOW + timedelta(days=10), coming))


def recomputed(assignment: Assignment, day: date, triggers: list[datetime], seen: list[Attempt]) -> Day:
    """By looking at all attempts, one after the other."""
    policy, zone = assignment.policy, ZoneInfo(assignment.policy.schedule.zone)
    of_day = [each for each in triggers if each.astimezone(zone).date() == day]
    midnight = datetime.combine(day, time(0), zone).astimezone(UTC)
    begins = of_day[0] if of_day else max(each for each in triggers if each < midnight)
    ends = min(each for each in triggers if each.astimezone(zone).date() > day)
    ran = [each for each in seen if each.started_at < ends and each.ended_at >= begins]
    if any(each.outcome == AttemptOutcome.SUCCEEDED and each.started_at >= begins for each in ran):
        return Day.PROTECTED
    over = min(ends, NOW)
    openings = list(policy.weekly_window.openings(begins, ends))
    last = min(over, max((each.closes_at for each in openings), default=over))
    if begins >= NOW or assignment.inserted_at >= over:
        return Day.NONE
    for pause in assignment.source.pauses.all():
        if pause.since < last and (pause.until is None or pause.until >= last):
            return Day.PAUSED
    if not openings:
        return Day.EXCLUDED
    if ends > NOW:
        return Day.OPEN
    if any(each.queue in ("arrivals", "backups") or each.outcome == AttemptOutcome.HANDOFF for each in ran):
        return Day.PRESENT
    return Day.ABSENT if any(each.outcome == AttemptOutcome.UNAVAILABLE for each in ran) else Day.UNASKED


@pytest.mark.parametrize("seed", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_equals_what_is_recomputed_from_all_attempts(seed):
    rng = random.Random(seed)
    fleet = []
    for _ in range(2):
        for fields in POLICIES:
            policy = make_policy(**fields)
            inserted_at = MONDAY + timedelta(days=rng.choice((-20, 0, 9)), hours=rng.randrange(30))
            assignment = make_assignment(policy, inserted_at=inserted_at)
            write_history(assignment, rng)
            since = MONDAY + timedelta(days=rng.randrange(25))
            Pause.objects.create(
                source=assignment.source, since=since, until=rng.choice((since + timedelta(days=3), None))
            )
            fleet.append(assignment)
    expected = {}
    for each in fleet:
        seen = list(Attempt.objects.filter(record__subject=planning.subject_of(each.pk)))
        triggers = triggers_of(each)
        expected[each.pk] = [recomputed(each, day, triggers, seen) for day in DATES]
    judged = ledger.days_of(fleet, DATES, NOW)
    assert judged == expected
    assert {day for of_one in judged.values() for day in of_one} == set(Day) - {Day.RETIRED}
    for each in fleet[:5]:
        assert [ledger.account_of(each, day, NOW).day for day in DATES[::9]] == expected[each.pk][::9]


def test_the_attempts_of_a_record_are_read_unless_successes_decide_all_days_on_which_it_ran(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assignment = make_assignment(make_policy(cron="0 0 * * *"), inserted_at=MONDAY)
    for day, began in ((1, 1), (2, 2), (4, 3)):
        at, inserted_at = MONDAY + timedelta(days=day), MONDAY + timedelta(days=began)
        ran = {"inserted_at": inserted_at, "started_at": at, "finished_at": at + timedelta(minutes=1)}
        make_record(Status.SUCCEEDED, kind="backup", subject=planning.subject_of(assignment.pk), attempt=2, **ran)
    plan: list[str] = []

    def explained(sql: str, values: dict[str, Any]) -> Any:
        plan.extend(row[0] for row in execute(f"EXPLAIN (ANALYZE) {sql}", values).fetchall())
        return execute(sql, values)

    monkeypatch.setattr(ledger, "execute", explained)
    judged = ledger.days_of([assignment], DATES[:5], MONDAY + timedelta(days=5))[assignment.pk]
    assert judged == [Day.UNASKED, Day.PROTECTED, Day.PROTECTED, Day.UNASKED, Day.PROTECTED]
    assert {"loops=1)" in line for line in plan if "on jobs_attempt" in line} == {True}, "\n".join(plan)


def test_a_row_of_many_silences_counts_for_all_its_days():
    assignment = make_assignment(make_policy(cron="0 0 * * *"), inserted_at=MONDAY)
    subject = planning.subject_of(assignment.pk)
    record = make_record(Status.WAITING, kind="backup", subject=subject, attempt=100, waiting_for=WaitingFor.RECHECK)
    hours = [MONDAY + timedelta(hours=hour) for hour in range(97)]
    Attempt.objects.bulk_create(
        attempt(record, number, "availability", AttemptOutcome.UNAVAILABLE, at, at + timedelta(minutes=1))
        for number, at in enumerate(hours, 1)
    )
    dates, now = DATES[:6], MONDAY + timedelta(days=5, hours=1)
    before = ledger.days_of([assignment], dates, now)
    assert silences.compact(now) == 96
    assert ledger.days_of([assignment], dates, now) == before == {assignment.pk: [Day.ABSENT] * 5 + [Day.OPEN]}


def test_pauses_and_retirements_are_remembered_when_they_are_over():
    assignment = make_assignment(make_policy(cron="0 0 * * *"), inserted_at=MONDAY)
    sources = Source.objects.all()
    noon = MONDAY + timedelta(hours=12)
    planning.pause(sources, noon)
    planning.pause(sources, noon + timedelta(hours=1))
    planning.resume(sources, noon + timedelta(days=1))
    for days in (2, 4):
        at = noon + timedelta(days=days)
        planning.pause(sources, at, until=noon + timedelta(days=9), by_user=True)
        planning.resume(sources, at + timedelta(days=1), by_user=True)
    retirement.retire(sources, now=noon + timedelta(days=6))
    retired = ledger.days_of([Assignment.objects.get()], DATES[:8], noon + timedelta(days=7))[assignment.pk]
    retirement.unretire(sources, now=noon + timedelta(days=7))
    judged = ledger.days_of([Assignment.objects.get()], DATES[:8], noon + timedelta(days=7, hours=1))[assignment.pk]
    assert judged == [Day.PAUSED, Day.UNASKED] * 3 + [Day.PAUSED, Day.OPEN]
    assert retired[6:] == [Day.RETIRED, Day.RETIRED]


def test_a_hold_and_a_policy_that_was_disabled_are_remembered_when_they_are_over():
    policy = make_policy(cron="0 0 * * *", window=[{"start": "09:00", "end": "17:00"}])
    assignment = make_assignment(policy, inserted_at=MONDAY)
    eight = MONDAY + timedelta(hours=8)
    backlog.hold("the flood", by="kim", now=eight)
    held = ledger.days_of([assignment], DATES[:1], eight + timedelta(hours=2))[assignment.pk]
    backlog.release(by="kim", now=eight + timedelta(hours=12))  # too late for the window of that day
    for day, enabled in ((2, False), (3, True), (4, False)):
        policy.schedule.enabled = enabled
        ledger.note_enabled(policy, eight + timedelta(days=day))
        ledger.note_enabled(policy, eight + timedelta(days=day, hours=1))
    judged = ledger.days_of([assignment], DATES[:6], eight + timedelta(days=5, hours=5))[assignment.pk]
    assert held == [Day.PAUSED]
    assert judged == [Day.PAUSED, Day.UNASKED, Day.PAUSED, Day.UNASKED, Day.PAUSED, Day.PAUSED]
    found = [ledger.account_of(assignment, day, NOW).idle for day in (DATES[0], DATES[2], DATES[4])]
    assert [[each.why for each in of_day] for of_day in found] == [
        ["Everything was on hold"], ["Its policy was disabled"], ["Its policy was disabled"],
    ]  # fmt: skip
    assert ledger.prune(eight + timedelta(days=5)) == 2


def test_disabling_a_policy_is_kept_whoever_does_it():
    policy = make_policy()
    edits = Policies()
    for enabled in (False, True, False):
        edits.edit(policy, {"enabled": enabled})
    assert [row.until is None for row in policy.pauses.order_by("since")] == [False, True]
