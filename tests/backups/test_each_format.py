"""Retention, checks and drills of a source that is backed up, in each format of repositories."""

import os
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from backups.restores import drills
from backups.upkeep import checks, retention
from jobs.clock import database_clock
from jobs.models import Decision
from jobs.outcomes import Succeeded
from sources import planning
from sources.models import Assignment, CheckRound
from storage import layout
from tests.backups.copies_at_work import at_work, change, done, points_in
from tests.backups.stored_sources import make_repository_here
from tests.engines.peers import tree
from tests.repositories import in_each_format
from tests.sources.factories import handed_on, make_assignment, make_policy, make_source

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("made_by_hand")]


@pytest.fixture
def anna(format: str, folder: Path, tmp_path: Path, settings: Any) -> Assignment:
    settings.VAR_DIR = tmp_path / "var"
    repository = make_repository_here(format, "office", tmp_path / "office")
    policy = make_policy(repository=repository, keep={"last": 2})
    return make_assignment(policy, make_source(name="anna", path=str(folder)))


def worked(kind: str) -> str:
    """Carry out the record of that kind. Returns what the log says about it."""
    assert isinstance(done(at_work(kind)), Succeeded)
    return Decision.objects.filter(kind=kind).latest("pk").text


@pytest.mark.slow
@in_each_format
def test_what_a_policy_keeps_is_proved_until_it_is_damaged_and_the_rest_goes(
    anna: Assignment, folder: Path, tmp_path: Path
) -> None:
    (folder / "large").write_text(os.urandom(9999).hex())
    before = []
    for number in range(3):
        change(folder, letter=f"{number}", **{f"only{number}": "x"})
        before.append(tree(folder))
        planning.back_up_now([anna])
        done(handed_on(anna, database_clock()))
    anna.refresh_from_db()
    repository = anna.policy.repository
    _, *kept = points_in(repository, anna)
    retention.plan([anna], database_clock())
    assert "1 point removed" in worked(retention.KIND)
    assert (
        points_in(repository, anna) == kept == [layout.point_of(each.snapshot) for each in anna.backups.order_by("pk")]
    )
    for point, content in zip(kept, before[1:], strict=True):
        call_command("restores", "run", "anna", "--at", point, "--to", str(tmp_path / point))
        assert tree(tmp_path / point) == content
    assert looked_at(anna) == ([], "", kept[-1])

    flip(max((tmp_path / "office").rglob("*"), key=lambda file: file.is_file() and file.stat().st_size))
    [damage, *_], drill_error, _ = looked_at(anna)
    assert damage["repository"] == repository.pk
    assert drill_error


def looked_at(assignment: Assignment) -> tuple[list[Any], str, str]:
    """The damage that a check of everything finds, and what a drill finds: an error, or the point that is proved."""
    assert checks.check_now([assignment.pk]) == 1
    worked(planning.CHECK)
    assert drills.drill_now([assignment.pk]) == 1
    worked(planning.DRILL)
    assignment.refresh_from_db()
    return CheckRound.objects.get().damage, assignment.drill_error, assignment.proved_point


def flip(file: Path) -> None:
    """Change a bit in the middle of a file."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.chmod(0o600)
    file.write_bytes(content)
