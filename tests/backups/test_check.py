"""The contents of repositories are read, a part each day, and damage is shown. What ends at one moment waits before it
adds to that."""

import json
from dataclasses import asdict
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext

from backups import repository_orders
from backups.upkeep import check_runs, checks, restic_turns, retention
from backups.upkeep import damage as known_damage
from engines.at_repositories import point_upkeep
from engines.at_repositories.work import Stop
from jobs.clock import database_clock
from jobs.handlers import Run, registry
from jobs.models import BacklogRecord, Decision
from jobs.outcomes import ClaimedRecord, Failed, Outcome, Released, Succeeded
from jobs.states import Status
from jobs.worker import handler_places
from sources.models import Assignment, Backup, CheckRound, Format, Repository
from sources.planning import BACKUPS, subject_of
from storage import layout
from storage.places.location import RESTIC, of_directory
from storage.points import checking, store
from storage.points.checking import GONE, CheckResult, Damage
from tests.api.asking import Program, make_user
from tests.backups.points_to_remove import add_backup, at_work, run
from tests.commands import command
from tests.operations.conditions.examining import WARNING, finding
from tests.sources.factories import claimed_for, make_assignment, policy_into, settle
from tests.storage.played_runs import ASSIGNMENT, BEGAN, Played
from tests.threads import another_connection, beside, impatience
from tests.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("made_by_hand")]

NOW = BEGAN + timedelta(days=9)
HANDED = {"grace", "on_progress", "keep"}
"""Facts of an order that its process does not get."""


@pytest.fixture
def played(tmp_path: Path) -> Played:
    made = Played(tmp_path)
    for number in range(2):
        made.back_up({"a": f"{number}", "b": "the same"})
    return made


@pytest.fixture
def assignment(played: Played) -> Assignment:
    made = make_assignment(
        policy_into(played.root, "office"), directory=ASSIGNMENT, inserted_at=BEGAN - timedelta(days=1)
    )
    for number, point in enumerate(played.points()):
        add_backup(made, point, number)
    return made


def checked(now: datetime) -> Outcome:
    """Carry out the planned record, and settle it."""
    assert checks.plan(now) == 1
    return run(at_work(now), now)


@pytest.mark.own_process
def test_a_flipped_bit_is_found_and_shown_at_its_source_until_it_is_mended(
    assignment: Assignment, played: Played, admin_client: Client
) -> None:
    assert isinstance(checked(NOW), Succeeded)
    row = CheckRound.objects.get()
    assert (row.damage, row.ended_at, row.part) == ([], NOW, "")
    assert checks.plan(NOW + timedelta(hours=19)) == 0, "once a day"
    file = played.place(played.points()[0], "b")
    file.write_text("the sbme")
    checked(NOW + timedelta(days=1))
    [damage] = CheckRound.objects.get().damage
    first, last = played.points()
    assert (damage["point"], damage["oldest"], damage["path"], damage["place"]) == (last, first, "b", f"{first}/b")
    assert damage["point"] in Decision.objects.get(what="damaged").text
    page = admin_client.get(f"/admin/sources/assignment/{assignment.pk}/change/").content.decode()
    assert "its content has changed: SHA-256" in page
    found = finding("damage")
    assert found.severity == WARNING
    assert f"'b' of {last} and of all points before it since {first}: its content has changed" in found.what
    repository = assignment.policy.repository
    assert known_damage.places(assignment, repository) == {last: [f"{first}/b"]}, "the next backup brings it again"
    file.write_text("the same")
    checked(NOW + timedelta(days=2))
    assert CheckRound.objects.get().damage == []


@pytest.mark.own_process
def test_damage_of_many_files_with_long_names_is_named(assignment: Assignment, played: Played) -> None:
    names = [f"{number:03}{'ф' * 120}" for number in range(checking.MOST_DAMAGED)]
    point = played.back_up(dict.fromkeys(names, "as it was"))
    for name in names:
        (played.files / point / name).unlink()
    assert isinstance(checked(NOW), Succeeded)
    assert [each["path"] for each in CheckRound.objects.get().damage] == names


