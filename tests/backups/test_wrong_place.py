"""A place that is not the repository, or is opened with another key: nothing there is taken for gone, or written."""

from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from backups.restores import drills
from backups.upkeep import checks, copies, foreign_points, retention
from fleet.repository_edits import Repositories
from jobs.models import BacklogRecord
from jobs.outcomes import Outcome, Succeeded
from sources.models import Assignment, CheckRound, Policy, Repository
from storage import layout
from tests.backups.copies_at_work import at_work, backed_up, change, copied, done
from tests.engines.peers import tree
from tests.sources.factories import error_of, make_assignment, make_policy, make_source
from tests.storage.building import picture

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


@pytest.fixture
def assignment(folder: Path, tmp_path: Path, settings: Any) -> Assignment:
    """Three points, of which two are to go, in an encrypted repository with a copy."""
    settings.VAR_DIR, settings.RESTORE_FOLDERS, settings.SECRETS_DIRECTORIES = tmp_path / "var", [tmp_path], [tmp_path]
    rows = list[Repository]()
    for name in ("first", "second"):
        key = tmp_path / f"key of {name}"
        key.write_text("1" * 64)
        key.chmod(0o600)
        facts = {"name": name, "location": str(tmp_path / name), "encrypted": True, "key": f"file:{key}"}
        rows.append(Repositories().edit(Repository(), facts).row)
    made = make_assignment(make_policy(repository=rows[0], copy_to=rows[1]), make_source(name="anna", path=str(folder)))
    for number in range(3):
        change(folder, letter=f"{number}")
        backed_up(made)
        if number < 2:
            copied(made)
    Policy.objects.update(keep={"last": 1})
    made.refresh_from_db()
    return made


def work(kind: str, begin: Callable[[], object]) -> Outcome:
    BacklogRecord.objects.all().delete()
    begin()
    return done(at_work(kind))


def restored(to: Path) -> dict[str, str]:
    call_command("restores", "run", "anna", "--to", str(to), stdout=StringIO())
    return tree(to)


def spoil(what: str, place: Path) -> Callable[[], object]:
    """Returns a function that undoes it."""
    if what == "another key":
        (key := place.with_name(f"key of {place.name}")).write_text("0" * 64)
        return lambda: key.write_text("1" * 64)
    disk = place.rename(place.with_name("disk"))
    place.mkdir()
    if what == "another disk":
        (place / layout.REPOSITORY).write_bytes(
            (disk / layout.REPOSITORY).read_bytes().replace(b'"id": "', b'"id": "0')
        )
    return lambda: disk.rename(place.rename(place.with_name("other")).with_name(place.name))


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("another key", "the key is not the one that it was made with"),
        ("unmounted", "is it mounted?"),
        ("another disk", "of another installation"),
    ],
)
def test_nothing_is_gone_from_a_place_that_is_not_the_repository(
    what: str, why: str, assignment: Assignment, folder: Path, tmp_path: Path
) -> None:
    undo = spoil(what, place := tmp_path / "first")
    before = picture(place), picture(tmp_path / "second")
    for kind, begin in (
        (checks.KIND, lambda: checks.check_now([assignment.pk])),
        (drills.KIND, lambda: drills.drill_now([assignment.pk])),
        (copies.KIND, lambda: copies.copy_now([assignment.pk])),
        (retention.KIND, lambda: retention.plan([assignment])),
    ):
        assert why in error_of(work(kind, begin)), kind
    with pytest.raises(CommandError, match=why):
        restored(tmp_path / "back")
    assert why in str(foreign_points.of(assignment, "first")[1])
    assert not CheckRound.objects.exclude(damage=[]).exists()
    assert (picture(place), picture(tmp_path / "second")) == before
    undo()
    assert isinstance(work(checks.KIND, lambda: checks.check_now([assignment.pk])), Succeeded)
    assert not CheckRound.objects.exclude(damage=[]).exists()
    assert restored(tmp_path / "back") == tree(folder)


def test_a_copy_that_is_opened_with_another_key_is_not_empty_and_one_without_identity_is_still_read(
    assignment: Assignment, tmp_path: Path
) -> None:
    undo, second = spoil("another key", tmp_path / "second"), Repository.objects.get(name="second")
    outcome = work(checks.KIND, lambda: checks.check_now([assignment.pk], repository=second))
    assert "the key is not the one" in error_of(outcome)
    undo()
    (tmp_path / "second" / layout.REPOSITORY).write_text("torn")
    assert isinstance(work(checks.KIND, lambda: checks.check_now([assignment.pk], repository=second)), Succeeded)
    assert not CheckRound.objects.exclude(damage=[]).exists()
