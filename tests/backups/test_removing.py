"""Sources and repositories with backups are deleted in the background, with or without files, also after a kill."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from backups.upkeep import removals
from fleet.status import reasons_of, with_status
from jobs import rescuing
from jobs.clock import database_clock
from jobs.handlers import Run
from jobs.models import BacklogRecord, Breaker, Decision
from jobs.outcomes import ClaimedRecord, Failed, Postponed, Succeeded
from jobs.states import Status, WaitingFor
from sources.availability.repository_breaker import guarded_by
from sources.models import Assignment, Backup, CheckRound, Policy, Repository, Restore, Source, To
from sources.planning import retirement
from storage import layout
from storage.places.identity import Identity
from storage.places.location import of_directory
from storage.places.locks import locked
from tests.api.asking import Program, problem_of
from tests.backups import points_to_remove
from tests.backups.points_to_remove import NOW, add_backup, at_work, belongs_to, run
from tests.commands import command
from tests.factories import make_record
from tests.operations.questions import choose
from tests.sources.factories import make_assignment, make_policy, make_source
from tests.sources.worker_process import worker_process
from tests.storage.played_runs import BEGAN, Played
from tests.threads import a_lock_is_waited_for, beside
from tests.waiting import PATIENCE, eventually

assignment, played = points_to_remove.assignment, points_to_remove.played

pytestmark = pytest.mark.django_db(transaction=True)

MANY = 30_000
CROWD = 30_000
"""Files enough to be seen at it: a fast machine deletes ten thousand within a tenth of a second."""
SOURCES, REPOSITORIES = "/admin/sources/source/", "/admin/sources/repository/"


def add_many(made: Assignment, number: int = MANY) -> None:
    """Backups of it that differ in record and point. All but the first are copied by the database: a row at a time,
    Python takes seconds for so many."""
    first = Backup.objects.create(
        assignment=made, repository=made.policy.repository, record_id=10, attempt=1, engine="rclone",
        started_at=BEGAN, ended_at=BEGAN, size=1, files=1, added=7, snapshot="0",
    )  # fmt: skip
    named = {"record_id": "10 + number", "snapshot": "number::text"}
    columns = [field.column for field in Backup._meta.concrete_fields if not field.primary_key]
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {Backup._meta.db_table} ({', '.join(columns)}) "
            f"SELECT {', '.join(named.get(each, each) for each in columns)} "
            f"FROM {Backup._meta.db_table}, generate_series(1, %s) AS number WHERE id = %s",
            [number - 1, first.pk],
        )


def folder_of(made: Assignment) -> Path:
    return Path(made.policy.repository.location) / made.directory


@pytest.mark.own_process
def test_with_its_backups_nothing_of_a_source_is_left_and_nothing_else_goes(assignment: Assignment) -> None:
    other = make_assignment(assignment.policy, directory="other-2/daily")
    folder_of(other).mkdir(parents=True)
    add_backup(other, "20261102T065755Z", 99)
    removals.start(assignment.source, with_backups=True, by="kim", now=NOW)
    assert Source.objects.get(pk=assignment.source_id).retired
    assert removals.obstacle(assignment.source).startswith("it is being deleted: 0 of 5 backups so far (record ")
    with locked(of_directory(Path(assignment.policy.repository.location)), assignment.directory):
        assert isinstance(run(at_work()), Postponed)
    BacklogRecord.objects.update(status=Status.READY, waiting_for=None)
    assert isinstance(run(at_work()), Succeeded)
    assert not folder_of(assignment).parent.exists()
    assert [Source.objects.get(), Backup.objects.get().assignment] == [other.source, other]
    assert folder_of(other).exists()
    assert "with 5 backups" in Decision.objects.get(what="deleted").text


def test_without_them_the_files_stay(assignment: Assignment) -> None:
    before = sorted(folder_of(assignment).rglob("*"))
    removals.start(assignment.source, with_backups=False, by="kim", now=NOW)
    assert isinstance(run(at_work()), Succeeded)
    assert [Source.objects.count(), Backup.objects.count()] == [0, 0]
    assert sorted(folder_of(assignment).rglob("*")) == before


def test_a_repository_that_is_away_is_a_failure_that_is_tried_again(assignment: Assignment, played: Played) -> None:
    repository = assignment.policy.repository
    Policy.objects.update(repository=Repository.objects.create(name="new", location="/srv/new"))
    played.root.rename(played.root.with_name("away"))
    record = removals.start(repository, with_backups=True, by="kim", now=NOW)
    assert isinstance(run(at_work()), Failed)
    record.refresh_from_db()
    assert (record.status, record.waiting_for) == (Status.WAITING, WaitingFor.BACKOFF)
    assert "is it mounted?" in removals.obstacle(repository)
    Breaker.objects.create(key=guarded_by(repository).key, title="old", opened_at=NOW, probe_at=NOW, failures=3)
    played.root.with_name("away").rename(played.root)
    BacklogRecord.objects.update(status=Status.READY, waiting_for=None)
    assert isinstance(run(at_work()), Succeeded)
    assert [Repository.objects.count(), Backup.objects.count(), Source.objects.count()] == [1, 0, 1]
    assert not Breaker.objects.exists()
    assert not (played.root / assignment.directory).exists()


def test_nothing_goes_from_a_disk_that_is_not_mounted_or_is_another_one(assignment: Assignment, played: Played) -> None:
    removals.start(assignment.source, with_backups=True, by="kim", now=NOW)
    record = at_work()
    belongs_to(played.root, Identity("another", "another"))
    assert "another installation" in failure(record)
    (played.root / layout.REPOSITORY).unlink()
    assert "is it mounted?" in failure(record)
    assert (len(played.points()), Backup.objects.count(), Source.objects.count()) == (5, 5, 1)


def test_a_source_whose_only_backups_go_with_a_repository_is_protected_no_more(assignment: Assignment) -> None:
    old = assignment.policy.repository
    kept = make_assignment(assignment.policy)
    add_backup(kept, "20261105T065755Z", 98)
    Policy.objects.update(repository=Repository.objects.create(name="new", location="/srv/new"))
    for each in (assignment, kept):
        each.refresh_from_db()
        each.last_backup_at, each.next_backup_at, each.proved_at = NOW, NOW + timedelta(days=3000), NOW
        each.save()
    add_backup(kept, "20261102T065755Z", 99)
    found = [{"path": "a", "repository": each} for each in (old.pk, 0)]
    CheckRound.objects.create(assignment=assignment, planned_at=NOW, damage=found)
    removals.start(old, with_backups=False, by="kim", now=NOW)
    assert isinstance(run(at_work()), Succeeded)
    now = dict(with_status(Source.objects.order_by("pk"), database_clock()).values_list("pk", "status"))
    assert now == {assignment.source_id: "never", kept.source_id: "due"}
    assignment.refresh_from_db()
    assert (assignment.proved_at, assignment.check_round.damage) == (None, found[1:])


def test_a_repository_that_came_into_use_meanwhile_keeps_everything(assignment: Assignment, played: Played) -> None:
    removals.start(assignment.policy.repository, with_backups=True, by="kim", now=NOW)
    assert "it came into use in the meantime" in failure(at_work())
    assert (len(played.points()), Backup.objects.count()) == (5, 5)


def test_nothing_goes_while_it_is_restored_from(assignment: Assignment) -> None:
    repository = assignment.policy.repository
    Policy.objects.update(repository=Repository.objects.create(name="new", location="/srv/new"))
    removals.start(repository, with_backups=True, by="kim", now=NOW)
    record = at_work()
    restoring = make_record(Status.RUNNING, kind="restore", queue="restores")
    point = Backup.objects.latest("started_at").snapshot
    Restore.objects.create(
        assignment=assignment, point=point, repository=repository, to=To.FOLDER, asked_at=NOW, record_id=restoring.pk
    )
    assert isinstance(removals.remove(Run(record)), Postponed)
    assert Backup.objects.count() == 5


def test_of_a_deletion_and_an_end_of_its_retirement_at_the_same_moment_the_deletion_is_seen() -> None:
    source = make_assignment(make_policy()).source
    retirement.retire([source])
    with transaction.atomic():
        removals.start(source, with_backups=True, by="kim")
        undone = beside(lambda: retirement.unretire([source]))
        eventually(a_lock_is_waited_for)
    assert undone.result(PATIENCE) == 0
    assert Source.objects.get().retired


def failure(record: ClaimedRecord) -> str:
    outcome = removals.remove(Run(record))
    assert isinstance(outcome, Failed)
    return outcome.error


def test_page_api_and_command_say_what_goes_and_what_is_being_deleted_is_not_edited(admin_client: Client) -> None:
    policy = make_policy(repository=Repository.objects.create(name="office", location="/srv/office"))
    made = [make_assignment(policy) for _ in range(3)]
    for number, each in enumerate(made):
        add_backup(each, "20261102T065755Z", number)
    page = admin_client.get(f"{SOURCES}{made[0].source_id}/delete/").content.decode()
    assert "1 backup, a point that can be restored, in the repository office" in page
    yes = {"confirmed": "yes", "backups": "keep"}
    text = admin_client.post(f"{SOURCES}{made[0].source_id}/delete/", yes, follow=True).content.decode()
    assert f"Source {made[0].source} is being deleted in the background" in text
    [reason] = reasons_of(list(Source.objects.filter(pk=made[0].source_id)), NOW).values()
    assert reason.startswith("it is being deleted: `manage.py backlog show")
    assert "; it waits: no worker is alive" in reason
    assert BacklogRecord.objects.get().payload["with_backups"] is False

    change = f"{SOURCES}{made[0].source_id}/change/"
    assert "it is being deleted: 0 of 1 backups so far" in admin_client.get(change).content.decode()
    assert admin_client.post(change, {"name": "new"}).status_code == 403
    assert retirement.unretire([made[0].source]) == 0

    program, address = Program(), f"sources/{made[1].source_id}"
    assert "sources remove" in problem_of(program.delete(address), 409)["detail"]
    answer = program.ask("DELETE", address, query={"backups": "delete"})
    assert (answer.status_code, answer.json()["backups"]) == (202, 1)
    assert "is being deleted" in problem_of(program.patch(address, {"name": "new"}), 409)["detail"]

    remove, refused = command("sources remove")
    never = make_source(name="never backed up")
    assert "whose files stay there" in remove(made[2].source.name, never.name, "--yes")
    assert not Source.objects.filter(pk=never.pk).exists(), "at once: it has no backups"
    assert "is being deleted" in refused(made[2].source.name, "--yes")
    assert "is used by the policy" in command("repositories remove")[1]("office", "--yes")


def test_a_hundred_chosen_in_a_list_take_as_few_statements_as_one(
    admin_client: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    policy = make_policy()
    made = Assignment.objects.bulk_create(Assignment(source=make_source(), policy=policy) for _ in range(100))
    add_many(made[0], 1)
    chosen = choose("delete_selected", *(each.source for each in made), select_across="1")
    with django_assert_max_num_queries(50):
        admin_client.post(SOURCES, chosen | {"confirmed": "yes", "backups": "keep"})
    assert BacklogRecord.objects.filter(kind=removals.KIND, status=Status.READY).count() == 100


@pytest.mark.slow
def test_many_backups_go_behind_a_page_of_few_statements_and_a_kill_in_the_middle_costs_a_batch(
    admin_client: Client, tmp_path: Path, django_assert_max_num_queries: Any
) -> None:
    made, yes = make_assignment(make_policy()), {"confirmed": "yes", "backups": "keep"}
    add_many(made)
    repository = made.policy.repository
    Policy.objects.update(repository=Repository.objects.create(name="new", location="/srv/new"))
    address = f"{REPOSITORIES}{repository.pk}/delete/"
    assert f"{MANY:,} backups" in admin_client.get(address).content.decode()
    with django_assert_max_num_queries(40):
        assert admin_client.post(address, yes).status_code == 302

    def left() -> int:
        return Backup.objects.count()

    with worker_process("availability:2,backups:1", tmp_path) as worker:
        eventually(lambda: left() < MANY)
        worker.kill()
        worker.wait()
    assert 0 < left() < MANY
    removal = BacklogRecord.objects.filter(kind=removals.KIND)
    assert removal.get().status == Status.RUNNING
    rescuing.rescue(now=database_clock() + timedelta(hours=1))  # the killed worker may have claimed a backup beside it
    assert removal.get().status != Status.RUNNING
    removal.update(status=Status.READY, waiting_for=None)
    with worker_process("availability:2,backups:1", tmp_path):
        eventually(lambda: not Repository.objects.filter(pk=repository.pk).exists())
    assert left() == 0


@pytest.mark.slow
def test_a_worker_that_is_killed_among_the_files_leaves_rows_for_what_is_left_and_the_next_one_goes_on(
    assignment: Assignment, played: Played, tmp_path: Path
) -> None:
    other = played.root / "other-2/daily/files/a"
    other.parent.mkdir(parents=True)
    other.write_text("stays")
    crowd = played.files / played.points()[-1]
    crowd.mkdir(exist_ok=True)
    for number in range(CROWD):
        (crowd / f"{number:05}").touch()
    removals.start(assignment.source, with_backups=True, by="kim", now=NOW)
    removal = BacklogRecord.objects.filter(kind=removals.KIND)

    whole = crowd.stat().st_mtime_ns  # that of a folder changes as soon as a file of it goes

    with worker_process("availability:2,backups:1", tmp_path) as worker:
        eventually(lambda: crowd.stat().st_mtime_ns != whole)
        worker.kill()
        worker.wait()
    assert 0 < len(list(crowd.glob("?????"))) < CROWD
    assert played.points() == []
    assert (Backup.objects.count(), Source.objects.count()) == (5, 1)
    rescuing.rescue(now=database_clock() + timedelta(hours=1))  # the killed worker may have claimed a backup beside it
    assert removal.get().status != Status.RUNNING
    removal.update(status=Status.READY, waiting_for=None)
    with worker_process("availability:2,backups:1", tmp_path):
        eventually(lambda: not Source.objects.exists())
    assert not played.folder.parent.exists()
    assert other.read_text() == "stays"