@pytest.mark.parametrize("stopped", [Released, Failed], ids=["by its window", "by max_running_for"])
def test_a_check_that_is_stopped_keeps_what_it_has_read_and_continues_there(
    stopped: type[Outcome], assignment: Assignment, played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process is the one of the test, since a separate one cannot be stopped at a certain file."""

    def run(record: ClaimedRecord) -> Outcome:
        made = Run(record)
        outcome = registry.find(record.kind, BACKUPS)(made)
        made.ran_out = stopped is Failed
        settle(record, outcome := handler_places.ended(made, outcome), NOW)
        return outcome

    played.place(played.points()[1], "a").unlink()
    monkeypatch.setattr(checking, "BATCH_FILES", 1)
    monkeypatch.setattr(store, "flush", lambda *_: None)  # a stop is asked for only if it takes long
    monkeypatch.setattr(point_upkeep, "say_files", lambda files, size: setattr(Stop, "_stopped", True))

    def work(do: str, repository: Repository, *_: object, **facts: Any) -> dict[str, Any]:
        there = of_directory(played.root).as_json()
        monkeypatch.setattr(Stop, "_stopped", False)
        return point_upkeep.check_files(there, **{each: facts[each] for each in facts.keys() - HANDED})

    monkeypatch.setattr(repository_orders, "work", work)
    assert checks.plan(NOW) == 1
    assert isinstance(run(at_work(NOW)), stopped)
    row, record = CheckRound.objects.get(), BacklogRecord.objects.get()
    assert ([each["path"] for each in row.damage], row.part, row.after) == (["a"], checking.NEWEST, "a")
    assert (record.status, row.ended_at) == (Status.WAITING if stopped is Failed else Status.READY, None)
    for _ in range(2):
        assert row.ended_at is None
        BacklogRecord.objects.update(status=Status.READY, waiting_for=None, run_after=NOW)
        run(at_work(NOW))
        row.refresh_from_db()
        assert [each["path"] for each in row.damage] == ["a"]
    assert (row.part, row.ended_at) == ("", NOW)


@pytest.mark.parametrize("lost", [1, 2])
def test_a_point_that_was_deleted_is_found(assignment: Assignment, played: Played, lost: int) -> None:
    gone = played.points()[-lost:]
    for point in gone:
        (played.root / layout.manifest_path(ASSIGNMENT, point)).unlink()
    checked(NOW)
    row = CheckRound.objects.get()
    assert [(each["point"], each["why"]) for each in row.damage] == [(point, GONE) for point in gone]
    Backup.objects.filter(snapshot__in=gone).delete()
    if lost == 1:
        checked(NOW + timedelta(days=1))
        assert CheckRound.objects.get().damage == []


def test_a_person_checks_now_all_that_is_left_whatever_the_window(
    assignment: Assignment, played: Played, admin_client: Client
) -> None:
    point = played.back_up({"a": "2" * 5000, "b": "the same", "c": "x"})
    add_backup(assignment, point, 2)
    played.place(point, "c").write_text("longer")
    policy = assignment.policy
    policy.window, policy.check_within = [{"days": "sat", "start": "01:00", "end": "02:00"}], 365 * check_runs.DAY
    policy.save()
    assert checks.plan(NOW) == 1
    assert BacklogRecord.objects.get().status == Status.WAITING
    page = f"/admin/sources/repository/{policy.repository_id}/check/"
    assert "has not read yet is read" in admin_client.get(page).content.decode()
    answer = admin_client.post(page, {"confirmed": "yes"}, follow=True)
    assert "Check now: 1 assignment." in answer.content.decode()
    run_checks, _ = command("sources check")
    again = command("repositories check")[1]("office", code=1)
    assert "its check is on the backlog already" in again
    program = Program(make_user("change_backlogrecord", "view_assignment"), scopes=("operate",))
    assert program.post(f"assignments/{assignment.pk}/check").status_code == 409
    assert isinstance(run(at_work(now := database_clock()), now), Succeeded)
    row = CheckRound.objects.get()
    assert (row.part, row.ended_at, [each["path"] for each in row.damage]) == ("", now, ["c"])
    [shown] = json.loads(run_checks("--json"))
    assert (shown["source"], shown["damage"][0]["path"]) == (assignment.source.name, "c")


def test_the_first_rounds_of_a_fleet_are_spread(assignment: Assignment) -> None:
    made_at = NOW + timedelta(days=1)
    for number in range(20):
        made = make_assignment(assignment.policy, directory=f"nas-{number}", inserted_at=made_at)
        add_backup(made, layout.name_of(BEGAN), 100 + number)
    Backup.objects.filter(assignment=assignment).delete()
    begun = [checks.plan(made_at + checks.EVERY * share / 4) for share in range(1, 5)]
    assert sum(begun) == 20
    assert all(4 <= each <= 6 for each in begun), begun


def test_an_earlier_repository_is_read_in_turn_and_one_that_is_gone_holds_nothing_up(
    assignment: Assignment, played: Played, tmp_path: Path
) -> None:
    (tmp_path / "new").mkdir()
    later, earlier = Played(tmp_path / "new", runs=5), assignment.policy.repository
    assignment.policy.repository = Repository.objects.create(name="new", location=str(later.root))
    assignment.policy.save()
    checked(NOW)
    played.place(played.points()[0], "b").write_text("the sbme")
    add_backup(assignment, later.back_up({"a": "x"}), 7)
    lost = later.back_up({"a": "y"})
    ends = []
    for day in range(1, 4):
        checked(NOW + timedelta(days=day))
        ends.append(CheckRound.objects.get().ended_at)
        if day == 2:  # what was found a day before
            [damage] = CheckRound.objects.get().damage
            assert (damage["path"], damage["repository"]) == ("b", earlier.pk)
            earlier.location = str(tmp_path / "disconnected")
            earlier.save()
    assert ends == [NOW + timedelta(days=1)] * 3
    assert Backup.objects.filter(snapshot=lost, repository__name="new").exists()
    assert "disconnected is not a directory here" in Decision.objects.get(what="failed").text


def test_it_waits_for_nothing_that_was_never_backed_up_and_fails_without_its_repository(
    assignment: Assignment, tmp_path: Path
) -> None:
    Backup.objects.all().delete()
    assert checks.plan(NOW) == 0
    add_backup(assignment, layout.name_of(BEGAN), 7)
    assignment.policy.check_within = None
    assignment.policy.save()
    assert checks.plan(NOW) == 0
    assignment.policy.check_within = 86_400
    assignment.policy.save()
    tmp_path.rename(tmp_path.with_name(f"{tmp_path.name}-away"))
    assert isinstance(checked(NOW), Failed)
    assert "is it mounted?" in Decision.objects.get(what="failed").text


def test_of_those_in_one_restic_repository_one_reads_it_and_each_the_files_that_it_has_elsewhere(
    assignment: Assignment, played: Played, tmp_path: Path
) -> None:
    """Their policy had another repository before. What of restic is to be read is not read here."""
    office = assignment.policy.repository
    restic = Repository.objects.create(
        name="restic", location=str(tmp_path / "none"), format=RESTIC, encrypted=True, key="env:BACKUP_SECRET_KEY"
    )
    assignment.policy.repository = restic
    assignment.policy.save()
    CheckRound.objects.create(assignment=assignment, planned_at=BEGAN)
    others = [make_assignment(assignment.policy, directory=f"{number}", inserted_at=BEGAN) for number in range(3)]
    for number, each in enumerate((*others, assignment)):
        add_backup(each, layout.name_of(BEGAN), 50 + number)
    played.place(played.points()[0], "b").write_text("longer than it was")

    assert [checks.plan(NOW + timedelta(minutes=minute)) for minute in range(2)] == [2, 0]

    whole, files = (BacklogRecord.objects.get(subject=subject_of(each.pk)) for each in (others[0], assignment))
    assert (whole.payload.get("files_only"), files.payload["files_only"]) == (None, True)
    whole.delete()
    assert isinstance(run(at_work(NOW), NOW), Succeeded)
    row = CheckRound.objects.get(assignment=assignment)
    [found] = row.damage
    assert (found["path"], row.repository, row.ended_at) == ("b", office, NOW)
    assert checks.plan(NOW + timedelta(hours=19)) == 0, "once a day"

    pack = asdict(Damage("any point", "2/21", RESTIC, "pack 1 is damaged", restic.pk))
    read = CheckRound.objects.get(assignment=others[0])
    read.repository, read.part, read.damage = restic, "3/21", [pack]
    read.save()
    with transaction.atomic():
        rounds = restic_turns.lock_rounds(read.pk, restic.pk)
        assert rounds
        rounds.share({})

    known = {each.assignment_id: (each.part, each.damage) for each in CheckRound.objects.all()}
    assert known.pop(assignment.pk) == ("", [found, pack]), "it goes on where it was, with what it has found"
    assert known == {each.pk: ("3/21", [pack]) for each in others}


@pytest.fixture
def both() -> list[Assignment]:
    first = make_assignment()
    Repository.objects.update(format=Format.RESTIC, encrypted=True, key="env:BACKUP_SECRET_KEY")
    found = [first, make_assignment(Assignment.objects.get(pk=first.pk).policy)]
    for each in found:
        CheckRound.objects.create(assignment=each, planned_at=NOW)
    return found


def test_what_is_noted_waits_for_what_another_one_notes_at_that_moment(both: list[Assignment]) -> None:
    read, other = both
    repository = Repository.objects.get()
    with another_connection() as beside, impatience(0.2):
        beside.execute("SELECT FROM sources_checkround WHERE assignment_id = %s FOR UPDATE", [other.pk])
        with pytest.raises(OperationalError, match="lock timeout"), transaction.atomic():
            retention.note_manifests(other.pk, repository.pk, {}, [], NOW)
        found = check_runs.Read(repository.pk, CheckResult("", "", 0), [], {}, None, ends=False, failed=[], left=[])
        with (
            CaptureQueriesContext(connection) as asked,
            pytest.raises(OperationalError, match="lock timeout"),
            transaction.atomic(),
        ):
            check_runs.write_down(claimed_for(read, queue="backups"), Succeeded(found), NOW)
        assert [each["sql"].endswith("FOR NO KEY UPDATE") for each in asked if "checkround" in each["sql"]] == [True]


def test_two_that_read_one_restic_repository_for_all_may_end_at_the_same_moment(both: list[Assignment]) -> None:
    """Both wait for a round that they share: neither holds one by then that the other one wants."""
    first, *others = *both, make_assignment(both[0].policy)
    CheckRound.objects.create(assignment=others[-1], planned_at=NOW)
    repository, nothing = Repository.objects.get().pk, CheckResult("", "", 0)
    read = check_runs.Read(repository, nothing, [], {}, None, ends=False, failed=[], left=[])

    @transaction.atomic
    def end(record: ClaimedRecord) -> None:
        check_runs.write_down(record, Succeeded(read), NOW)

    with another_connection() as other:
        other.execute("SELECT FROM sources_checkround WHERE assignment_id = %s FOR UPDATE", [first.pk])
        ended = [beside(partial(end, claimed_for(each, queue="backups"))) for each in others]
        eventually(lambda: sessions_that_wait() == len(ended))
    for each in ended:
        each.result(PATIENCE)
    assert {each.checked_at for each in CheckRound.objects.all()} == {NOW}


def sessions_that_wait() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        return int(cursor.fetchone()[0])
