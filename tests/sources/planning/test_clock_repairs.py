"""Whatever steps the database's clock has made: within a minute of true time nothing waits longer than its kind may."""

from datetime import datetime, timedelta

import pytest
from django.db import connection, transaction
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import jobs.tick
from jobs import claiming, clock_repairs, exclusivity, periodic, retries, settling, transitions
from jobs.clock import database_clock
from jobs.handlers import registry
from jobs.models import BacklogRecord, Breaker
from jobs.order import LONGEST_DEMOTION_DAYS
from jobs.outcomes import ClaimedRecord, Failed, Handoff, Held, Outcome, Postponed, Unavailable
from jobs.states import WaitingFor
from sources import planning
from sources.models import Assignment, Policy, Source
from sources.planning import clock_repairs as of_windows
from tests.factories import make_worker
from tests.jobs.clocks import step_the_databases_clock
from tests.sources.factories import MONDAY, backed_up, make_assignment, make_policy
from tests.sources.planning.planned import DAY, HOUR, NIGHTS, tick

pytestmark = pytest.mark.django_db

SNOOZED_FOR = 2 * HOUR


def fleet() -> list[Policy]:
    """Three policies: open at night, open at night for what fits, and always open; of each a source that was
    never backed up, one that fits into a night, and one that does not; and one that has failed."""
    policies = [make_policy(window=NIGHTS), make_policy(window=NIGHTS, only_if_it_fits=True), make_policy()]
    for policy in policies:
        make_assignment(policy)
        for seconds in (60.0, 9 * 3600.0):
            backed_up(policy, MONDAY - 5 * DAY, seconds=seconds)
    backed_up(policies[-1], MONDAY - 5 * DAY, failures=3, first_failure_at=MONDAY - 4 * DAY)
    return policies


def outcome_of(name: str, breaker: Breaker, now: datetime) -> Outcome:
    return {
        "silent": Unavailable("silent", recheck_after=900),
        "lost": Unavailable("lost", recheck_after=900, first_in_line=True),
        "failed": Failed("failed"),
        "put off": Postponed(now + timedelta(minutes=1), WaitingFor.RECHECK, "busy"),
        "held": Held(breaker.pk, "held"),
        "gated": Handoff(planning.BACKUPS, exclusive_key="the same for all"),
    }[name]


def take(number: int, now: datetime) -> list[ClaimedRecord]:
    return claiming.claim(planning.AVAILABILITY, worker_id=make_worker().pk, limit=number, now=now)


def settle(claimed: list[ClaimedRecord], names: list[str], breaker: Breaker, now: datetime) -> None:
    results = [(record, outcome_of(name, breaker, now)) for record, name in zip(claimed, names, strict=False)]
    settling.settle(results, now=now)


def longest_wait(record: BacklogRecord, now: datetime) -> datetime:
    """Until when a record may wait at `now`, by its kind."""
    match WaitingFor(record.waiting_for):
        case WaitingFor.WINDOW:
            policy = Assignment.objects.get(pk=record.payload["assignment"]).policy
            opens_at, closes_at = policy.opening(now)
            return (
                policy.opening(closes_at)[0] if opens_at <= now and closes_at and policy.only_if_it_fits else opens_at
            )
        case WaitingFor.SNOOZE:
            return now + SNOOZED_FOR
        case WaitingFor.RECHECK:
            return now + timedelta(seconds=900)
        case WaitingFor.BACKOFF:
            return now + timedelta(seconds=retries.delay(retries.DEFAULT, record.failures))
        case WaitingFor.THROTTLE:
            return now + exclusivity.LOOK_AGAIN_AFTER
    return now + transitions.LOOKED_AT_AGAIN_AFTER


def what_waits_too_long(now: datetime) -> list[str]:
    waiting = BacklogRecord.objects.waiting()
    found = [f"{each!r} {WaitingFor(each.waiting_for).name} {each.run_after}" for each in waiting
             if each.run_after > longest_wait(each, now) + clock_repairs.A_MOMENT]  # fmt: skip
    latest = now.date() + (LONGEST_DEMOTION_DAYS + 1) * DAY
    return found + [
        f"{each!r} ranks at {each.rank_day} {each.tried_at}" for each in BacklogRecord.objects.ready()
        if (each.tried_at and each.tried_at > now + clock_repairs.A_MOMENT)
        or (each.rank_day and each.rank_day > max(latest, (each.due_day or now.date()) + LONGEST_DEMOTION_DAYS * DAY))
    ]  # fmt: skip


