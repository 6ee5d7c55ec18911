"""Folders that lie one in the other; and a link that others put in the way of a source's path: it leads its backups to
no other files."""

import os
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.conf import LazySettings
from django.core.exceptions import ValidationError

from backups.connection_check import try_source
from backups.copying.handler import copy_source
from fleet.files.apply import apply_fleet
from fleet.repository_edits import Repositories
from fleet.source_edits import Sources
from jobs.handlers import Run
from jobs.outcomes import Outcome, Succeeded, Unavailable
from sources.availability.check import ask_source
from sources.models import Assignment, Policy, Repository, Source
from sources.models.source import SourceKind
from storage.places.location import RCLONE, RESTIC
from tests.api.asking import make_user
from tests.backups.stored_sources import make_repository_here
from tests.engines.peers import held
from tests.operations.conditions.examining import OK, WARNING, finding
from tests.programs import needs_restic
from tests.sources.factories import MONDAY, claimed_for, make_assignment, make_policy, make_source


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Homes of Ann and Bob: she may exchange everything in hers."""
    for who in ("ann", "bob"):
        (tmp_path / "home" / who / "projects" / "files").mkdir(parents=True)
        (tmp_path / "home" / who / "projects" / "files" / "letter.txt").write_text(f"of {who}")
        shop = sqlite3.connect(tmp_path / "home" / who / "projects" / "shop.db")
        with shop:
            shop.execute("CREATE TABLE t AS SELECT ? AS owner", [who])
        shop.close()
    return tmp_path / "home"


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    (tmp_path / "repository").mkdir()
    return make_policy(repository=Repository.objects.create(name="office", location=str(tmp_path / "repository")))


def lead_away(home: Path) -> None:
    (home / "ann/projects").rename(home / "ann/before")
    (home / "ann/projects").symlink_to(home / "bob/projects")


def backed_up(row: Assignment) -> Outcome:
    return copy_source(Run(claimed_for(Assignment.objects.get(pk=row.pk), queue="backups")))


def saved(path: Path, kind: str = "local", account: object = None) -> Source:
    return Sources(account).edit(Source(), {"name": "ann", "kind": kind, "path": str(path)}).row


def check_refused(row: Assignment, policy: Policy) -> None:
    """Refused when it is asked, run and tested; nothing of Bob's has come into the repository."""
    outcome = backed_up(row)
    assert isinstance(outcome, Unavailable), outcome
    assert "is not where it was" in outcome.reason
    assert "save the source again" in outcome.reason
    asked = async_to_sync(ask_source)(Run(claimed_for(Assignment.objects.get(pk=row.pk))))
    assert "is not where it was" in getattr(asked, "reason", ""), asked
    assert "is not where it was" in try_source(Source.objects.get()).text
    assert b"of bob" not in b"".join(
        each.read_bytes() for each in Path(policy.repository.location).rglob("*") if each.is_file()
    )


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("kind", "name", "format"),
    [
        ("local", "files", RCLONE),
        pytest.param("local", "files", RESTIC, marks=[pytest.mark.slow, needs_restic]),
        pytest.param("sqlite", "shop.db", RCLONE, marks=pytest.mark.slow),
    ],
)
def test_a_link_in_the_middle_of_a_path_leads_nowhere(
    kind: str, name: str, format: str, home: Path, tmp_path: Path
) -> None:
    policy = make_policy(repository=make_repository_here(format, "office", tmp_path / "repository"))
    row = make_assignment(policy, saved(home / "ann/projects" / name, kind))
    assert isinstance(backed_up(row), Succeeded)
    lead_away(home)
    check_refused(row, policy)
    # what is right is saved again, and no other edit says that it is right
    Sources().edit(Source.objects.get(), {"name": "renamed"})
    apply_fleet({"sources": [{"name": "renamed", "kind": kind, "path": row.source.path}]}, "fleet")
    check_refused(row, policy)
    Sources().edit(Source.objects.get(), {})
    assert Source.objects.get().real_path == str(home / "bob/projects" / name)
    assert isinstance(backed_up(row), Succeeded)


@pytest.mark.django_db(transaction=True)
def test_links_that_were_there_when_it_was_saved_lead_on(home: Path, policy: Policy) -> None:
    (home / "current").symlink_to(home / "ann")
    row = make_assignment(policy, saved(home / "current/projects/files"))
    assert isinstance(backed_up(row), Succeeded)
    assert held(Path(policy.repository.location, Assignment.objects.get().directory)) == {"letter.txt": "of ann"}
    (home / "current").unlink()
    (home / "current").symlink_to(home / "bob")
    check_refused(row, policy)


