"""A link that others put in the way of a source's path does not lead its backups to other files."""

import os
import sqlite3
from pathlib import Path

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
from tests.api.asking import make_user
from tests.engines.peers import held
from tests.programs import needs_restic
from tests.sources.factories import claimed_for, make_assignment, make_policy, make_source

pytestmark = pytest.mark.django_db(transaction=True)


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


@pytest.mark.parametrize(
    ("kind", "name"), [("local", "files"), pytest.param("sqlite", "shop.db", marks=pytest.mark.slow)]
)
def test_a_link_in_the_middle_of_a_path_leads_nowhere(kind: str, name: str, home: Path, policy: Policy) -> None:
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


@pytest.mark.slow
@needs_restic
def test_nor_does_it_for_restic(home: Path, tmp_path: Path) -> None:
    made = {"name": "vault", "location": str(tmp_path / "vault"), "format": "restic"}
    policy = make_policy(repository=Repositories().edit(Repository(), made).row)
    row = make_assignment(policy, saved(home / "ann/projects/files"))
    lead_away(home)
    check_refused(row, policy)


def test_links_that_were_there_when_it_was_saved_lead_on(home: Path, policy: Policy) -> None:
    (home / "current").symlink_to(home / "ann")
    row = make_assignment(policy, saved(home / "current/projects/files"))
    assert isinstance(backed_up(row), Succeeded)
    assert held(Path(policy.repository.location, Assignment.objects.get().directory)) == {"letter.txt": "of ann"}
    (home / "current").unlink()
    (home / "current").symlink_to(home / "bob")
    check_refused(row, policy)


def test_a_row_of_before_is_taken_as_it_is_at_its_first_run(home: Path, policy: Policy) -> None:
    (home / "current").symlink_to(home / "ann")
    row = make_assignment(policy, make_source(path=str(home / "current/projects/files")))
    assert isinstance(backed_up(row), Succeeded)
    assert Source.objects.get().real_path == str(home / "ann/projects/files")
    lead_away(home)
    check_refused(row, policy)


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


def test_a_path_that_cannot_be_looked_at_is_kept_by_the_first_run(home: Path, policy: Policy) -> None:
    row = make_assignment(policy, saved(home / "ann/later"))
    assert Source.objects.get().real_path == ""
    (home / "ann/later").symlink_to(home / "ann/projects/files")
    assert isinstance(backed_up(row), Succeeded)
    assert Source.objects.get().real_path == os.path.realpath(home / "ann/later")
