"""Backups into repositories on remotes, by a real worker and real servers."""

import json
import threading
from pathlib import Path

import pytest

from backups import locations
from backups.copying.handler import copy_source
from fleet.repository_edits import Repositories
from jobs.handlers import Run
from jobs.outcomes import Failed
from sealing import stored_secrets
from sources import planning
from sources.availability.repository_breaker import guarded_by
from sources.models import Backup, Repository
from storage import layout
from storage.places import identity
from storage.points.store import Store
from tests.backups.stored_sources import make_repository
from tests.engines.peers import tree, write_files
from tests.engines.served import serving
from tests.sources.factories import claimed_for, make_assignment, make_policy, make_source
from tests.sources.worker_process import worker_process
from tests.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

QUEUES = f"{planning.AVAILABILITY}:10,{planning.BACKUPS}:2"


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
    outcome = copy_source(Run(claimed_for(assignment, queue=planning.BACKUPS)))
    assert isinstance(outcome, Failed)
    assert "the key is not the one that it was made with" in outcome.error
    assert tree(tmp_path / "vault") == before