@pytest.mark.django_db(transaction=True)
def test_a_row_of_before_is_taken_as_it_is_at_its_first_run(home: Path, policy: Policy) -> None:
    (home / "current").symlink_to(home / "ann")
    row = make_assignment(policy, make_source(path=str(home / "current/projects/files")))
    assert isinstance(backed_up(row), Succeeded)
    assert Source.objects.get().real_path == str(home / "ann/projects/files")
    lead_away(home)
    check_refused(row, policy)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_there", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_who_may_not_name_any_folder_makes_no_link_right_that_leads_out(
    home: Path, policy: Policy, settings: LazySettings, is_there: bool
) -> None:
    settings.FOLDERS = [home / "ann"]
    ann = make_user("add_source", "change_source")
    path = home / "ann/projects/files" if is_there else home / "ann/later/files"
    row = make_assignment(policy, saved(path, account=ann))
    if is_there:
        lead_away(home)
    else:
        (home / "ann/later").symlink_to(home / "bob/projects")
    check_refused(row, policy)
    for sent in ({}, {"path": f"{path}/"}):
        with pytest.raises(ValidationError, match="may name folders below"):
            Sources(ann).edit(Source.objects.get(), sent)
    Sources(ann).edit(Source.objects.get(), {"options": {"marker": "letter.txt"}})
    check_refused(row, policy)
    Sources(make_user("change_source", "use_any_folder")).edit(Source.objects.get(), {})
    assert isinstance(backed_up(row), Succeeded)


@pytest.mark.django_db(transaction=True)
def test_a_path_that_cannot_be_looked_at_is_kept_by_the_first_run(home: Path, policy: Policy) -> None:
    row = make_assignment(policy, saved(home / "ann/later"))
    assert Source.objects.get().real_path == ""
    (home / "ann/later").symlink_to(home / "ann/projects/files")
    assert isinstance(backed_up(row), Succeeded)
    assert Source.objects.get().real_path == os.path.realpath(home / "ann/later")


@pytest.fixture
def var(tmp_path: Path, settings: Any) -> Path:
    """Ours, with the database elsewhere, as when a root user's server cannot reach it."""
    settings.VAR_DIR = tmp_path / "project" / "var"
    for name in ("var/secrets", "var/demo", "shared/home"):
        (tmp_path / "project" / name).mkdir(parents=True)
    (settings.VAR_DIR / "postgres").symlink_to(tmp_path / "project" / "shared" / "home")
    return tmp_path / "project" / "var"


def refusal_of(made: Source | Repository) -> str:
    service = Sources() if isinstance(made, Source) else Repositories()
    return "; ".join(service.problems(made, None).values())


def local(path: Path) -> Source:
    return Source(name="x", kind="local", path=str(path))


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("place", "of_a_source", "of_a_repository"),
    [
        ("var", True, True),
        ("var/secrets", True, True),
        ("var/postgres/data", True, True),
        ("shared/home/data", True, True),
        ("link/secrets", True, True),
        ("", False, True),
        ("var/demo", False, False),
        ("variable", False, False),
    ],
)
def test_what_overlaps_our_own_files_is_refused(
    place: str, of_a_source: bool, of_a_repository: bool, var: Path
) -> None:
    (var.parent / "link").symlink_to(var)
    folder = var.parent / place
    assert ("this program's" in refusal_of(local(folder))) is of_a_source
    assert ("this program's" in refusal_of(Repository(name="x", location=str(folder)))) is of_a_repository


