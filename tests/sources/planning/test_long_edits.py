"""An edit of a policy of many assignments: it delays no other, and its rest continues whatever happens."""

import signal
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from django.db import transaction

from engines.base import EngineResult, Verdict
from fleet import policy_edits
from jobs import rescuing, rollouts
from jobs.clock import database_clock
from jobs.handlers import Run
from jobs.models import BacklogRecord
from jobs.outcomes import Failed, Handoff, Outcome, Succeeded
from jobs.states import Status
from schedules.models import Schedule
from sources import planning
from sources.domain.due import next_backup_at
from sources.models import Assignment, Policy, Source
from sources.planning import replanning
from tests.api.asking import Program
from tests.people import staff
from tests.sources.factories import MONDAY, backed_up, claim, handed_on, make_assignment, make_policy, record_of, settle
from tests.sources.planning.planned import DAY, HOUR, NINE
from tests.sources.worker_process import worker_process
from tests.threads import a_lock_is_waited_for, beside, impatience
from tests.waiting import PATIENCE, eventually

Patch = pytest.MonkeyPatch
pytestmark = pytest.mark.django_db(transaction=True)

DONE = Succeeded(EngineResult(Verdict.SUCCEEDED))


def yearly(day: int) -> str:
    """On that day of a month half a year away: an edit on New Year's Day would find its date in the past."""
    return f"0 9 {day} {(database_clock().month + 5) % 12 + 1} *"


def edit(policy: Policy, cron: str) -> None:
    with transaction.atomic():
        Schedule.objects.filter(pk=policy.schedule_id).update(cron=cron)
        planning.replan(Policy.objects.select_related("schedule").get(pk=policy.pk))


def go_on() -> tuple[Any, Outcome]:
    """Claim the record of the edit and run it. Returns the claim and its outcome."""
    claimed = claim("default", database_clock())
    return claimed, rollouts.run_rollout(Run(claimed))


def many(count: int) -> Policy:
    """A daily policy, each of its assignments backed up yesterday."""
    policy, now = make_policy(), database_clock()
    sources = Source.objects.bulk_create(
        Source(name=f"laptop {number}", kind="local", path="/srv/files") for number in range(count)
    )
    Assignment.objects.bulk_create(
        Assignment(
            source=source, policy=policy, last_backup_at=now - DAY, last_backup_for=60, next_backup_at=now - HOUR
        )
        for source in sources
    )
    return policy


def left(policy: Policy, before: datetime) -> int:
    """How many of its assignments still have a date from before the edit to a yearly cron."""
    return policy.assignments.filter(next_backup_at__lt=before).count()


@pytest.fixture
def one_by_one(monkeypatch: Patch) -> None:
    """A batch is one assignment, and a look does one batch."""
    monkeypatch.setattr(rollouts, "SECONDS", -1.0)
    monkeypatch.setattr(rollouts, "BATCH", 1)


def test_claims_do_not_wait_for_an_edit_of_a_policy_with_a_seeding_limit(monkeypatch: Patch) -> None:
    edited, other = make_policy(seeding_limit=2), make_policy(seeding_limit=2)
    for policy in (edited, other):
        planning.limit_seeding(policy)
        planning.emit_due(NINE, [make_assignment(policy).pk])
        settle(claim("availability", NINE), Handoff("backups"), NINE)
    in_the_middle, go_ahead, move = Event(), Event(), replanning._move

    def later(*given: Any) -> None:
        in_the_middle.set()
        assert go_ahead.wait(PATIENCE)
        move(*given)

    monkeypatch.setattr(replanning, "_move", later)
    edited.seeding_limit = 1
    edited.save()
    editing = beside(lambda: planning.replan(edited, NINE))
    assert in_the_middle.wait(PATIENCE)
    try:
        with impatience():
            assert claim("backups", NINE).subject == record_of(other.assignments.get()).subject
    finally:
        go_ahead.set()
    editing.result(PATIENCE)


@pytest.mark.promise
@pytest.mark.slow
def test_killed_in_the_middle_it_is_completed_by_another_worker(tmp_path: Path, monkeypatch: Patch) -> None:
    policy, now = many(2 * rollouts.BATCH + 1), database_clock()
    planning.emit_due(now, [policy.assignments.order_by("-pk")[0].pk])
    monkeypatch.setattr(rollouts, "SECONDS", -1.0)
    edit(policy, yearly(1))
    assert left(policy, now) == rollouts.BATCH + 1
    page = f"/admin/sources/policy/{policy.pk}/change/"
    assert (
        "1,000 of 2,001 follow its last edit so far" in staff("view_policy", "change_policy").get(page).content.decode()
    )
    with worker_process("default", tmp_path) as worker, transaction.atomic():  # the last batch waits for this one
        BacklogRecord.objects.select_for_update().get(kind="backup")
        eventually(lambda: left(policy, now) == 1 and a_lock_is_waited_for())
        worker.send_signal(signal.SIGKILL)
        worker.wait(PATIENCE)
    assert Program().get(f"policies/{policy.pk}").json()["edit_under_way"] == {"done": 2000, "of": 2001}
    BacklogRecord.objects.running().update(lease_expires_at=now - DAY)
    assert rescuing.rescue(now=database_clock() + HOUR) == 1
    BacklogRecord.objects.filter(kind=rollouts.KIND).update(status=Status.READY, waiting_for=None)
    claimed, outcome = go_on()
    settle(claimed, outcome, database_clock())
    assert left(policy, now) == 0
    assert not BacklogRecord.objects.unfinished().exists()  # what was ready is not due any more
    assert Program().get(f"policies/{policy.pk}").json()["edit_under_way"] is None


