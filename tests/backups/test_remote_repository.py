"""Backups into repositories on remotes and of restic, by a real worker and real servers."""

import json
import threading
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

from backups import locations
from backups.copying.handler import copy_source
from backups.upkeep import retention
from fleet.repository_edits import Repositories
from jobs.clock import database_clock
from jobs.handlers import Run
from jobs.models import BacklogRecord
from jobs.outcomes import Failed
from sealing import stored_secrets
from sources import planning
from sources.availability.repository_breaker import guarded_by
from sources.models import Assignment, Backup, Repository
from storage import layout
from storage.places import identity
from storage.points.store import Store
from storage.recover import program
from tests.backups.stored_sources import make_repository
from tests.commands import command
from tests.engines.peers import PASSWORD, USER, sftp_host, tree, write_files
from tests.engines.restic_keys import make_quick
from tests.engines.served import serving
from tests.programs import needs_restic
from tests.sources.factories import claimed_for, error_of, make_assignment, make_policy, make_source
from tests.sources.worker_process import worker_process
from tests.storage.recovering import follow
from tests.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

QUEUES = f"{planning.AVAILABILITY}:10,{planning.BACKUPS}:2"
run, refused = command("repositories")
foreign, _ = command("repositories foreign")


def test_two_sources_at_once_into_one_encrypted_bucket(tmp_path: Path) -> None:
    files = {"letters/to the bank.txt": "Dear bank", "empty": ""}
    folders = [write_files(tmp_path / name, **files, **{f"{name}.txt": name}) for name in ("anna", "bert")]
    with serving("s3", tmp_path / "s3") as (remote, secrets, path):
        repository = make_repository(remote, secrets, path, encrypted=True)
        policy = make_policy(repository=repository)
        assignments = [make_assignment(policy, make_source(name=each.name, path=str(each))) for each in folders]
        planning.emit_due()
        with worker_process(QUEUES, tmp_path):
            log = tmp_path / "worker.log"
            eventually(lambda: Backup.objects.count() == 2 or "Traceback" in log.read_text(), 2 * PATIENCE)
        assert Backup.objects.count() == 2, (tmp_path / "worker.log").read_text()
        stored = [each for each in (tmp_path / "s3").rglob("*") if each.is_file()]
        outside = {each.name for each in stored if layout.ENCRYPTED not in each.parts}
        assert outside == {layout.REPOSITORY, layout.RECOVER}
        assert not any(b"Dear bank" in each.read_bytes() or "to the bank" in each.name for each in stored)
        about = json.loads(next(each for each in stored if each.name == layout.REPOSITORY).read_text())
        assert (about["id"], about["encrypted"]) == (str(repository.identity), True)
        assert about["key_digest"] == identity.digest_of(locations.key_of(repository))
        store = Store(locations.location_of(repository), threading.Event())
        for assignment, folder in zip(assignments, folders, strict=True):
            assignment.refresh_from_db()
            point = layout.point_of(assignment.backups.get().snapshot)
            brought = store.location.at(f"{layout.files_path(assignment.directory)}/{point}")
            store.run("copy", brought, str(tmp_path / "back"))
            assert tree(folder).items() <= tree(tmp_path / "back").items()


def test_a_remote_that_is_gone_is_the_repositorys_fault_and_not_the_sources(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "anna", letter="Dear bank")
    with serving("webdav", tmp_path / "dav") as (remote, secrets, path):
        repository = make_repository(remote, secrets, path)
    assignment = make_assignment(make_policy(repository=repository), make_source(path=str(folder)))
    outcome = copy_source(Run(claimed_for(assignment, queue=planning.BACKUPS)))
    assert isinstance(outcome, Failed)
    assert outcome.fault_of == guarded_by(repository)
    stored_secrets.StoredSecret.objects.all().delete()
    outcome = copy_source(Run(claimed_for(assignment, queue=planning.BACKUPS)))
    assert isinstance(outcome, Failed)
    assert outcome.error == (
        "repository cloud cannot be reached: there is no stored secret cloud: store it by "
        "`manage.py secrets set cloud`, or in the admin"
    )
    assert outcome.fault_of == guarded_by(repository)


