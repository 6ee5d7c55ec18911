"""A restore, a download or a drill that fails names the other repository that has the point whole, and only that."""

import io
import shutil
import tarfile
from pathlib import Path
from shlex import split
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from backups.restores import drills, process
from jobs.clock import database_clock
from jobs.conf import PROGRAM
from jobs.models import Decision
from sources.models import Assignment, CheckRound, Copy, Repository, Restore
from storage import layout
from tests.api.asking import fields_of
from tests.backups.points_to_remove import add_backup
from tests.backups.restores import browsed
from tests.backups.restores.asking import ask, drilled, work
from tests.backups.restores.browsed import content, look, page
from tests.commands import command
from tests.sources.factories import make_assignment, make_policy, make_source
from tests.storage.building import ASSIGNMENT, Built

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("made_by_hand")]

client_of_staff = browsed.client_of_staff


@pytest.fixture
def built(tmp_path: Path, settings: Any) -> Built:
    """Two points in the repository *office*, and copies of them in *off site*."""
    settings.VAR_DIR, settings.RESTORE_FOLDERS = tmp_path / "var", [tmp_path / "allowed"]
    made = Built(tmp_path / "built")
    for text in ("first", "second"):
        made.write("docs/a", text)
        made.back_up()
    shutil.copytree(made.folder / "repository", tmp_path / "offsite")
    places = {"office": made.folder / "repository", "off site": tmp_path / "offsite"}
    office, offsite = (Repository.objects.create(name=name, location=str(at)) for name, at in places.items())
    policy = make_policy(repository=office, copy_to=offsite)
    row = make_assignment(policy, make_source(name="nas", path=str(made.source)), directory=ASSIGNMENT)
    for number, point in enumerate(made.points):
        add_backup(row, point, number)
    Copy.objects.create(assignment=row, repository=offsite, planned_at=database_clock(), points=made.points)
    return made


def burn(built: Built) -> None:
    (built.folder / "repository").rename(built.folder / "burnt")


def lose_a_file(built: Built) -> None:
    built.stored("docs/a").unlink()


def spoil_manifest(built: Built, point: str) -> None:
    (built.folder / "repository" / layout.manifest_path(ASSIGNMENT, point)).write_bytes(b"spoilt")


def command_for(point: str) -> str:
    return f"{PROGRAM} restores run nas --at {point} --from 'off site' --to FOLDER"


def test_a_failed_restore_names_the_copy_and_the_command_that_restores_from_it(built: Built, tmp_path: Path) -> None:
    api, point = {"target": str(tmp_path / "allowed/to")}, built.points[0]
    assert ask(at=point, **api).status_code == 201
    burn(built)

    error = work().error

    assert "is it mounted?" in error
    assert f"Point {point} is in repository off site, where no check has found damage" in error
    assert f"`{command_for(point)}`" in error
    assert error in Decision.objects.get(kind="restore", what="failed").text
    _, *arguments = split(command_for(point).replace("FOLDER", str(tmp_path / "to")))
    call_command(*arguments)
    assert (tmp_path / "to/docs/a").read_text() == "first"
    refusal = fields_of(ask(at=point, repository="office", **api))["at"]
    assert ("is it mounted?" in refusal, command_for(point) in refusal) == (True, True)
    _, refused = command("restores run")
    assert command_for(built.points[1]) in refused("nas", "--from", "office", "--to", tmp_path / "to2", code=1)


def test_a_copy_that_lacks_files_of_the_point_is_named_only_if_no_other_has_it(built: Built, tmp_path: Path) -> None:
    point, office, offsite = built.points[0], *Repository.objects.order_by("pk")
    Copy.objects.update(incomplete={point: ["1 file was not copied"]})
    assert f"off site, where no check has found damage{process.LACKING}: restore" in process.way_out(
        office, ASSIGNMENT, point
    )
    assert "lacking" not in process.way_out(office, ASSIGNMENT, built.points[1])
    shutil.copytree(tmp_path / "offsite", tmp_path / "third")
    third = Repository.objects.create(name="third", location=str(tmp_path / "third"))
    copies = {"planned_at": database_clock(), "points": built.points}
    Copy.objects.create(assignment=Assignment.objects.get(), repository=third, **copies)
    assert f"Point {point} is in repository third, where" in process.way_out(office, ASSIGNMENT, point)
    named = process.way_out(office, ASSIGNMENT, built.points[1])
    assert all(each.name in named for each in (offsite, third))


def test_a_point_that_the_repository_of_from_lacks_is_refused_and_no_other_one_stands_in_for_it(
    built: Built, tmp_path: Path
) -> None:
    point, to = built.points[1], ("--to", tmp_path / "to")
    (built.folder / "repository" / layout.manifest_path(ASSIGNMENT, point)).unlink()
    done, refused = command("restores run")
    text = refused("nas", "--from", "office", "--at", point, *to, code=2)
    assert f"there is no point {point}; for the newest one at or before that time, write 2026-11-20T07:00:00+0" in text
    assert command_for(point) in text
    assert not (tmp_path / "to").exists()
    api = {"target": str(tmp_path / "allowed/to"), "repository": "office"}
    assert command_for(point) in fields_of(ask(at=point, **api))["at"]
    done("nas", "--from", "office", "--at", "2026-11-20T07:00:00+00:00", *to)
    assert (tmp_path / "to/docs/a").read_text() == "first"
    done("nas", "--at", point, "--to", tmp_path / "to2")
    assert (tmp_path / "to2/docs/a").read_text() == "second"


