"""Copies: points are brought into a second repository and restored from there, and users see how far it is."""

import json
import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.test import Client

from alerting import raising
from alerting.models import Alert, AlertKind
from backups.restores import drills
from backups.upkeep import checks, copies, removals, retention, retention_decisions
from dashboard import metrics
from fleet import assignment_findings
from fleet.policy_edits import Policies
from fleet.repository_edits import Repositories
from fleet.status import reasons_of
from jobs import tick
from jobs.clock import database_clock
from jobs.models import BacklogRecord, Decision
from jobs.outcomes import Failed, Handoff, Postponed, Succeeded
from jobs.states import Status, WaitingFor
from sources import planning
from sources.models import Assignment, Backup, CheckRound, Copy, Policy, Repository, Source
from sources.planning import AVAILABILITY, BACKUPS
from storage import layout
from storage.recover import program
from tests.backups import copies_at_work
from tests.backups.copies_at_work import at_work, backed_up, change, copied, copy_of, done, make_repository, points_in
from tests.backups.points_to_remove import add_backup
from tests.commands import command
from tests.engines.peers import tree
from tests.operations.conditions.examining import finding
from tests.sources.factories import claim, error_of, record_of, settle
from tests.storage.played_runs import ASSIGNMENT, BEGAN
from tests.storage.with_digests import WithDigests

assignment, played, policy, waiting = (
    copies_at_work.assignment,
    copies_at_work.played,
    copies_at_work.policy,
    copies_at_work.waiting,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("made_by_hand")]


@pytest.mark.slow
def test_each_point_comes_into_the_copy_by_itself_and_restores_from_there(
    assignment: Assignment, folder: Path, tmp_path: Path
) -> None:
    before = tree(folder)
    backed_up(assignment)
    row = copied(assignment)
    assert (assignment.to_copy_since, row.error, row.as_of) == (None, "", assignment.last_backup_at)
    assert copies.plan() == 0
    for number in range(3):
        change(folder, letter=f"{number}", **{f"only{number}": "x"})
        backed_up(assignment)
        row = copied(assignment)
    first, second = assignment.policy.repository, assignment.policy.copy_to
    assert row.points == points_in(second, assignment) == points_in(first, assignment)
    assert len(row.points) == 3
    assert "1 point copied (2 files" in Decision.objects.filter(kind=copies.KIND, what="copied").latest("pk").text
    os.rename(tmp_path / "office", tmp_path / "burnt")
    call_command("restores", "run", "anna", "--from", "offsite", "--to", str(tmp_path / "back"))
    assert tree(tmp_path / "back") == tree(folder)
    call_command("restores", "run", "anna", "--at", row.points[0], "--to", str(tmp_path / "then"))
    assert tree(tmp_path / "then") == {**before, "letter": "0", "only0": "x"}
    code = program.main([str(tmp_path / "offsite"), "--source", "anna", "--to", str(tmp_path / "recovered")])
    assert (code, tree(tmp_path / "recovered")) == (0, tree(folder))


@pytest.fixture
def there(waiting: Assignment, played: WithDigests, policy: Policy) -> WithDigests:
    """All of that in the copy, as a run leaves it."""
    second, last = copy_of(played, policy), waiting.last_backup_at
    shutil.copytree(played.folder, second.folder, dirs_exist_ok=True, copy_function=shutil.copy2)
    assert policy.copy_to
    facts = {"planned_at": last, "copied_at": last, "as_of": last, "points": played.points()}
    Copy.objects.create(assignment=waiting, repository=policy.copy_to, **facts)
    Assignment.objects.update(to_copy_since=None)
    waiting.refresh_from_db()
    return second


@pytest.mark.own_process
def test_what_is_gone_from_the_first_repository_stays_in_the_copy_until_its_rules_remove_it(
    waiting: Assignment, played: WithDigests, policy: Policy
) -> None:
    row, second = copied(waiting), copy_of(played, policy)
    assert row.points == second.points() == played.points()
    assert 0 < (row.repository.room_free or 0) <= (row.repository.room_total or 0)
    for manifest in played.folder.glob(f"{layout.MANIFESTS}/*"):
        manifest.unlink()
    assert copies.copy_now([waiting.pk]) == 1
    error = error_of(done(at_work()))
    assert "not in the repository that is to be copied; the copy stays as it is" in error
    assert error in Copy.objects.get().error
    assert second.points() == row.points
    for point in row.points:
        assert second.restored(point) == played.expected[point]
    waiting.policy.keep = {"last": 1}
    assert [len(each.reasons) for each in retention_decisions.decide_of_copy(waiting, row.repository, row.points)] == [
        1,
        0,
        0,
    ]


@pytest.mark.slow
def test_what_it_keeps_less_goes_behind_the_newest_point_and_nothing_while_it_is_held_back(
    waiting: Assignment, played: WithDigests, there: WithDigests
) -> None:
    Policy.objects.update(keep={"last": 2})
    Assignment.objects.update(held_back_since=database_clock(), held_back_why="half is gone")
    for held_back, left in ((True, 3), (False, 2)):
        assert copies.copy_now([waiting.pk]) == 1
        assert isinstance(done(at_work()), Succeeded)
        assert len(Copy.objects.get().points) == len(there.points()) == left
        Assignment.objects.update(held_back_since=None)
        assert held_back or there.restored(there.points()[0]) == played.expected[there.points()[0]]