def test_a_backup_by_another_key_writes_nothing(tmp_path: Path) -> None:
    row = Repositories().edit(Repository(), {"name": "x", "location": str(tmp_path / "vault"), "encrypted": True}).row
    identity.write(Store(locations.location_of(row).bare, threading.Event()), locations.identity_of(row))
    before = tree(tmp_path / "vault")
    Repository.objects.update(key=stored_secrets.store("another", "a" * 64))
    assignment = make_assignment(make_policy(repository=row), make_source(path=str(tmp_path)))
    assert "the key is not the one that it was made with" in error_of(
        copy_source(Run(claimed_for(assignment, queue=planning.BACKUPS)))
    )
    assert tree(tmp_path / "vault") == before


def back_up(scratch: Path, assignments: list[Assignment]) -> None:
    """Back these up by the worker that runs, now."""
    began = database_clock()
    ours = Assignment.objects.filter(pk__in=[each.pk for each in assignments])
    planning.back_up_now(assignments)
    done = lambda: ours.filter(last_backup_at__gt=began).count() == len(assignments)  # noqa: E731
    eventually(lambda: done() or BacklogRecord.objects.exclude(last_error="").exists())
    eventually(lambda: not BacklogRecord.objects.unfinished().exists())
    errors = list(BacklogRecord.objects.values_list("status", "last_error"))
    assert done(), (errors, (scratch / "worker.log").read_text())


@needs_restic
def test_a_restic_repository_from_a_command_to_plain_restic(tmp_path: Path) -> None:
    place = tmp_path / "it's backups"
    made = json.loads(run("add", "vault", str(place), "--format", "restic", "--json"))
    assert (made["format"], made["encrypted"], len(made["new_key"])) == ("restic", True, 64)
    assert {each.name for each in place.iterdir()} == {"RECOVER.txt", "repository.json", "restic", "locks"}
    make_quick(place / "restic", made["new_key"])
    repository = Repository.objects.get()
    local = write_files(tmp_path / "local", **{"a/b": "text", "c": "other", "same": "x" * 100_000})
    remote = write_files(tmp_path / "remote", **{"d/e": "far", "same": "x" * 100_000})
    policy = make_policy(repository=repository, keep={})
    with sftp_host(remote) as host, worker_process(QUEUES, tmp_path):
        stored_secrets.store("host", PASSWORD)
        sources = [
            make_source(name="local", path=str(local)),
            make_source(
                name="host", kind="sftp", address=host.address, port=host.port, path="/", options={"user": USER},
                host_key=host.host_key, secret="stored:host",
            ),
        ]  # fmt: skip
        assignments = [make_assignment(policy, each) for each in sources]
        back_up(tmp_path, assignments)
        assert foreign("--source", "local") == "No point is foreign.\n"
        (local / "c").write_text("changed")
        (remote / "new").write_text("new")
        back_up(tmp_path, assignments)
        policy.keep = {"last": 1}
        policy.save()
        # of one source: a second one would find the repository busy, and look again after a minute
        assert retention.plan(Assignment.objects.filter(pk=assignments[0].pk)) == 1
        eventually(lambda: not BacklogRecord.objects.unfinished().exists())
    of_host = Backup.objects.filter(assignment=assignments[1]).latest("started_at")
    assert (of_host.engine, of_host.new, of_host.unchanged, of_host.files) == ("restic", 1, 2, 3)
    text = StringIO()
    call_command("restores", "run", "host", "--to", str(tmp_path / "back"), stdout=text)
    assert tree(tmp_path / "back") == tree(remote)
    assert Backup.objects.count() == 3, "a point of it stays"
    assert Repository.objects.get().pruned_at

    key, options = tmp_path / "key", {"remote": [], "repository": str(place), "key_file": tmp_path / "key"}
    key.write_text(made["new_key"] + "\n")
    store = program.opened_at(options, threading.Event())
    assert len(program.assignments_in(store, None)) == 2
    arguments = [str(place), "--key-file", str(key), "--source", "local", "--to", str(tmp_path / "recovered")]
    assert program.main(arguments) == 0
    assert tree(tmp_path / "recovered") == tree(local)
    key.write_text("0" * 64)
    assert program.main(arguments) == 2
    key.write_text(made["new_key"])
    snapshot = Backup.objects.filter(assignment=assignments[0]).latest("started_at").snapshot.split("/")[1]
    choices = {"RESTIC_PASSWORD_FILE": str(key), "SNAPSHOT": snapshot, "TO": str(tmp_path / "plain")}
    follow((place / "RECOVER.txt").read_text(), tmp_path, {}, **choices)
    assert tree(tmp_path / "plain") == tree(local)
