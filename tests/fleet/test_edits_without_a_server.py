"""Edits of repositories over the web, which wait for no server: what is saved is tried in the background."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backups import locations
from backups.copying.handler import copy_source
from backups.upkeep import looks, repository_trials
from fleet.repository_edits import TESTING
from jobs import settling
from jobs.clock import database_clock
from jobs.handlers import Run
from jobs.models import BacklogRecord
from jobs.outcomes import Postponed, Released
from jobs.states import Status
from sealing import stored_secrets
from sources import planning
from sources.declarations import reach
from sources.models import Repository
from storage.points.store import StorageFailed
from tests.api.asking import Program, fields_of
from tests.engines.peers import PASSWORD
from tests.engines.served import serving
from tests.people import staff
from tests.sources.dead_mount import dead_mount
from tests.sources.factories import claim, claimed_for, failed_before, make_assignment, make_policy, record_of

pytestmark = pytest.mark.django_db(transaction=True)

MAY_EDIT = ("add_repository", "change_repository", "view_repository", "use_any_folder", "set_secret_of_source")
SECRETS = {"secret_access_key": "stored:cloud"}


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A host that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


@pytest.fixture(autouse=True)
def _secret() -> None:
    stored_secrets.store("cloud", PASSWORD)


def remote_at(server: socket.socket) -> dict[str, Any]:
    endpoint = f"http://127.0.0.1:{server.getsockname()[1]}"
    return {"type": "s3", "provider": "Other", "endpoint": endpoint, "access_key_id": "me"}


def assert_not_asked(server: socket.socket) -> None:
    with pytest.raises(BlockingIOError):
        server.accept()


def look() -> Run:
    """The look that is on the backlog."""
    return Run(claim("default", database_clock()))


def looked() -> Repository:
    """The repository, once that has tried it."""
    run = look()
    settling.settle([(run.record, repository_trials.look(run))])
    return Repository.objects.get()


def test_the_api_saves_each_change_without_a_connection(silent: socket.socket, tmp_path: Path) -> None:
    program = Program()
    body = {"name": "far", "location": "bucket/x", "remote": remote_at(silent), "secrets": SECRETS}
    for each in (body | {"encrypted": True}, body | {"name": "second", "location": "bucket/y", "format": "restic"}):
        made = program.post("repositories", each)
        assert made.status_code == 201, made.content
        assert (made.json()["tested"], TESTING in made.json()["warnings"][0]) == (False, True)
        address = f"repositories/{made.json()['id']}"
        moved, renamed = f"{each['location']}2", f"{each['name']}2"
        for change in ({"location": moved}, {"secrets": SECRETS, "force": True}, {"name": renamed}):
            assert program.patch(address, change).status_code == 200
        changed = program.patch(address, {"remote": body["remote"] | {"region": "eu"}})
        assert changed.json()["tested"] is False, changed.content
    of_folder = {"name": "here", "location": str(tmp_path / "here"), "format": "restic"}
    assert program.post("repositories", of_folder).json()["tested"] is False, "it is to be made like the second one"
    Repository.objects.update(untried="")
    assert program.patch(address, {"name": "third"}).status_code == 200
    assert_not_asked(silent)


def test_the_admin_does_too(silent: socket.socket) -> None:
    client = staff(*MAY_EDIT)
    form = {"name": "far", "location": "bucket/x", "format": "rclone", "encrypted": "on"}
    form |= {f"option_{name}": value for name, value in remote_at(silent).items()}
    form["secret_secret_access_key"] = SECRETS["secret_access_key"]
    client.post("/admin/sources/repository/add/", form)
    row = Repository.objects.get()
    address = f"/admin/sources/repository/{row.pk}/change/"
    page = client.post(address, form | {"location": "bucket/y", "key": row.key}, follow=True).content.decode()
    assert TESTING in page
    assert (Repository.objects.get().location, Repository.objects.get().untried) == ("bucket/y", "usual")
    assert_not_asked(silent)


def test_what_was_saved_is_used_once_a_look_has_tried_it(tmp_path: Path) -> None:
    program = Program()
    with serving("s3", tmp_path / "s3") as (remote, _, path):
        made = program.post("repositories", {"name": "cloud", "location": path, "remote": remote, "secrets": SECRETS})
        address = f"repositories/{made.json()['id']}"
        with pytest.raises(StorageFailed, match="still to be tested"):
            locations.check_tried(Repository.objects.get())
        policy = make_policy(repository=Repository.objects.get())
        outcome = copy_source(Run(claimed_for(make_assignment(policy), queue=planning.BACKUPS)))
        assert isinstance(outcome, Postponed)
        assert "still to be tested" in outcome.reason
        failed = failed_before(make_assignment(policy))
        stopped = look()
        stopped.stop.set()
        stopped_look = repository_trials.look(stopped)
        assert stopped_look == Released(), "a worker that stops knows nothing of the repository"
        settling.settle([(stopped.record, stopped_look)])
        assert looked().untried == ""
        assert record_of(failed).status == Status.READY
        assert program.get(address).json()["test_result"].startswith(repository_trials.WORKS)
        program.patch(address, {"location": f"{path}2"})
        run = look()
        found = repository_trials.look(run)
        program.patch(address, {"location": f"{path}3"})
        settling.settle([(run.record, found)])
        assert Repository.objects.get().untried == "usual", "an edit came between the try and its settle"
    looks.plan(database_clock())
    row = looked()
    assert (row.untried, "does not answer" in row.away_why, row.tried) == ("usual", True, row.away_why)
    assert "does not answer" in program.get(address).json()["test_result"]
    assert looks.plan(database_clock()) == 0, "it is tried again after ten minutes"
    repository_trials.try_at_once(row)
    assert BacklogRecord.objects.filter(kind=looks.KIND, status=Status.READY).exists()


@pytest.mark.slow
def test_a_source_on_a_share_that_has_died_is_refused_and_holds_up_no_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reach, "PATIENCE_SECONDS", 0.5)
    with dead_mount(tmp_path / "dead"):
        for path in (str(tmp_path / "dead"), f"{tmp_path}/dead/below/it"):
            refused = Program().post("sources", {"name": "files", "kind": "local", "path": path})
            assert "is its share dead?" in fields_of(refused)["path"], refused.content
        form = {"name": "files", "kind": "sqlite", "path": f"{tmp_path}/dead/file"}
        page = staff("add_source", "view_source", "use_any_folder").post("/admin/sources/source/add/", form)
        assert "is its share dead?" in page.content.decode()
