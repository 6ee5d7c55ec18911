"""Points that a policy does not keep go, by records of their own on the backlog."""

import json
from dataclasses import asdict
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from backups import known_points
from backups.upkeep import retention, retention_decisions
from engines.base import EngineResult, Verdict
from jobs.models import BacklogRecord
from jobs.outcomes import Cancelled, Failed, Handoff, Postponed, Succeeded
from jobs.states import Status, WaitingFor
from sources import planning
from sources.models import Assignment, Backup, CheckRound, ManifestDigest, Progress, Repository, Restore
from sources.planning import AVAILABILITY, BACKUPS, names
from storage import layout
from storage.places.location import of_directory
from storage.places.locks import locked
from storage.points.checking import GONE, of_manifest
from tests.backups import points_to_remove
from tests.backups.points_to_remove import NOW, add_backup, at_work, logged, run, thin_out
from tests.factories import make_record
from tests.sources.factories import claim, handed_on, make_assignment, make_policy, record_of, settle
from tests.storage.played_runs import ASSIGNMENT, BEGAN, Played

assignment, played = points_to_remove.assignment, points_to_remove.played

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("made_by_hand")]

NIGHTS = [{"days": "mon-sun", "start": "22:00", "end": "06:00"}]


@pytest.mark.own_process
def test_what_a_policy_does_not_keep_goes_and_the_rest_restores(assignment: Assignment, played: Played) -> None:
    assert [retention.plan([assignment], NOW), retention.plan([assignment], NOW)] == [1, 0], "one record is enough"
    assert isinstance(run(at_work()), Succeeded)
    assert [each.snapshot for each in Backup.objects.order_by("started_at")] == played.points()
    assert len(played.points()) == 2
    for point in played.points():
        assert played.restored(point) == played.expected[point]
    assert "3 points removed" in logged("removed")
    out = StringIO()
    call_command("backlog", "log", assignment.source.name, "--since", "2026-11-01", stdout=out)
    assert "3 points removed" in out.getvalue()
    assert not Progress.objects.exists()
    assert retention.plan([assignment], NOW) == 0, "nothing is left to remove"


@pytest.mark.parametrize("has_a_row", [False, True], ids=["never made", "lost"])
def test_what_a_run_left_that_was_killed_before_its_manifest_is_swept_and_what_a_lost_point_named_stays(
    has_a_row: bool, assignment: Assignment, played: Played
) -> None:
    """Its digest was kept right before, so that removals took it for a point that is lost."""
    earlier, name = (layout.name_of(layout.instant_of(each) + timedelta(hours=1)) for each in played.points()[1:3])
    known_points.keeping(assignment, assignment.policy.repository)(name, "d" * 64)
    if has_a_row:
        add_backup(assignment, name, 9)
        damage = [asdict(of_manifest(name, GONE, assignment.policy.repository_id))]
        CheckRound.objects.create(assignment=assignment, planned_at=NOW, damage=damage)
    left = [played.files / each / "left" for each in ([name] if has_a_row else [earlier, name])]
    for each in left:
        each.parent.mkdir()
        each.write_text("x")
        (played.folder / layout.MANIFESTS / f"{each.parent.name}{layout.UNFINISHED}").touch()
    for number, keep in enumerate((4, 3)):
        type(assignment.policy).objects.update(keep={"last": keep})
        assignment.refresh_from_db()
        thin_out(assignment, NOW + timedelta(hours=number))
        assert [each.exists() for each in left] == [has_a_row or number == 0] * len(left)
    assert ManifestDigest.objects.filter(point=name).exists() is has_a_row
    assert len(played.points()) == 3


