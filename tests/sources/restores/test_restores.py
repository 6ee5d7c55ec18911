"""Restores that workers run: asked for over the API, done as records, noted in a row and in the log."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from jobs import backlog, rescuing, settling
from jobs.clock import database_clock
from jobs.handlers import Run
from jobs.models import BacklogRecord, Decision
from jobs.states import Status
from sources.models import Repository, Restore
from sources.restores import asking, handler
from tests.api.asking import Program, fields_of, make_user
from tests.sources.factories import claim, make_assignment, make_policy, make_source
from tests.sources.storage.building import ASSIGNMENT, Built, picture
from tests.sources.worker_process import worker_process
from tests.waiting import eventually

pytestmark = pytest.mark.django_db


@pytest.fixture
def built(tmp_path: Path, settings: Any) -> Built:
    settings.VAR_DIR, settings.FOLDERS = tmp_path / "var", [tmp_path / "allowed"]
    built = Built(tmp_path / "built")
    repository = Repository.objects.create(name="disk", location=str(built.folder / "repository"))
    make_assignment(make_policy(repository=repository), make_source(name="nas"), directory=ASSIGNMENT)
    built.write("docs/a", "first")
    built.write("docs/b", "first")
    built.back_up()
    return built


def work(is_stopped: bool = False) -> Restore:
    """Run the one record that is ready, as a worker does."""
    record = claim(asking.QUEUE, database_clock())
    run = Run(record)
    if is_stopped:
        run.stop.set()
    settling.settle([(record, handler.run_restore(run))])
    return Restore.objects.get(pk=record.payload["restore"])


def ask(**body: Any) -> Any:
    account = make_user("restore_source", "view_restore")
    return Program(account, scopes=("operate",)).post("restores", {"source": "nas", **body})


def test_a_restore_is_asked_for_over_the_api_and_run_by_a_worker(built: Built, tmp_path: Path) -> None:
    to = tmp_path / "allowed" / "to"
    answer = ask(target=str(to), paths=["docs/a"])
    assert answer.status_code == 201, answer.content
    record = BacklogRecord.objects.get(pk=answer.json()["record_id"])
    assert (record.kind, record.queue, record.status) == ("restore", "restores", Status.READY)

    restore = work()

    assert (to / "docs/a").read_text() == "first"
    assert (restore.outcome, restore.files, restore.size, restore.point) == ("succeeded", 1, 5, built.points[0])
    log = Decision.objects.filter(kind="restore").order_by("pk").values_list("what", flat=True)
    assert list(log) == ["asked for", "began", "succeeded"]


def test_a_restore_that_is_stopped_goes_on_with_its_next_run(built: Built, tmp_path: Path) -> None:
    to = tmp_path / "allowed" / "to"
    ask(target=str(to))
    assert work(is_stopped=True).outcome == ""
    assert work().outcome == "succeeded"
    assert picture(to) == picture(built.source)


def test_what_cannot_be_restored_is_no_retry(built: Built, tmp_path: Path) -> None:
    to = tmp_path / "allowed" / "to"
    to.mkdir(parents=True)
    (to / "mine").write_text("mine")
    ask(target=str(to))

    restore = work()

    assert (restore.outcome, list(to.iterdir())) == ("failed", [to / "mine"])
    assert "is not empty: it holds mine" in restore.error
    assert BacklogRecord.objects.get(pk=restore.record_id).status == Status.CANCELLED


@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        ({"source": "nsa", "target": "/x"}, "source", "there is no source 'nsa'"),
        ({"target": "/etc"}, "target", "your account may name folders below"),
        ({"target": "{tmp}/built/repository/new"}, "target", "which holds backups"),
        ({"target": "{tmp}/allowed/../../etc"}, "target", "must be the absolute path"),
        ({"target": "{tmp}/allowed/to", "at": "2026-11-19"}, "at", "the first one is 20261120T060000Z"),
        ({"target": "{tmp}/allowed/to", "paths": ["../a"]}, "paths", "leads out of the source"),
        ({"to": "database", "target": "shop2"}, "to", "is restored to a folder, or to its own path"),
    ],
)
def test_what_cannot_be_is_a_sentence(
    built: Built, tmp_path: Path, body: dict[str, Any], field: str, message: str
) -> None:
    if "target" in body:
        body = body | {"target": body["target"].format(tmp=tmp_path)}
    assert message in fields_of(ask(**body))[field]
    assert not Restore.objects.exists()


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_a_killed_worker_leaves_a_restore_that_the_next_one_ends(built: Built, tmp_path: Path) -> None:
    to = tmp_path / "allowed" / "to"
    for number in range(3):
        built.write(f"large {number}", os.urandom(20_000_000))
    point = built.back_up()
    assert ask(target=str(to)).status_code == 201
    with worker_process("restores", tmp_path, BACKUPSCHED_VAR=str(tmp_path / "var")):
        eventually((to / f".restore-{point}.unfinished").exists)
    assert picture(to) != picture(built.source)

    rescuing.rescue(now=database_clock() + timedelta(hours=1))
    backlog.retry(BacklogRecord.objects.filter(kind="restore").values_list("pk", flat=True))
    restore = work()

    assert (restore.outcome, restore.error) == ("succeeded", "")
    assert picture(to) == picture(built.source)
