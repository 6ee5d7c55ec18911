"""Copies: points are brought into a second repository and restored from there, and users see how far it is."""

import os
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from backups import locations
from backups.restores import drills
from backups.upkeep import checks, copies, removals, retention, retention_decisions
from fleet.repository_edits import Repositories
from jobs.clock import database_clock
from jobs.models import Decision
from jobs.outcomes import Succeeded
from sources import planning
from sources.models import Assignment, Backup, CheckRound, Copy, Policy, Repository, Source
from storage import layout
from storage.places.location import RESTIC
from storage.recover import program
from tests.backups import copies_at_work
from tests.backups.copies_at_work import at_work, backed_up, change, copied, copy_of, done, make_repository, points_in
from tests.backups.points_to_remove import add_backup
from tests.backups.stored_sources import make_repository_here
from tests.engines.peers import tree
from tests.repositories import in_each_format
from tests.sources.factories import error_of, make_assignment, make_policy, make_source
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
@in_each_format
def test_each_point_comes_into_the_copy_by_itself_and_comes_back_from_there_alone(
    format: str, folder: Path, tmp_path: Path, settings: Any
) -> None:
    settings.VAR_DIR = tmp_path / "var"
    first, second = (make_repository_here(format, name, tmp_path / name) for name in ("office", "offsite"))
    policy = make_policy(repository=first, copy_to=second, keep={"last": 2}, drill_from="copy")
    anna = make_assignment(policy, make_source(name="anna", path=str(folder)))
    before = []
    for number in range(3):
        if number:
            change(folder, letter=f"{number}", **{f"only{number}": "x"})
        before.append(tree(folder))
        backed_up(anna)
        row = copied(anna)
        assert (anna.to_copy_since, row.error, row.as_of) == (None, "", anna.last_backup_at)
        assert copies.plan() == 0
    assert row.points == points_in(second, anna) == points_in(first, anna)[-2:]
    text = Decision.objects.filter(kind=copies.KIND, what="copied").latest("pk").text
    assert ("1 point copied (2 " in text, "2 there, 1 removed" in text) == (True, True), text
    second.refresh_from_db()
    assert (second.pruned_at is not None) is (format == RESTIC)
    assert checks.check_now([anna.pk]) == 1
    for _ in (first, second):
        assert isinstance(done(at_work(planning.CHECK)), Succeeded)
    assert CheckRound.objects.get().damage == []
    os.rename(tmp_path / "office", tmp_path / "burnt")
    assert drills.drill_now([anna.pk]) == 1
    assert isinstance(done(at_work(planning.DRILL)), Succeeded)
    anna.refresh_from_db()
    assert (anna.drill_error, anna.proved_point) == ("", row.points[-1])
    call_command("restores", "run", "anna", "--from", "offsite", "--to", str(tmp_path / "back"))
    call_command("restores", "run", "anna", "--at", row.points[0], "--to", str(tmp_path / "then"))
    (tmp_path / "key").write_text(locations.key_of(second) or "")
    named = [str(tmp_path / "offsite"), "--source", "anna", "--to", str(tmp_path / "recovered")]
    assert program.main([*named, *(("--key-file", str(tmp_path / "key")) if second.key else ())]) == 0
    found = [tree(tmp_path / each) for each in ("then", "back", "recovered")]
    assert found == [before[1], before[2], before[2]]


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