def test_a_point_that_a_person_wants_back_stays_until_it_was_restored(assignment: Assignment, played: Played) -> None:
    first, *_ = points = played.points()
    wanted = make_record(Status.READY, kind=names.RESTORE, queue=names.RESTORES, subject="1")
    facts = {"assignment": assignment, "to": "folder", "asked_by": "ann", "asked_at": NOW}
    Restore.objects.create(point=first, repository=assignment.policy.repository, record_id=wanted.pk, **facts)
    other = Repository.objects.create(name="other", location="/other")
    Restore.objects.create(point=points[1], repository=other, record_id=wanted.pk, **facts)
    Restore.objects.create(point=points[2], repository=assignment.policy.repository, record_id=0, **facts)
    thin_out(assignment)
    assert played.points() == [first, *points[-2:]]
    assert played.restored(first) == played.expected[first]
    assert retention_decisions.decide(assignment)[-1].reasons == ("being restored",)
    assert retention.plan([assignment], NOW) == 0
    wanted.delete()
    thin_out(assignment)
    assert played.points() == points[-2:]


def test_the_newest_point_stays_where_the_clock_was_put_back(assignment: Assignment, played: Played) -> None:
    newest = layout.name_of(BEGAN, played.points())
    Backup.objects.filter(pk=add_backup(assignment, newest, 9).pk).update(started_at=BEGAN)
    assert [each.point.name for each in retention_decisions.decide(assignment) if each.reasons] == [
        newest,
        played.points()[-1],
    ]


def test_points_in_an_earlier_repository_of_the_policy_go_by_its_rules_too(
    assignment: Assignment, played: Played, tmp_path: Path
) -> None:
    earlier = assignment.policy.repository
    (tmp_path / "new").mkdir()
    later = Played(tmp_path / "new", runs=5)
    policy = assignment.policy
    policy.repository = Repository.objects.create(name="new", location=str(later.root))
    policy.keep = {"last": 4}
    policy.save()
    for number in range(3):
        add_backup(assignment, later.back_up({"a": f"{number}"}), 10 + number)
    thin_out(assignment)
    assert (len(played.points()), len(later.points())) == (1, 3)
    assert [each.reasons for each in retention_decisions.decide(assignment)] == [("last",)] * 4
    for number in range(3):
        add_backup(assignment, later.back_up({"a": f"{number}"}), 20 + number)
    earlier.location = str(tmp_path / "disconnected")
    earlier.save()
    thin_out(assignment)
    assert len(later.points()) == 4
    assert retention_decisions.decide(assignment)[-1].reasons == ("newest of its repository",)
    assert Backup.objects.filter(repository=earlier).count() == 1


def test_a_backup_that_succeeds_plans_it_for_the_window_and_no_backup_of_the_source_runs_beside(
    assignment: Assignment,
) -> None:
    assignment.policy.window = NIGHTS
    assignment.policy.save()
    evening = NOW.replace(hour=23)
    planning.emit_due(evening)
    result = EngineResult(Verdict.SUCCEEDED, 1, 1, snapshot="20261130T065755Z")
    settle(handed_on(assignment, evening), Succeeded(result), evening + timedelta(hours=8))
    record = BacklogRecord.objects.unfinished().get(kind=retention.KIND)
    assert (record.status, record.waiting_for) == (Status.WAITING, WaitingFor.WINDOW)
    assert (record.run_after.hour, record.closes_at and record.closes_at.hour) == (22, 6)
    assert record.origin_id == assignment.policy.schedule_id
    BacklogRecord.objects.filter(pk=record.pk).update(status=Status.READY, waiting_for=None, run_after=NOW)
    planning.back_up_now([assignment], NOW)
    settle(claim(AVAILABILITY, NOW), Handoff(BACKUPS, assignment.source.exclusive_key), NOW)
    waiting = claim(AVAILABILITY, NOW)
    settle(waiting, Handoff(BACKUPS, exclusive_key=waiting.payload["key"]), NOW)
    assert BacklogRecord.objects.get(pk=waiting.id).waiting_for == WaitingFor.THROTTLE
    assert record_of(assignment).status == Status.READY


