"""A point that is lost or cannot be read is named, and what its rules keep stays."""

from dataclasses import asdict

import pytest
from django.test import Client

from backups.upkeep import retention, retention_decisions
from fleet.status import reasons_of
from jobs.outcomes import Succeeded
from sources.models import Assignment, Backup, CheckRound
from storage import layout
from storage.points.checking import GONE, of_manifest
from tests.backups import points_to_remove
from tests.backups.points_to_remove import NOW, add_backup, at_work, logged, run, thin_out
from tests.storage.played_runs import ASSIGNMENT, Played

assignment, played = points_to_remove.assignment, points_to_remove.played

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("made_by_hand")]


def test_a_lost_point_is_named_as_by_a_check_and_keeps_its_row_and_another_one_stays_in_its_place(
    assignment: Assignment, played: Played, admin_client: Client
) -> None:
    *there, lost = played.points()
    Assignment.objects.update(last_backup_at=layout.instant_of(lost))
    (played.root / layout.manifest_path(ASSIGNMENT, lost)).unlink()
    for present in (there, there[-2:]):
        thin_out(assignment)
        assert played.points() == present
        assert [each.snapshot for each in Backup.objects.order_by("started_at")] == [*present, lost]
        [damage] = CheckRound.objects.get().damage
        assert (damage["point"], damage["why"], damage["repository"]) == (lost, GONE, assignment.policy.repository_id)
    assert f"the manifest of point {lost} is missing" in logged("damaged"), "once"
    assignment.refresh_from_db()
    assert assignment.last_backup_at == layout.instant_of(there[-1]), "it is due"
    page = admin_client.get(f"/admin/sources/assignment/{assignment.pk}/change/").content.decode()
    assert "last, missing" in page
    source = assignment.source
    assert f"though nothing here has removed it: {lost}" in reasons_of([source], NOW)[source.pk]
    assert retention.plan([assignment], NOW) == 0, "as long as nothing else is to go"
    for number in range(2):
        add_backup(assignment, played.back_up({"a": f"new {number}"}), 10 + number)
    thin_out(assignment)
    assert [each.snapshot for each in Backup.objects.order_by("started_at")] == played.points()
    assert CheckRound.objects.get().damage == [], "its rules have let it go"


def test_what_lies_behind_a_lost_manifest_stays_as_long_as_its_rules_keep_it(
    assignment: Assignment, played: Played
) -> None:
    lost = played.points()[3]
    own = played.place(lost, "only/3")
    played.manifest(lost).unlink()
    for _ in range(2):  # when it is found, and when it is known
        thin_out(assignment)
        assert own.exists()
    add_backup(assignment, played.back_up({"a": "new"}), 10)
    thin_out(assignment)
    assert not own.exists()


def test_a_point_whose_row_was_lost_gets_one_and_goes_with_the_others(assignment: Assignment, played: Played) -> None:
    lost = played.points()[0]
    Backup.objects.filter(snapshot=lost).delete()
    for kept in (3, 2):
        thin_out(assignment)
        rows = Backup.objects.order_by("started_at")
        assert [each.snapshot for each in rows] == played.points()
        assert len(rows) == kept
        if kept == 3:
            assert (rows[0].snapshot, rows[0].files, rows[0].record_id) == (lost, 3, None)


def test_a_manifest_that_cannot_be_read_is_named_and_holds_up_its_neighbour_alone(
    assignment: Assignment, played: Played
) -> None:
    points = played.points()
    assignment.policy.keep = {"last": 1}
    assignment.policy.save()
    Backup.objects.filter(snapshot=points[0]).delete()  # nothing removes it yet
    (played.root / layout.manifest_path(ASSIGNMENT, points[0])).write_bytes(b"damaged")
    retention.plan([assignment], NOW)
    assert isinstance(run(at_work()), Succeeded)
    assert played.points() == [points[0], points[1], points[4]]
    assert points[0] in logged("damaged")
    [damage] = CheckRound.objects.get().damage
    assert (damage["point"], damage["place"]) == (points[0], layout.MANIFESTS)


def test_a_newest_point_that_a_check_could_not_read_has_another_one_in_its_place_and_stays_named(
    assignment: Assignment, played: Played
) -> None:
    assignment.policy.keep = {"last": 1}
    assignment.policy.save()
    *_, whole, newest = played.points()
    manifest = played.root / layout.manifest_path(ASSIGNMENT, newest)
    written = manifest.read_bytes()
    manifest.write_bytes(b"damaged")
    damage = [asdict(of_manifest(newest, "it is cut", assignment.policy.repository_id))]
    CheckRound.objects.create(assignment=assignment, planned_at=NOW, damage=damage)
    thin_out(assignment)
    assert played.points() == [whole, newest]
    assert played.restored(whole) == played.expected[whole], "what else is there to restore?"
    assert [each.reasons for each in retention_decisions.decide(assignment)] == [("last", "damaged"), ("last",)]
    assert CheckRound.objects.get().damage == damage, "no removal reads it again"
    manifest.write_bytes(written)
    CheckRound.objects.update(damage=[])
    thin_out(assignment)
    assert played.points() == [newest]