@pytest.mark.django_db
@pytest.mark.parametrize("place", ["vault", "vault/current", "."])
def test_neither_a_repository_nor_a_folder_lies_in_a_repository_or_around_it(place: str, tmp_path: Path) -> None:
    vault = Repository.objects.create(name="vault", location=str(tmp_path / "vault"))
    nested, beside = tmp_path / place, tmp_path / "vault-2"
    assert "repository vault" in refusal_of(local(nested))
    assert "repository vault" in refusal_of(Repository(name="x", location=str(nested)))
    assert (
        refusal_of(local(beside)) == refusal_of(Repository(name="x", location=str(beside))) == refusal_of(vault) == ""
    )


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("endpoint", "address"),
    [("http://nas.example:9000/", "http://NAS.example:9000"), ("", "https://s3.eu-central-1.amazonaws.com")],
)
def test_a_bucket_that_is_backed_up_holds_no_repository(endpoint: str, address: str) -> None:
    remote = {"type": "s3", "endpoint": endpoint} if endpoint else {"type": "s3", "provider": "AWS"}
    vault = Repository.objects.create(name="vault", remote=remote, location="photos/backups")
    bucket = Source(name="bucket", kind=SourceKind.S3, address=address, path="photos")
    beside = Source(name="beside", kind=SourceKind.S3, address=address, path="photos/2026")
    elsewhere = Source(name="elsewhere", kind=SourceKind.S3, address="https://other.example", path="photos")
    assert "repository vault" in refusal_of(bucket)
    assert refusal_of(beside) == refusal_of(elsewhere) == ""
    bucket.save()
    assert "source bucket" in refusal_of(vault)


@pytest.mark.django_db
def test_a_remote_that_is_backed_up_holds_no_repository() -> None:
    nas = {"type": "smb", "host": "nas.example"}
    vault = Repository.objects.create(name="vault", remote=nas | {"user": "writer"}, location="/family/backups")
    share = Source(name="share", kind=SourceKind.RCLONE, options=nas | {"user": "reader"}, path="family")
    beside = Source(name="beside", kind=SourceKind.RCLONE, options=nas, path="family/photos")
    elsewhere = Source(name="elsewhere", kind=SourceKind.RCLONE, options=nas | {"host": "other"}, path="family")
    assert "repository vault" in refusal_of(share)
    assert refusal_of(beside) == refusal_of(elsewhere) == ""
    share.save()
    assert "source share" in refusal_of(vault)


@pytest.mark.django_db
@pytest.mark.parametrize("place", ["files", "files/backups", "."])
def test_a_repository_lies_in_no_folder_that_is_backed_up(place: str, tmp_path: Path) -> None:
    make_source(name="files", path=str(tmp_path / "files"))
    assert "source files" in refusal_of(Repository(name="x", location=str(tmp_path / place)))


@pytest.mark.django_db
@pytest.mark.own_process  # with the umask of a worker
@pytest.mark.django_db(transaction=True)
def test_a_backup_leaves_out_our_own_files_and_is_its_owners_alone(var: Path, tmp_path: Path, settings: Any) -> None:
    (var.parent / "letter").write_text("secret")
    (var.parent / "letter").chmod(0o600)
    (var / "secret_key").write_text("key")
    (var.parent / "shared/home/data").write_text("rows")

    def modes(**fields: Any) -> dict[str, int]:
        vault = tmp_path / f"vault-{len(fields)}"
        vault.mkdir(mode=0o755)
        policy = make_policy(repository=Repository.objects.create(name=str(fields), location=str(vault)))
        assignment = make_assignment(policy, make_source(path=str(var.parent)))
        outcome = copy_source(Run(claimed_for(assignment, queue="backups")))
        assert isinstance(outcome, Succeeded), outcome
        assignment.refresh_from_db()
        copy = vault / assignment.directory
        files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (copy / "files").rglob("[!2]*")}
        return files | {"copy": stat.S_IMODE(copy.parent.stat().st_mode)}

    assert modes() == {"letter": 0o600, "copy": 0o700}
    settings.UMASK = 0o022
    assert modes(loose=True)["copy"] == 0o755


@pytest.mark.django_db
@pytest.mark.own_process  # with the umask of a worker
def test_the_doctor_names_copies_that_others_can_read(tmp_path: Path) -> None:
    Repository.objects.create(name="vault", location=str(tmp_path))
    Repository.objects.create(name="gone", location=str(tmp_path / "gone"))
    [copy, other, mine] = [tmp_path / name for name in ("laptop-1", "pictures", "server-2")]
    for each, mode in ((tmp_path, 0o755), (copy, 0o755), (other, 0o755), (mine, 0o700)):
        each.mkdir(exist_ok=True)
        each.chmod(mode)
    found = finding("repository_modes", MONDAY)
    assert found.severity is WARNING
    assert str(copy) in found.what
    assert len(found.found) == 1
    tmp_path.chmod(0o700)
    assert finding("repository_modes", MONDAY).severity is OK