def test_nothing_goes_while_it_is_held_back_and_the_log_says_why(assignment: Assignment, played: Played) -> None:
    retention.plan([assignment], NOW)
    record, repository = at_work(), assignment.policy.repository
    assert retention_decisions.going(assignment, repository) == set(played.points()[:3])
    Assignment.objects.update(held_back_since=NOW, held_back_why="9 of 10 files changed")
    assignment.refresh_from_db()
    assert retention_decisions.going(assignment, repository) == set(), "of these none may be missing"
    assert isinstance(run(record), Cancelled)
    assert "9 of 10 files changed" in logged("cancelled")
    assert len(played.points()) == 5
    assert retention.plan(Assignment.objects.all(), NOW) == 0


@pytest.mark.parametrize(("full", "emptied"), [({"files": 60}, {"files": 0}), ({"rows": 9}, {"rows": 0})])
def test_an_emptied_source_that_was_accepted_does_not_cost_the_last_full_point(full: Any, emptied: Any) -> None:
    assignment = make_assignment(make_policy(keep={"last": 3}))
    for hour in range(6):
        started_at = NOW + timedelta(hours=hour)
        facts = {"files": 1, "size": 9, "repository": assignment.policy.repository} | (emptied if hour > 2 else full)
        snapshot = layout.name_of(started_at)
        Backup.objects.create(
            assignment=assignment, attempt=1, started_at=started_at, ended_at=started_at, snapshot=snapshot, **facts
        )
    reasons = [each.reasons for each in retention_decisions.decide(assignment, NOW + timedelta(days=1))]
    assert reasons == [("last",), ("last",), ("last",), ("newest complete",), (), ()]


@pytest.mark.slow
def test_a_repository_that_is_away_or_at_work_is_tried_again_and_then_healed(
    assignment: Assignment, played: Played, tmp_path: Path
) -> None:
    retention.plan([assignment], NOW)
    with locked(of_directory(played.root), ASSIGNMENT):
        assert isinstance(run(at_work()), Postponed)
    away = tmp_path.with_name(f"{tmp_path.name}-away")
    tmp_path.rename(away)
    BacklogRecord.objects.update(status=Status.READY, waiting_for=None, run_after=NOW)
    outcome = run(at_work())
    assert isinstance(outcome, Failed)
    assert "is it mounted?" in logged("failed")
    assert BacklogRecord.objects.get().waiting_for == WaitingFor.BACKOFF
    away.rename(tmp_path)
    (played.folder / layout.MANIFESTS / f"{played.points()[0]}{layout.MANIFEST_ENDING}").unlink()  # killed half way
    BacklogRecord.objects.update(status=Status.READY, waiting_for=None, run_after=NOW)
    assert isinstance(run(at_work()), Succeeded)
    assert Backup.objects.count() == len(played.points()) == 2, "also the row whose removal was never noted"


def test_people_see_which_points_stay_and_why_before_anything_goes(
    assignment: Assignment, played: Played, admin_client: Client
) -> None:
    out = StringIO()
    call_command("policies", "prune", str(assignment.policy), "--dry-run", "--json", stdout=out)
    [found] = json.loads(out.getvalue())
    assert [each["because"] for each in found["points"]] == [["last"], ["last"], [], [], []]
    out = StringIO()
    call_command("sources", "prune", assignment.source.name, "--dry-run", stdout=out)
    assert out.getvalue().count("goes") == 3
    page = admin_client.get(f"/admin/sources/policy/{assignment.policy_id}/change/").content.decode()
    assert "points that go" in page
    assert "2026-11-04 06:57" in page
    page = admin_client.get(f"/admin/sources/assignment/{assignment.pk}/change/").content.decode()
    assert "is removed after the next backup" in page
    assert len(played.points()) == 5
    out = StringIO()
    call_command("sources", "prune", assignment.source.name, "--json", stdout=out)
    assert json.loads(out.getvalue()) == {"enqueued": 1}
    for noun, title, name in (
        ("policies", "policy", str(assignment.policy)), ("sources", "source", assignment.source.name),
    ):  # fmt: skip
        with pytest.raises(CommandError, match=f"there is no {title} '{name}x'; did you mean .*'{name}'"):
            call_command(noun, "prune", f"{name}x")