@pytest.mark.slow
def test_what_is_not_restored_whole_names_it_too(built: Built, tmp_path: Path, client_of_staff: Client) -> None:
    lose_a_file(built)
    point, query = built.points[1], {"what": "download"}
    ask(target=str(tmp_path / "allowed/to"))
    restore = work()
    assert (restore.outcome, restore.error.count(command_for(point))) == ("incomplete", 1)
    assert command_for(point) in Decision.objects.get(kind="restore", what="succeeded").text
    answer = client_of_staff.get(page(), query)
    with tarfile.open(fileobj=io.BytesIO(content(answer))) as archive:
        found = archive.extractfile("NOT-RESTORED.txt")
        assert found
        assert found.read().decode().splitlines()[1] == restore.error


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_a_drill_that_finds_what_is_lost_names_it_too(built: Built) -> None:
    lose_a_file(built)
    drills.drill_now([Assignment.objects.get().pk])
    drilled(database_clock())
    error = Assignment.objects.get().drill_error
    assert ("did not come back" in error, command_for(built.points[1]) in error) == (True, True)


def test_on_a_page_that_cannot_be_read_it_is_chosen(built: Built, tmp_path: Path, client_of_staff: Client) -> None:
    spoil_manifest(built, point := built.points[0])
    failed = look(client_of_staff, point=point)
    assert f"Point {point} is in repository off site" in failed
    chosen = f"?point={point}&amp;from=off+site"
    assert chosen in failed
    assert 'name="from" value="off site"' in look(client_of_staff, point=point, **{"from": "off site"})
    form = {"to": "folder", "target": str(tmp_path / "allowed/to")}
    assert client_of_staff.post(f"{page()}{chosen.replace('&amp;', '&')}", form).status_code == 302
    assert Restore.objects.get().repository == Repository.objects.get(name="off site")
    assert work().outcome == "succeeded"


LIES_THERE_OTHERWISE = {
    "it lost the point": lambda there: (there / layout.manifest_path(ASSIGNMENT, "20261120T060000Z")).unlink(),
    "it does not answer": lambda there: there.rename(there.with_name("away")),
    "no row says so": lambda there: Copy.objects.update(points=[]),
}


@pytest.mark.parametrize("otherwise", LIES_THERE_OTHERWISE)
def test_what_is_not_there_is_not_named(built: Built, tmp_path: Path, otherwise: str) -> None:
    ask(target=str(tmp_path / "allowed/to"), at="20261120T060000Z")
    burn(built)
    LIES_THERE_OTHERWISE[otherwise](tmp_path / "offsite")
    error = work().error
    assert ("is it mounted?" in error, "off site" in error) == (True, False)


@pytest.mark.parametrize(
    ("point", "oldest", "place", "number", "is_named"),
    [
        (0, None, "20261120T060000Z/docs/a", 0, False),
        (0, None, "20261120T060000Z/docs/a", 1, True),
        (1, 0, "20261120T060000Z/docs/a", 0, False),
        (1, None, "20261120T070000Z/docs/a", 0, True),
        (1, None, layout.MANIFESTS, 0, True),
        (1, None, layout.MANIFESTS, 1, False),
        (None, None, "restic", 1, False),
    ],
)
def test_where_a_check_found_damage_that_it_may_share_it_is_not_named(
    built: Built, tmp_path: Path, point: int | None, oldest: int | None, place: str, number: int, is_named: bool
) -> None:
    """Damage that was found as of a `point`, since the `oldest`, and the `number` of the one that is wanted."""
    damage = {"point": "any point" if point is None else built.points[point], "path": "a", "place": place, "why": ""}
    damage |= {} if oldest is None else {"oldest": built.points[oldest]}
    damage["repository"] = Repository.objects.get(name="off site").pk
    CheckRound.objects.create(assignment=Assignment.objects.get(), planned_at=database_clock(), damage=[damage])
    burn(built)
    _, refused = command("restores run")
    arguments = ("nas", "--from", "office", "--to", tmp_path / "to", "--at", built.points[number])
    assert ("off site" in refused(*arguments, code=1)) is is_named


def test_a_target_that_fails_is_no_fault_of_the_repository(built: Built, tmp_path: Path) -> None:
    source = Assignment.objects.get().source
    source.kind, source.address, source.port, source.path = "postgresql", "127.0.0.1", 1, "shop"
    source.save()
    assert ask(to="database", target="shop").status_code == 201, "its own name, once it was dropped"
    error = work().error
    assert ("connection" in error.lower(), "off site" in error) == (True, False), error