def a_minutes_round(now: datetime) -> None:
    """The minute of a worker, and the one after: the rank of what waited is looked at once it is ready."""
    for _ in range(2):
        tick(now)
        clock_repairs.correct(now)
        of_windows.correct(now)
        tick(now)


spans = st.sampled_from([1, 400]).flatmap(lambda days: st.timedeltas(timedelta(seconds=1), days * DAY))
steps = st.tuples(spans, st.sampled_from([-1, 0, 1])).map(lambda drawn: drawn[0] * drawn[1])
names = st.lists(st.sampled_from(["silent", "lost", "failed", "put off", "held", "gated"]), min_size=9, max_size=9)


@pytest.mark.slow
@settings(max_examples=12, phases=[Phase.explicit, Phase.generate])  # an example takes a second: shrinking, minutes
@given(data=st.data(), first=steps, second=steps, names=names, hour=st.integers(0, 23))
def test_no_step_of_the_clock_makes_anything_wait_longer_than_its_kind_may(
    data: st.DataObject, first: timedelta, second: timedelta, names: list[str], hour: int
) -> None:
    before = MONDAY + hour * HOUR
    with transaction.atomic():
        work_while_the_clock_steps(data, before, before + first, names)
        a_minutes_round(before + second)
        assert not what_waits_too_long(before + second)
        assert clock_repairs.correct(before + second) == of_windows.correct(before + second) == 0
        transaction.set_rollback(True)


def work_while_the_clock_steps(data: st.DataObject, before: datetime, during: datetime, names: list[str]) -> None:
    """Records that were emitted and claimed before the clock was set, or after it, are settled after it."""
    fleet()
    breaker = Breaker.objects.create(key="k", title="t", opened_at=before, probe_at=before, failures=3)
    emit = data.draw(st.sampled_from([planning.emit_due, tick]))
    emit(data.draw(st.sampled_from([before, during])))
    if data.draw(st.booleans()):
        users = Source.objects.order_by("pk")[:2]
        planning.pause(users, during, until=during + SNOOZED_FOR, by="its user", by_user=True)
    early = take(data.draw(st.integers(0, 3)), before)
    settle([*early, *take(5, during)], names, breaker, during)
    if data.draw(st.booleans()):
        tick(during)


def test_a_fleet_that_one_tick_has_put_off_by_a_month_waits_for_its_next_window_within_a_minute(monkeypatch) -> None:
    ours = [task for task in registry.periodic if task.__module__ == of_windows.__name__]
    monkeypatch.setattr(registry, "periodic", ours)  # others begin threads, which would commit beside the test
    step_the_databases_clock(0)
    fleet()
    step_the_databases_clock(30 * 86_400)
    jobs.tick.tick(rescue=False)
    settle(take(10, database_clock()), ["silent"] * 10, Breaker(pk=1), database_clock())
    step_the_databases_clock(0)
    assert len(what_waits_too_long(database_clock())) >= 9  # at night, one has missed its window
    periodic.run_minutely()
    for _ in range(2):
        jobs.tick.tick(rescue=False)
    assert not what_waits_too_long(database_clock())


READY = 400
RECORDS = """
INSERT INTO jobs_backlogrecord (kind, queue, subject, payload, status, finished_at, rank_day, due_day)
SELECT 'test', 'default', n, '{}', CASE WHEN n > %(done)s THEN 1 ELSE 3 END,
       CASE WHEN n <= %(done)s THEN now() END, current_date, current_date
  FROM generate_series(1, %(all)s) n
"""


def test_a_round_in_a_worker_does_not_read_all_records_that_ever_were_also_after_a_crowd_of_ready_ones() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        crowd = transaction.savepoint()
        cursor.execute(RECORDS, {"done": 0, "all": 9000})
        transaction.savepoint_rollback(crowd)
        cursor.execute(RECORDS, {"done": 2000 - READY, "all": 2000})
        cursor.execute("ANALYZE jobs_backlogrecord")
        read = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'jobs_backlogrecord'"
        cursor.execute(read)
        [before] = cursor.fetchall()
        connection.connection.prepare_threshold, usual = 0, connection.connection.prepare_threshold
        try:
            clock_repairs.correct()
        finally:
            connection.connection.prepare_threshold = usual
        cursor.execute(read)
        # none on PostgreSQL 18; an older one may find what is unfinished by another index, once for each statement
        assert cursor.fetchall()[0][0] - before[0] <= 2 * READY
