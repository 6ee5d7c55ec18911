"""A repository whose disk is away: its mount point is an empty directory, and nothing is to be written there."""

import os
from pathlib import Path
from threading import Event

import pytest
from django.conf import LazySettings
from django.utils import timezone

from backups import repository_orders
from backups.copying.handler import copy_source
from backups.upkeep import copies
from fleet.repository_edits import Repositories
from jobs.clock import database_clock
from jobs.handlers import Run
from jobs.outcomes import Failed, Outcome, Succeeded
from sealing import stored_secrets
from sources import planning
from sources.availability.repository_breaker import guarded_by
from sources.models import Assignment, Repository
from storage import layout
from storage.places import remotes
from storage.places.location import RCLONE, RESTIC
from storage.places.locks import locked
from storage.points import runs
from storage.points.store import StorageFailed, Store
from storage.recover import showing
from tests.backups import copies_at_work
from tests.backups.stored_sources import make_repository_here
from tests.engines.peers import PASSWORD
from tests.engines.served import serving
from tests.programs import needs_restic
from tests.repositories import in_each_format
from tests.sources.factories import claimed_for, error_of, handed_on, make_assignment, make_policy, make_source
from tests.storage.repositories import KEY

POINT, LATER = "20261121T065755Z", "20261122T065755Z"
assignment, policy = copies_at_work.assignment, copies_at_work.policy

pytestmark = pytest.mark.django_db(transaction=True)


def backed_up(row: Assignment) -> Outcome:
    return copy_source(Run(claimed_for(row, queue="backups")))


def unmount(place: Path) -> None:
    place.rename(place.with_name("disk"))
    place.mkdir()


def mount(place: Path) -> None:
    place.rmdir()
    place.with_name("disk").rename(place)


