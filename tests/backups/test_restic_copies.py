"""Copies from one restic repository to another, as records of a real worker."""

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError

from backups import holdings, locations
from backups.copying import order
from backups.upkeep import checks, copies, retention
from external.processes.programs import find_restic
from fleet.policy_edits import Policies
from jobs.clock import database_clock
from jobs.models import BacklogRecord, Decision
from jobs.outcomes import Failed, Succeeded
from jobs.states import Status
from sources import planning
from sources.models import Assignment, Backup, CheckRound, Repository
from storage.places.location import RESTIC
from storage.points.checking import GONE
from storage.restic.snapshots import snapshots
from storage.stores import store_of
from tests.backups.copies_at_work import at_work, backed_up, change, copied, done, points_in
from tests.backups.stored_sources import make_repository_here
from tests.programs import needs_restic
from tests.sources.factories import handed_on, make_assignment, make_policy, make_source
from tests.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def another_backup_into(repository: Repository) -> Iterator[None]:
    """It locks the repository, as backups and copies do, for as long as the block lasts."""
    environment = {**os.environ, **locations.location_of(repository).environment}
    command = (find_restic(), "backup", "--no-cache", "--stdin")
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL):
        locks = Path(repository.location, RESTIC, "locks")
        eventually(lambda: any(each.name.isalnum() for each in locks.iterdir()))
        yield  # it ends with its input


@pytest.fixture
def repositories(tmp_path: Path, settings: Any) -> list[Repository]:
    settings.VAR_DIR = tmp_path / "var"
    return [make_repository_here(RESTIC, name, tmp_path / name) for name in ("here", "there")]


@pytest.mark.own_process
@needs_restic
@pytest.mark.slow
def test_a_copy_that_is_busy_at_its_end_is_thinned_out_later(folder: Path, repositories: list[Repository]) -> None:
    here, there = repositories
    policy = make_policy(repository=here, copy_to=there, keep={"last": 1})
    anna = make_assignment(policy, make_source(name="anna", path=str(folder)))
    backed_up(anna)
    copied(anna)
    change(folder, letter="2")
    backed_up(anna)
    with another_backup_into(there):
        row = copied(anna)
    assert (len(row.points), row.error) == (2, "")
    assert isinstance(done(at_work(planning.RETENTION)), Succeeded)
    row.refresh_from_db()
    assert row.points == points_in(there, anna) == points_in(here, anna)[-1:]


@needs_restic
@pytest.mark.slow
def test_a_point_that_was_left_out_is_named_and_tried_again_until_it_has_come(
    folder: Path, repositories: list[Repository]
) -> None:
    here, there = repositories
    anna = make_assignment(make_policy(repository=here, copy_to=there, keep={}), make_source(path=str(folder)))
    backed_up(anna)
    copied(anna)
    before = packs_of(here)
    change(folder, letter=os.urandom(500).hex())
    backed_up(anna)
    spoilt = max(packs_of(here) - before, key=lambda each: each.stat().st_size)
    content = spoilt.read_bytes()
    spoilt.chmod(0o600)
    spoilt.write_bytes(b"damaged" + content[7:])
    for number in range(2):
        change(folder, letter=f"{number}")
        backed_up(anna)
        row = copied(anna)
        _, lost, *rest = points_in(here, anna)
        assert (lost not in row.points, row.points[1:]) == (True, rest)
        assert f"point {lost} is left out of the copy: the repository's contents are damaged" in row.error
    assert Decision.objects.filter(kind=copies.KIND, what="damaged").count() == 1, "what is known is no news"
    for keep, again in (({"last": 3}, [lost]), ({"last": 2}, []), ({"no": "rule"}, [])):
        anna.policy.keep = keep
        assert copies._again(anna, there) == again, "what the policy does not keep need not come"
    spoilt.write_bytes(content)
    assert copies.copy_now([anna.pk]) == 1
    assert isinstance(done(at_work()), Succeeded)
    row.refresh_from_db()
    assert (row.points, row.error) == (points_in(here, anna), "")
    assert row.points == points_in(there, anna)


def packs_of(repository: Repository) -> set[Path]:
    return {*Path(repository.location, RESTIC).glob("data/*/*")}


def test_formats_are_not_mixed_and_a_copy_has_one_rate() -> None:
    plain, (first, second) = (
        Repository.objects.create(name="plain", location="/x"),
        (
            Repository.objects.create(name=each, location=f"/{each}", format=RESTIC, encrypted=True, key="stored:x")
            for each in ("first", "second")
        ),
    )
    for pair in ((plain, first), (first, plain)):
        policy = make_policy(repository=pair[0])
        with pytest.raises(ValidationError, match="points are copied within one format"):
            Policies().edit(Policies().named(policy.schedule.name), {"copy_to": pair[1].name})
    policy = make_policy(repository=first, copy_to=second)
    with pytest.raises(ValidationError, match="one rate for a whole run"):
        Policies().edit(Policies().named(policy.schedule.name), {"copy_bandwidth": "08:00,512K 19:00,off"})
    assert Policies().edit(Policies().named(policy.schedule.name), {"copy_bandwidth": "2M"}).row.copy_to == second


