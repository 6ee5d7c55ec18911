"""Plans of copies: their windows and retries, and what users see of one that is late or fails."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.core.exceptions import ValidationError
from django.test import Client

from alerting import raising
from alerting.models import Alert, AlertKind
from backups.upkeep import copies
from dashboard import metrics
from fleet import assignment_findings
from fleet.policy_edits import Policies
from fleet.status import reasons_of
from jobs import tick
from jobs.clock import database_clock
from jobs.models import BacklogRecord
from jobs.outcomes import Failed, Handoff, Postponed, Succeeded
from jobs.states import Status, WaitingFor
from sources import planning
from sources.models import Assignment, Copy, Policy
from sources.planning import AVAILABILITY, BACKUPS
from tests.backups import copies_at_work
from tests.backups.copies_at_work import at_work, copied, done
from tests.commands import command
from tests.operations.conditions.examining import finding
from tests.sources.factories import claim, record_of, settle

assignment, played, policy, waiting = (
    copies_at_work.assignment,
    copies_at_work.played,
    copies_at_work.policy,
    copies_at_work.waiting,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("made_by_hand")]


def test_it_waits_for_its_own_window_and_is_planned_once(waiting: Assignment) -> None:
    now = datetime(2026, 11, 24, 12, tzinfo=UTC)
    Policy.objects.update(copy_window=[{"days": "mon-sun", "start": "22:00", "end": "06:00"}])
    assert [copies.plan(now), copies.plan(now)] == [1, 0]
    record = BacklogRecord.objects.unfinished().get(kind=copies.KIND)
    assert (record.waiting_for, record.run_after.hour, record.closes_at and record.closes_at.hour) == (
        WaitingFor.WINDOW, 22, 6
    )  # fmt: skip
    at = {record.pk: (now.replace(hour=22), now.replace(hour=6) + timedelta(days=1))}
    assert planning.copy_openings([(record.pk, record.subject)], now) == at
    record.delete()
    assert copies.plan(now + copies.AGAIN_AFTER / 2) == 0, "it gave up, or was cancelled, a moment ago"
    assert copies.plan(now + copies.AGAIN_AFTER * 2) == 1


def test_a_person_who_mended_it_does_not_wait_for_the_next_retry(waiting: Assignment) -> None:
    copies.plan()
    settle(at_work(), Failed("the disk was full"), database_clock())
    [record] = BacklogRecord.objects.filter(kind=copies.KIND)
    assert record.waiting_for == WaitingFor.BACKOFF
    assert copies.copy_now([waiting.pk]) == 1
    record.refresh_from_db()
    assert (record.status, record.failures) == (Status.READY, 1)
    assert isinstance(done(at_work()), Succeeded)


@pytest.mark.own_process
def test_it_yields_to_a_backup_of_its_source_that_waits(waiting: Assignment, monkeypatch: pytest.MonkeyPatch) -> None:
    assert copies.plan() == 1
    record = at_work()
    planning.back_up_now([waiting])
    settle(claim(AVAILABILITY, database_clock()), Handoff(BACKUPS, waiting.source.exclusive_key), database_clock())
    assert record_of(waiting).waiting_for == WaitingFor.THROTTLE
    monkeypatch.setattr(copies, "LOOK_EVERY_SECONDS", 0.0)
    outcome = done(record)
    assert isinstance(outcome, Postponed)
    assert copies.YIELDED in outcome.reason
    tick.tick(database_clock())
    assert record_of(waiting).status == Status.READY


def test_a_policy_says_where_to_and_what_is_there_is_behind_at_once(
    waiting: Assignment, policy: Policy, tmp_path: Path
) -> None:
    edits = Policies()
    row = edits.named(policy.schedule.name)
    for name, why in ((policy.repository.name, "is the repository of its backups"), ("nowhere", "nowhere")):
        with pytest.raises(ValidationError, match=why):
            edits.edit(row, {"copy_to": name})
        row = edits.named(policy.schedule.name)
    edits.edit(row, {"copy_to": None})
    waiting.refresh_from_db()
    assert waiting.to_copy_since is None
    edits.edit(edits.named(policy.schedule.name), {"copy_to": "offsite"})
    waiting.refresh_from_db()
    assert waiting.to_copy_since
    copied(waiting)
    edits.edit(edits.named(policy.schedule.name), {"zone": "Europe/Berlin"})
    waiting.refresh_from_db()
    assert waiting.to_copy_since is None, "an edit of something else copies nothing again"
    [left] = edits.edit(edits.named(policy.schedule.name), {"copy_to": None}).warnings
    assert "the copies in offsite stay there" in left


def test_people_see_a_copy_that_is_overdue_or_fails_and_copy_now(waiting: Assignment, admin_client: Client) -> None:
    now = database_clock()
    opens = f"{now + timedelta(hours=12):%H}"  # never now
    Policy.objects.update(copy_window=[{"days": "mon-sun", "start": f"{opens}:00", "end": f"{opens}:01"}])
    copies.plan()
    Copy.objects.update(error="the disk is full")
    [why] = reasons_of([waiting.source], now).values()
    assert "has not been in its copy since" in why
    assert "(the disk is full)" in why
    assert assignment_findings.copies_late(now) == {"offsite": 1}
    raising.look(now)
    assert AlertKind.COPY in Alert.objects.values_list("kind", flat=True)
    assert "anna, one of its points has not been in its copy since" in finding("copies", now).what
    assert 'backupsched_copies_overdue{repository="offsite"} 1.0' in metrics.exposition().decode()
    assert "the disk is full" in admin_client.get(f"/admin/sources/source/{waiting.source_id}/change/").content.decode()
    run, refused = command("sources copy")
    assert "the disk is full" in run()
    assert json.loads(run("anna", "--json")) == {"enqueued": 1}
    assert "copied already" in refused("anna", code=1)