@in_each_format
def test_no_backup_goes_to_the_mount_point_of_a_disk_that_is_away(format: str, folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "repository"
    row = make_repository_here(format, "office", place)
    made = make_assignment(make_policy(repository=row), make_source(path=str(folder)))
    assert isinstance(backed_up(made), Succeeded)
    unmount(place)
    Repositories().edit(row, {"name": "renamed"})
    made = Assignment.objects.get()
    outcome = backed_up(made)
    assert isinstance(outcome, Failed)
    assert "is it mounted?" in outcome.error
    assert outcome.fault_of == guarded_by(Repository.objects.get()), "it holds the other sources as well"
    assert os.listdir(place) == []
    assert "is it mounted?" in Repositories().test(Repository.objects.get())["problem"]
    mount(place)
    assert "problem" not in Repositories().test(Repository.objects.get())
    assert isinstance(backed_up(made), Succeeded)
    # another place is begun by the first backup there
    Repositories().edit(Repository.objects.get(), {"location": str(tmp_path / "elsewhere")})
    assert isinstance(backed_up(Assignment.objects.get()), Succeeded)


@pytest.mark.slow
def test_a_remote_that_says_no_longer_whose_it_is_is_told_by_its_test(tmp_path: Path) -> None:
    (tmp_path / "remote").mkdir()
    with serving("s3", tmp_path / "remote") as (remote, _, path):
        stored_secrets.store("cloud", PASSWORD)
        place = {"location": path, "remote": remote, "secrets": {"secret_access_key": "stored:cloud"}}
        row = Repositories().edit(Repository(), {"name": "cloud"} | place).row
        row.made_at = timezone.now()  # as its first backup notes
        assert "is it mounted?" in Repositories().test(row)["problem"]


def test_one_that_is_full_is_told_by_its_test(settings: LazySettings, tmp_path: Path) -> None:
    row = Repositories().edit(Repository(), {"name": "office", "location": str(tmp_path / "repository")}).row
    assert "problem" not in Repositories().test(Repository.objects.get())
    settings.RESERVE_PERCENT = 100
    assert "to stay free" in Repositories().test(row)["problem"]


@in_each_format
def test_one_without_room_is_told_when_it_is_made(format: str, settings: LazySettings, tmp_path: Path) -> None:
    settings.RESERVE_PERCENT = 100
    place = {"name": "office", "location": str(tmp_path / "not" / "yet"), "format": format}
    [text] = Repositories().edit(Repository(), place).row.notices
    assert text.startswith("no backup goes there until there is more room: ")
    assert "to stay free" in text


def test_a_disk_that_is_away_before_its_first_backup_is_told_with_what_to_do(tmp_path: Path) -> None:
    place = tmp_path / "disk" / "repository"
    row = Repositories().edit(Repository(), {"name": "office", "location": str(place)}).row
    place.rmdir()
    problem = Repositories().test(row)["problem"]
    assert problem.startswith(
        f"{place} is not a directory here; is it mounted? If its disk is, make the directory again"
    )
    place.parent.rmdir()
    place.parent.touch()
    assert str(place.parent) in (repository_orders.reason_for("not_made", str(place)) or "")
    assert "check that its disk is mounted" in (repository_orders.reason_for("not_made", str(place)) or "")


def test_one_that_takes_no_file_is_told_with_what_to_do() -> None:
    row = Repository.objects.create(name="office", location="/proc")
    problem = Repositories().test(row)["problem"]
    assert problem.startswith("/proc cannot be written (")
    assert "check that its disk is mounted, has room, and" in problem


def test_no_copy_goes_there_either(assignment: Assignment, folder: Path, tmp_path: Path) -> None:
    copies_at_work.copied(copies_at_work.backed_up(assignment))
    unmount(tmp_path / "offsite")
    (folder / "new").touch()
    copies_at_work.backed_up(assignment)
    copies.plan()
    assert "is it mounted?" in error_of(copies_at_work.done(copies_at_work.at_work()))
    assert os.listdir(tmp_path / "offsite") == []


@pytest.mark.parametrize(
    ("format", "said"),
    [
        *((RCLONE, each) for each in (None, "", "{}")),
        pytest.param(RESTIC, None, marks=[pytest.mark.slow, needs_restic]),
    ],
)
def test_whose_it_is_is_said_anew_where_our_points_lie(
    said: str | None, format: str, folder: Path, tmp_path: Path
) -> None:
    place = tmp_path / "repository"
    row = make_repository_here(format, "office", place)
    made = make_assignment(make_policy(repository=row), make_source(path=str(folder)))

    def settled(row: Assignment) -> Outcome:
        planning.back_up_now([row])
        return copies_at_work.done(handed_on(row, database_clock()))

    assert isinstance(settled(made), Succeeded)
    file = place / layout.REPOSITORY
    before = file.read_text()
    file.unlink()
    if said is not None:
        file.write_text(said)
    new = make_assignment(made.policy, make_source(path=str(folder)))
    outcome = settled(new)
    assert isinstance(outcome, Failed), "nothing there is known to be ours"
    assert "is it mounted?" in outcome.error or "writes it again: start one" in outcome.error
    assert isinstance(settled(Assignment.objects.get(pk=made.pk)), Succeeded)
    assert file.read_text() == before
    assert "problem" not in Repositories().test(Repository.objects.get())


def test_a_copy_says_so_anew_too(assignment: Assignment, folder: Path, tmp_path: Path) -> None:
    copies_at_work.copied(copies_at_work.backed_up(assignment))
    file = tmp_path / "offsite" / layout.REPOSITORY
    before = file.read_text()
    file.write_text("")
    (folder / "new").touch()
    copies_at_work.copied(copies_at_work.backed_up(assignment))
    assert file.read_text() == before


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "encrypted"])
def test_no_point_is_written_where_a_repository_was_that_goes_away_in_mid_run(key: str | None, tmp_path: Path) -> None:
    place, manifest = tmp_path / "place", tmp_path / "manifest"
    manifest.write_text("the files")
    place.mkdir()
    location, name = remotes.location_of(str(place), {}, {}, key), layout.manifest_path("nas-7/nightly", POINT)
    with locked(location, "nas-7/nightly") as lock:
        store = Store(location, Event(), inherited=lock)
        store.put_last(manifest, name)
        unmount(place)
        with pytest.raises(StorageFailed, match="its disk was unmounted; is it mounted"):
            store.put_last(manifest, layout.manifest_path("nas-7/nightly", LATER))
    assert [*place.iterdir()] == []
    mount(place)
    assert runs.points(Store(location, Event()), "nas-7/nightly") == [POINT]
    lost = layout.LOST.format(place)
    assert showing.to_be_repeated(lost).endswith(": is it mounted? The same command continues where it was.")