def test_after_a_clock_that_was_ahead_a_point_is_named_after_the_last_one_by_name() -> None:
    """A copy brings what is later than all that it has, by name."""
    row = Repository.objects.create(name="first", location="/first", format=RESTIC, encrypted=True, key="stored:x")
    anna = make_assignment(make_policy(repository=row))
    for name, year in (("20300101T000000Z", 2030), ("20300101T000000Z-2", 2026), ("20251231T000000Z", 2025)):
        at = datetime(year, 12, 31, tzinfo=UTC)
        facts = {"started_at": at, "ended_at": at, "attempt": 1, "size": 0, "files": 0, "snapshot": f"{name}/1a2b"}
        Backup.objects.create(assignment=anna, repository=row, **facts)
    assert order._last_snapshot(anna)["last_snapshot"] == "20300101T000000Z-2/1a2b"


@needs_restic
@pytest.mark.slow
def test_what_was_forgotten_is_removed_although_the_prune_fails_and_a_check_reads_all_of_both_and_misses_nothing(
    folder: Path, repositories: list[Repository]
) -> None:
    here, there = repositories
    policy = make_policy(repository=here, copy_to=there, keep={})
    anna = make_assignment(policy, make_source(name="anna", path=str(folder)))
    for number in range(2):
        change(folder, letter=f"{number}")
        backed_up(anna)
        copied(anna)
    [gone, _] = points_in(here, anna)
    policy.keep = {"last": 1}
    policy.save()
    assert retention.plan(Assignment.objects.all()) == 1
    for of, ends, said in ((here, Failed, 1), (there, Succeeded, 2)):
        spoilt = {pack: pack.read_bytes() for pack in packs_of(of)}
        for pack in spoilt:
            pack.unlink()
        BacklogRecord.objects.filter(kind=retention.KIND).update(status=Status.READY, waiting_for=None)
        assert isinstance(done(at_work(planning.RETENTION)), ends)
        assert (len(points_in(of, anna)), gone in holdings.recorded(anna, of)) == (1, False)
        failures = Decision.objects.filter(kind=retention.KIND, what="failed")
        text = failures.latest("pk").text
        assert (failures.count(), f"{of}: the data of removed points still takes up space: " in text) == (said, True)
        assert "packs from index missing in repo" in text
        of.refresh_from_db()
        assert of.pruned_at is None
        for pack, content in spoilt.items():
            pack.write_bytes(content)
    assert "1 point removed" in Decision.objects.filter(kind=retention.KIND, what="removed").earliest("pk").text
    here.refresh_from_db()
    assert here.pruned_at, "it is tried again, although nothing goes any more"

    CheckRound.objects.create(assignment=anna, planned_at=anna.inserted_at, repository=here, part="2/21")
    for of in (here, there):
        assert missed(anna) == []
        text = Decision.objects.filter(kind=planning.CHECK, what="checked").latest("pk").text
        assert f"{len(packs_of(of))} files read in {of}" in text, "all of it, also in mid-round"

    for pack in packs_of(there):
        pack.unlink()
    change(folder, letter="more")
    backed_up(anna)
    row = copied(anna)
    assert row.error.startswith("the data of removed points still takes up space: "), row.error
    assert (row.points, len(row.points)) == (points_in(there, anna), 1)


@needs_restic
@pytest.mark.slow
def test_what_a_killed_worker_forgot_is_not_missed_and_what_it_did_not_is(
    tmp_path: Path, folder: Path, settings: Any
) -> None:
    settings.VAR_DIR = tmp_path / "var"
    here = make_repository_here(RESTIC, "here", tmp_path / "here")
    policy = make_policy(repository=here, keep={})
    anna = make_assignment(policy, make_source(name="anna", path=str(folder)))
    for number in range(4):
        change(folder, letter=f"{number}")
        planning.back_up_now([anna])
        done(handed_on(anna, database_clock()))
    anna.refresh_from_db()
    planning.back_up_now([bert := make_assignment(policy, make_source(name="bert", path=str(folder)))])
    done(handed_on(bert, database_clock()))
    bert.refresh_from_db()
    forget(here, bert, *points_in(here, bert))
    gone, _, lost, newest = points_in(here, anna)
    policy.keep = {"last": 2}
    policy.save()
    forget(here, anna, gone, lost)
    assert missed(anna) == [gone, lost], "nothing here removes anything yet"
    found = [(each["point"], each["why"]) for each in CheckRound.objects.get(assignment=bert).damage]
    assert found == [(each, GONE) for each in holdings.recorded(bert, here)], "for whom it was read, too"
    assert retention.plan(Assignment.objects.all()) == 1
    assert missed(anna) == [lost]
    Assignment.objects.update(held_back_since=database_clock())
    assert missed(anna) == [gone, lost], "nothing is removed of one that looks wrong"
    Assignment.objects.update(held_back_since=None)
    BacklogRecord.objects.filter(kind=retention.KIND).delete()
    assert missed(anna) == [gone, lost]
    Backup.objects.filter(snapshot__startswith=f"{lost}/").delete()
    policy.keep = {"last": 1}
    policy.save()
    assert retention.plan(Assignment.objects.all()) == 1
    assert isinstance(done(at_work(planning.RETENTION)), Succeeded)
    assert holdings.recorded(anna, here) == points_in(here, anna) == [newest]
    assert missed(anna) == []


def forget(repository: Repository, assignment: Assignment, *points: str) -> None:
    restic = store_of(locations.location_of(repository), threading.Event()).restic  # type: ignore[attr-defined]
    restic.run("forget", *(each.id for each in snapshots(restic, assignment.directory) if each.point in points))


def missed(assignment: Assignment) -> list[str]:
    """The points that a check calls lost."""
    checks.check_now([assignment.pk])
    record = at_work(planning.CHECK)
    assert isinstance(done(record), Succeeded)
    return [each["point"] for each in CheckRound.objects.get(assignment=assignment).damage if each["why"] == GONE]
