"""The repository that a check reads, where points of a source are in two: the one that was asked for, or both; and
known damage, wherever the round is."""

import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import call_command
from django.test import Client

from backups.upkeep import checks
from jobs.clock import database_clock
from jobs.models import BacklogRecord, Breaker, Decision
from jobs.outcomes import Cancelled, Failed, Outcome, Succeeded
from jobs.states import Status
from sources.availability.repository_breaker import guarded_by
from sources.models import Assignment, CheckRound, Copy, Repository
from tests.backups.points_to_remove import add_backup, at_work, run
from tests.sources.factories import make_assignment, make_policy, unfinished
from tests.storage.played_runs import ASSIGNMENT, BEGAN, Played

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("made_by_hand")]

NOW = BEGAN + timedelta(days=9)


@pytest.fixture
def office(tmp_path: Path) -> Played:
    made = Played(tmp_path / "office")
    made.back_up({"a": "x" * 5, "b": "the same"})
    return made


@pytest.fixture
def assignment(office: Played, tmp_path: Path) -> Assignment:
    """An assignment with a point in the repository of its policy, office, and a copy in offsite."""
    shutil.copytree(office.root, tmp_path / "offsite")
    first, second = (
        Repository.objects.create(name=name, location=str(tmp_path / name)) for name in ("office", "offsite")
    )
    policy = make_policy(repository=first, copy_to=second)
    made = make_assignment(policy, directory=ASSIGNMENT, inserted_at=BEGAN - timedelta(days=1))
    add_backup(made, office.points()[-1], 0)
    Copy.objects.create(assignment=made, repository=second, planned_at=BEGAN, points=office.points())
    return made


@pytest.fixture
def offsite(assignment: Assignment, tmp_path: Path) -> Played:
    return Played(tmp_path / "offsite")


def done() -> Outcome:
    """Carry out the requested record, and settle it."""
    now = database_clock()
    return run(at_work(now), now)


def damage() -> list[str]:
    """The names of the repositories in which something is known to be damaged."""
    names = dict(Repository.objects.values_list("pk", "name"))
    return [names[each["repository"]] for each in CheckRound.objects.get().damage]


def break_b(*places: Played, text: str = "longer than it was") -> None:
    for each in places:
        each.place(each.points()[-1], "b").write_text(text)


def read() -> list[str]:
    """The repositories that were read according to the log, in order."""
    texts = Decision.objects.filter(what="checked").order_by("pk").values_list("text", flat=True)
    return [text.partition("read in ")[2].partition(",")[0] for text in texts]


def test_the_repository_that_was_asked_for_is_read_and_no_other(
    assignment: Assignment, office: Played, offsite: Played, admin_client: Client
) -> None:
    break_b(office, offsite)
    page = f"/admin/sources/repository/{assignment.policy.copy_to_id}/check/"
    answer = admin_client.post(page, {"confirmed": "yes"}, follow=True)
    assert "Check now: 1 assignment." in answer.content.decode()
    assert isinstance(done(), Succeeded)
    assert (damage(), unfinished()) == (["offsite"], 0)
    call_command("repositories", "check", "office")
    done()
    assert sorted(damage()) == ["office", "offsite"]
    break_b(office, offsite, text="the same")
    call_command("repositories", "check", "offsite")
    done()
    assert (damage(), read()) == ([], ["offsite", "office", "offsite"])


@pytest.mark.parametrize("begins_in", [pytest.param("office", marks=pytest.mark.slow), "offsite"])
def test_asked_for_all_both_are_read(assignment: Assignment, office: Played, offsite: Played, begins_in: str) -> None:
    repository = Repository.objects.get(name=begins_in)
    CheckRound.objects.create(assignment=assignment, planned_at=NOW, repository=repository)
    break_b(office, offsite)
    assert checks.check_now([assignment.pk]) == 1
    for _ in range(2):
        assert isinstance(done(), Succeeded)
    assert (sorted(damage()), unfinished()) == (["office", "offsite"], 0)
    assert sorted(read()) == ["office", "offsite"]
    row = CheckRound.objects.get()
    assert row.ended_at
    assert (row.part, row.repository) == ("", repository), "it has gone once around"