def test_an_edit_that_comes_while_an_earlier_one_goes_on_reaches_all_rows(monkeypatch: Patch) -> None:
    policy, now = many(3), database_clock()
    monkeypatch.setattr(rollouts, "BATCH", 2)
    monkeypatch.setattr(rollouts, "SECONDS", -1.0)
    edit(policy, yearly(1))
    claimed, outcome = go_on()
    assert (outcome, left(policy, now)) == (Succeeded(), 0)
    edit(policy, yearly(2))  # after the last batch, before the settle
    settle(claimed, outcome, database_clock())
    assert rollouts.progress("policy", [policy.pk]) == {policy.pk: rollouts.RolloutProgress(0, 3)}
    settle(*go_on(), database_clock())
    assert {each.next_backup_at.day for each in policy.assignments.all()} == {2}
    assert rollouts.progress("policy", [policy.pk]) == {}


@pytest.mark.usefixtures("one_by_one")
def test_an_edit_that_comes_in_a_batch_waits_for_none_of_its_locks_and_undoes_it() -> None:
    policy = many(3)
    edit(policy, yearly(1))
    with transaction.atomic():
        policy_edits.lock_policy(policy.pk)
        going_on = beside(go_on)  # up to the last batch, which needs the schedule
        eventually(a_lock_is_waited_for)
        with impatience():
            edit(policy, yearly(2))
    claimed, outcome = going_on.result(PATIENCE)
    settle(claimed, outcome, database_clock())
    assert {each.next_backup_at.day for each in policy.assignments.all()} == {2}
    assert not BacklogRecord.objects.unfinished().exists()


@pytest.mark.usefixtures("one_by_one")
def test_an_edit_is_tried_at_once_after_an_earlier_one_that_failed() -> None:
    policy, now = many(3), database_clock()
    edit(policy, yearly(1))
    settle(claim("default", now), Failed("boom"), now)
    edit(policy, yearly(2))
    settle(*go_on(), database_clock())
    assert left(policy, now) == 0


@pytest.mark.usefixtures("one_by_one")
def test_a_worker_that_lost_its_lease_changes_nothing() -> None:
    policy, now = many(3), database_clock()
    edit(policy, yearly(1))
    stale = claim("default", now)
    BacklogRecord.objects.running().update(lease_token="00000000-0000-0000-0000-000000000000")
    rollouts.run_rollout(Run(stale))
    assert left(policy, now) == 2


def test_a_backup_that_is_settled_while_dates_are_computed_gets_one_by_the_new_period(
    monkeypatch: Patch,
) -> None:
    policy = make_policy()
    assignment = backed_up(policy, MONDAY - DAY)
    planning.emit_due(NINE)
    copied, compute = handed_on(assignment, NINE), replanning._next_dates

    def beside_a_settle(*given: Any) -> Any:
        monkeypatch.setattr(replanning, "_next_dates", compute)
        beside(lambda: settle(copied, DONE, NINE + HOUR)).result(PATIENCE)
        return compute(*given)

    monkeypatch.setattr(replanning, "_next_dates", beside_a_settle)
    edit(policy, "0 9 1 1 *")
    assignment.refresh_from_db()
    assert assignment.next_backup_at == datetime(2027, 1, 1, 9, tzinfo=MONDAY.tzinfo)


@pytest.mark.parametrize("cron", ["30 2 * * *", "*/20 * * * *", "0 * * * 1-5"])
def test_dates_computed_together_are_those_computed_one_by_one(cron: str) -> None:
    """Over both changes of clocks of a year."""
    period = make_policy(cron=cron, zone="Europe/Berlin").schedule.period
    changes = (MONDAY + 26 * DAY, MONDAY + 236 * DAY)
    started = {change + timedelta(minutes=7 * step) for change in changes for step in range(300)}
    for days in (130, 237):  # for the first one, those of autumn are of a clock that was wrong
        now = MONDAY + days * DAY
        expected = {instant: next_backup_at(period, instant, now) for instant in started}
        assert replanning._next_dates(period, started, now) == expected