@pytest.mark.parametrize("rule", ["daily", "weekly", "within"])
def test_a_copy_keeps_the_same_points_after_a_night_on_which_the_clock_was_ahead(
    rule: str, waiting: Assignment, played: WithDigests, policy: Policy
) -> None:
    """All later points have the day of that night in their names."""
    names = [layout.name_of(BEGAN + timedelta(days=400))]
    for number in range(5):
        names.append(layout.name_of(BEGAN, names))
        row = add_backup(waiting, names[-1], 10 + number)
        Backup.objects.filter(pk=row.pk).update(started_at=BEGAN + timedelta(days=10 + 7 * number))
    waiting.policy.keep = {rule: "20d" if rule == "within" else 4}
    assert policy.copy_to
    of_copy = retention_decisions.decide_of_copy(waiting, policy.copy_to, [*played.points(), *names[1:]])
    kept = {each.point.name: each.reasons for each in of_copy}
    assert kept == {each.point.name: each.reasons for each in retention_decisions.decide(waiting)}
    assert sum(map(bool, kept.values())) in (3, 4)


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_copy_of_two_repositories_in_turn_loses_no_file_that_only_points_of_one_name(
    is_gone: bool, waiting: Assignment, played: WithDigests, policy: Policy, tmp_path: Path
) -> None:
    Policy.objects.update(keep={"last": 9})
    copied(waiting)
    second = WithDigests(Path(make_repository("spare", tmp_path / "spare").location), runs=3)
    tree = {"a": "x", "b": "the same"}
    for each, number in ((second, 10), (played, 20)):
        Policy.objects.update(repository=Repository.objects.get(location=str(each.root)))
        waiting.refresh_from_db()
        for more in range(2):
            add_backup(waiting, each.back_up(tree | {"a": f"{number + more}"}), number + more)
        played.runs = each.runs
        assert copies.copy_now([waiting.pk]) == 1
        assert isinstance(done(at_work()), Succeeded)
    if is_gone:
        Backup.objects.filter(repository__name="spare").delete()
    Policy.objects.update(keep={"last": 4})
    waiting.refresh_from_db()
    assert copies.copy_now([waiting.pk]) == 1
    assert isinstance(done(at_work()), Succeeded)
    there = copy_of(played, policy)
    there.expected |= second.expected
    assert len(there.points()) == 4
    assert [there.restored(each) for each in there.points()] == [there.expected[each] for each in there.points()]
    assert not there.unnamed()


def test_a_point_that_the_copy_has_lost_is_named_until_its_rules_let_it_go(
    waiting: Assignment, played: WithDigests, there: WithDigests
) -> None:
    first, lost, last = there.points()
    (there.root / layout.manifest_path(ASSIGNMENT, lost)).unlink()
    for keep, known, listed in ((4, [lost], [first, lost, last]), (4, [lost], [first, lost, last]), (1, [], [last])):
        Policy.objects.update(keep={"last": keep})
        assert copies.copy_now([waiting.pk]) == 1
        assert isinstance(done(at_work()), Succeeded)
        assert [each["point"] for each in CheckRound.objects.get().damage] == known
        assert Copy.objects.get().points == listed


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


@pytest.mark.slow
def test_it_goes_with_its_source_and_with_its_repository(waiting: Assignment, there: WithDigests) -> None:
    row = Copy.objects.get()
    second = Path(row.repository.location)
    assert "copies of points of a source in offsite" in str(removals.contents([waiting.source]))
    [use] = Repositories().users(row.repository)
    assert "copy_to" in use
    removals.start(waiting.source, with_backups=True, by="kim")
    assert isinstance(done(at_work(planning.REMOVAL)), Succeeded)
    assert not (second / ASSIGNMENT).exists()
    assert (second / layout.REPOSITORY).exists()
    assert not Copy.objects.exists()


@pytest.mark.slow
def test_a_check_reads_the_copy_too_what_is_damaged_there_comes_again_and_a_drill_restores_from_it(
    waiting: Assignment, played: WithDigests, there: WithDigests, policy: Policy, tmp_path: Path, settings: Any
) -> None:
    settings.VAR_DIR = tmp_path / "var"
    Policy.objects.update(drill_from="copy")
    file = there.place(there.points()[0], "b")
    file.write_text("the sXme")
    assert checks.check_now([waiting.pk]) == 1
    for _ in policy.repository, policy.copy_to:
        assert isinstance(done(at_work(planning.CHECK)), Succeeded)
    [damage] = CheckRound.objects.get().damage
    assert (damage["path"], damage["repository"]) == ("b", policy.copy_to_id)
    assert (damage["point"], damage["oldest"]) == (there.points()[-1], there.points()[0])
    assert drills.drill_now([waiting.pk]) == 1
    done(at_work(planning.DRILL))
    waiting.refresh_from_db()
    assert "did not come back" in waiting.drill_error
    assert waiting.to_copy_since
    copied(waiting)
    assert file.read_text() == "the same"
    played.place(played.points()[0], "b").write_text("the sXme")
    assert drills.drill_now([waiting.pk]) == 1
    done(at_work(planning.DRILL))
    waiting.refresh_from_db()
    assert (waiting.drill_error, waiting.proved_point) == ("", played.points()[-1])


@pytest.mark.slow
def test_of_a_retired_source_the_copy_thins_out_until_nothing_is_left(waiting: Assignment, there: WithDigests) -> None:
    Source.objects.update(retired_at=database_clock() - timedelta(days=400))
    waiting.source.refresh_from_db()
    assert retention.plan(Assignment.objects.all()) == 1
    assert isinstance(done(at_work(planning.RETENTION)), Succeeded)
    assert Copy.objects.get().points == there.points() == []
    assert not there.folder.exists()