def test_a_round_and_its_instants_stay_as_they_are_where_another_repository_was_asked_for(
    assignment: Assignment, offsite: Played
) -> None:
    values = {"repository": assignment.policy.repository, "part": "newest", "after": "a", "total": 13, "read": 5}
    CheckRound.objects.create(assignment=assignment, planned_at=NOW, began_at=NOW, **values)
    assert checks.check_now([assignment.pk], repository=assignment.policy.copy_to) == 1
    done()
    row = CheckRound.objects.get()
    assert {name: getattr(row, name) for name in values} == values
    assert (row.planned_at, row.began_at, row.ended_at) == (NOW, NOW, None)
    assert row.checked_at


@pytest.mark.parametrize("where", [pytest.param("office", marks=pytest.mark.slow), "offsite"])
def test_known_damage_is_read_each_day_wherever_the_round_is(
    assignment: Assignment, office: Played, offsite: Played, where: str
) -> None:
    broken, other = (office, "offsite") if where == "office" else (offsite, "office")
    break_b(broken)
    checks.check_now([assignment.pk], repository=Repository.objects.get(name=where))
    done()
    assert damage() == [where]
    for day, text, known in (1, "longer than it was", [where]), (2, "the same", []):
        break_b(broken, text=text)
        broken.place(broken.points()[-1], "a").write_text("its turn will come")
        CheckRound.objects.update(repository=Repository.objects.get(name=other))
        now = database_clock() + timedelta(days=day)
        assert checks.plan(now) == 1
        assert isinstance(run(at_work(now), now), Succeeded)
        assert (damage(), read()[-1]) == (known, other)


def test_known_damage_in_a_repository_that_is_away_stays_and_holds_nothing_up(
    assignment: Assignment, offsite: Played
) -> None:
    break_b(offsite)
    checks.check_now([assignment.pk], repository=assignment.policy.copy_to)
    done()
    offsite.root.rename(offsite.root.with_name("away"))
    checks.check_now([assignment.pk], repository=assignment.policy.repository)
    assert isinstance(done(), Succeeded)
    assert (damage(), read()) == (["offsite"], ["offsite", "office"])
    assert "offsite is not a directory here" in Decision.objects.get(what="failed").text


def test_asked_for_a_copy_whose_breaker_is_open_it_is_ended_and_keeps_no_other_waiting(assignment: Assignment) -> None:
    now, copy_to = database_clock(), assignment.policy.copy_to
    assert copy_to
    guarded = guarded_by(copy_to)
    Breaker.objects.create(
        key=guarded.key, title=guarded.title, failures=3, opened_at=now, last_failure_at=now,
        probe_at=now + timedelta(days=9),
    )  # fmt: skip
    checks.check_now([assignment.pk], repository=copy_to)
    assert isinstance(done(), Cancelled)
    assert "the breaker of repository offsite has been open" in Decision.objects.get(what="cancelled").text
    assert unfinished() == 0


def test_one_that_fails_is_tried_again_and_the_next_day_brings_the_others_their_turn(
    assignment: Assignment, office: Played, offsite: Played
) -> None:
    offsite.root.rename(offsite.root.with_name("away"))
    break_b(office)
    checks.check_now([assignment.pk], repository=assignment.policy.copy_to)
    for day in range(2):
        now = database_clock() + timedelta(days=day)
        checks.plan(now)
        BacklogRecord.objects.filter(status=Status.WAITING).update(status=Status.READY, waiting_for=None)
        assert isinstance(run(at_work(now), now), Succeeded if day else Failed)
    assert (damage(), unfinished()) == (["office"], 0)


def test_what_waits_for_its_window_reads_what_is_asked_for_now(assignment: Assignment, offsite: Played) -> None:
    assignment.policy.window = [{"days": "sat", "start": "01:00", "end": "02:00"}]
    assignment.policy.save()
    assert checks.plan(NOW) == 1
    assert checks.check_now([assignment.pk], repository=assignment.policy.copy_to) == 1
    done()
    assert (read(), unfinished()) == (["offsite"], 0)


def test_of_a_repository_that_has_nothing_of_it_any_more_nothing_is_read(assignment: Assignment) -> None:
    copy_to = assignment.policy.copy_to
    assert copy_to
    checks.check_now([assignment.pk], repository=copy_to)
    Copy.objects.update(points=[])
    assert checks.lying_in(copy_to) == []
    assert isinstance(done(), Cancelled)
    assert read() == []
