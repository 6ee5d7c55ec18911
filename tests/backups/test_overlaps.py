"""Folders that lie one in the other, and copies that others could read."""

import stat
from pathlib import Path
from typing import Any

import pytest

from backups.copying.handler import copy_source
from fleet.repository_edits import Repositories
from fleet.source_edits import Sources
from jobs.handlers import Run
from jobs.outcomes import Succeeded
from sources.models import Repository, Source
from sources.models.source import SourceKind
from tests.operations.conditions.examining import OK, WARNING, finding
from tests.sources.factories import MONDAY, claimed_for, make_assignment, make_policy, make_source

pytestmark = pytest.mark.django_db


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


@pytest.mark.parametrize("place", ["vault", "vault/current", "."])
def test_neither_a_repository_nor_a_folder_lies_in_a_repository_or_around_it(place: str, tmp_path: Path) -> None:
    vault = Repository.objects.create(name="vault", location=str(tmp_path / "vault"))
    nested, beside = tmp_path / place, tmp_path / "vault-2"
    assert "repository vault" in refusal_of(local(nested))
    assert "repository vault" in refusal_of(Repository(name="x", location=str(nested)))
    assert (
        refusal_of(local(beside)) == refusal_of(Repository(name="x", location=str(beside))) == refusal_of(vault) == ""
    )


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


@pytest.mark.parametrize("place", ["files", "files/backups", "."])
def test_a_repository_lies_in_no_folder_that_is_backed_up(place: str, tmp_path: Path) -> None:
    make_source(name="files", path=str(tmp_path / "files"))
    assert "source files" in refusal_of(Repository(name="x", location=str(tmp_path / place)))


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
