"""restic and its repository when something goes wrong: what is reported, what is left, and the next run succeeds."""

import dataclasses
import os
import socket
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from engines.at_repositories import point_upkeep, probing
from engines.base import EngineProgress, Verdict
from engines.restic.engine import NOTHING
from engines.restores import drilling, restore_process
from engines.restores.scratch import Scratch
from storage import layout
from storage.places import remotes
from storage.places.location import RESTIC
from storage.places.locks import Busy
from storage.points import lost_results, runs
from storage.points.store import StorageFailed
from storage.restic.program import Restic
from storage.restic.snapshots import note_incomplete, snapshots
from storage.restic.store import INCOMING
from storage.restoring import into_folder
from storage.restoring.base import Wish
from storage.stores import store_of
from tests.engines.locations import free
from tests.engines.peers import STARTED_AT, local_folder, run, small_disk
from tests.engines.restic_runs import (
    FOLDER,
    KEY,
    MIB,
    back_up,
    contents,
    fill,
    frozen_prune,
    killing,
    location_at,
    restic_task,
)
from tests.programs import needs_restic
from tests.storage.recovering import recover
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, needs_restic]


def restores(location: Any, source: Path, scratch: Path) -> None:
    """The newest point is the source, byte for byte."""
    store = store_of(location, threading.Event())
    point = runs.points(store, FOLDER)[-1]
    report = into_folder.restore(Wish(FOLDER, point, scratch), store, scratch.parent / "cache")
    assert report.failed == []
    assert contents(scratch) == contents(source)


def test_one_that_is_killed_in_mid_backup_leaves_no_point_and_the_next_one_succeeds(tmp_path: Path) -> None:
    source, location = fill(tmp_path / "source", 20, 4 * MIB), location_at(tmp_path / "repository")
    small = fill(tmp_path / "small", 2, 10)
    assert back_up(restic_task(local_folder(small), location)).verdict is Verdict.SUCCEEDED
    data = tmp_path / "repository/restic"
    slowly = {"bwlimit": "20M"}  # else it may be done before it is killed
    for number in (1, 2):  # at its lock, and among its data
        wanted = sum(1 for _ in data.rglob("*")) + (1 if number == 1 else 3)
        with killing("--json", lambda wanted=wanted: sum(1 for _ in data.rglob("*")) >= wanted):  # type: ignore[misc]
            at = STARTED_AT.replace(day=22)
            result = back_up(restic_task(local_folder(source), location, started_at=at, options=slowly))
        assert result.verdict is Verdict.REPOSITORY_FAILED, result
        assert len(runs.points(store_of(location, threading.Event()), FOLDER)) == 1
    assert list((data / "locks").iterdir()), "a killed restic leaves its lock"
    task = restic_task(local_folder(source), location, started_at=STARTED_AT.replace(day=23))
    assert back_up(task).verdict is Verdict.SUCCEEDED
    restores(location, source, tmp_path / "back")
    order = {"location": location.as_json(), "folder": FOLDER}
    removed = point_upkeep.remove_points(points=["20261121T065755Z"], stay=["20261123T065755Z"], **order)
    assert removed["present"] == ("20261123T065755Z",), "a stale lock is no obstacle"
    # restic reads over the file of a lock that was killed while it was written
    assert [each.name for each in (data / "locks").iterdir() if "-tmp-" not in each.name] == []


def test_a_stop_ends_it_in_good_order_and_a_live_lock_is_busy(tmp_path: Path) -> None:
    source, location = fill(tmp_path / "source", 20, 4 * MIB), location_at(tmp_path / "repository")
    small = fill(tmp_path / "small", 2, 10)
    assert back_up(restic_task(local_folder(small), location)).verdict is Verdict.SUCCEEDED
    stop, busy = threading.Event(), list[Any]()
    order = {"location": location.as_json(), "folder": FOLDER}

    def look(progress: EngineProgress) -> None:
        if not busy:
            with pytest.raises(Busy) as found:
                point_upkeep.prune(**order)
            busy.append(str(found.value))
            stop.set()

    task = restic_task(local_folder(source), location, started_at=STARTED_AT.replace(day=22))
    slowly = dataclasses.replace(task, options={"bwlimit": "10M"})
    result = run(slowly, look, stop)
    assert result.verdict is Verdict.STOPPED
    assert "another restic works in" in busy[0]
    assert list((tmp_path / "repository/restic/locks").iterdir()) == []
    with frozen_prune(location, tmp_path / "repository/restic/locks"):
        assert back_up(task).verdict is Verdict.BUSY
        with pytest.raises(StorageFailed, match="another restic works in"):
            restore_process.points(location=location.as_json(), folder=FOLDER, expected=None, known=None)
        (tmp_path / "key").write_text(KEY)
        said = recover(tmp_path / "repository", "--key-file", tmp_path / "key", "--list", code=1)
        assert "Repeat it when that has ended" in said
        assert "Traceback" not in said
    assert back_up(task).verdict is Verdict.SUCCEEDED


def test_a_prune_that_is_killed_at_each_step_loses_no_point(tmp_path: Path) -> None:
    source, location = tmp_path / "source", location_at(tmp_path / "repository")
    days = (21, 22, 23, 24)
    for day in days:
        fill(source, 3, MIB)
        assert back_up(restic_task(local_folder(source), location, started_at=STARTED_AT.replace(day=day))).snapshot
    restic, data = Restic(location, threading.Event()), tmp_path / "repository/restic"
    order = {"location": location.as_json(), "folder": FOLDER}
    restic.run("forget", *(each.id for each in snapshots(restic, FOLDER)[:-1]))
    stay = [f"202611{days[-1]}T065755Z"]

    def is_killed(at: str) -> bool:
        before, killed = set((data / at).rglob("*")), True
        with killing("prune", lambda: set((data / at).rglob("*")) != before), suppress(StorageFailed):
            point_upkeep.prune(**order)
            killed = False
        return killed

    for at in ("locks", "index", "data"):
        # a fast prune, or one beside a test that stands still, may end before it is killed: it is begun again
        eventually(lambda at=at: is_killed(at) or at != "locks")  # type: ignore[misc]
        assert [each.point for each in snapshots(restic, FOLDER)] == stay
    assert list(point_upkeep.prune(**order)) == ["freed"]
    restic.run("check", "--read-data")
    restores(location, source, tmp_path / "back")


def test_a_restore_that_is_killed_goes_on_and_a_repository_that_is_full_harms_no_point(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 64 * MIB) as disk:
        location = location_at(disk / "repository")
        source = fill(tmp_path / "source", 8, 4 * MIB)
        assert back_up(restic_task(local_folder(source), location)).verdict is Verdict.SUCCEEDED
        before = contents(source)
        fill(tmp_path / "more", 20, 4 * MIB)
        task = restic_task(local_folder(tmp_path / "more"), location, started_at=STARTED_AT.replace(day=22))
        full = back_up(task)
        assert full.verdict is Verdict.REPOSITORY_FAILED, full
        assert "no space is left" in full.error
        (disk / "other").write_bytes(b"x" * max(0, free(disk) - 2 * MIB))
        ended = back_up(dataclasses.replace(task, reserve=1.0))
        assert ended.verdict in (Verdict.REPOSITORY_FAILED, Verdict.FILLED)
        assert "have to stay free" in ended.error
        (disk / "other").unlink()
        store, target = store_of(location, threading.Event()), tmp_path / "back"
        wish = Wish(FOLDER, "20261121T065755Z", target)
        with killing("restore", lambda: any(target.rglob(f"{INCOMING}*"))):
            report = into_folder.restore(wish, store, tmp_path / "cache")
        assert report.failed == [], "it goes on by itself"
        (target / "3").unlink()
        assert into_folder.restore(wish, store, tmp_path / "cache").files == 1
        assert contents(target) == before == contents(source)


@pytest.mark.parametrize(
    ("state", "why"), [("full", "no space is left"), ("read-only", "the repository cannot be written")]
)
def test_what_takes_no_lock_is_restored_all_the_same(tmp_path: Path, state: str, why: str) -> None:
    """In a read-only repository the lock of a killed prune stays, too."""
    with small_disk(tmp_path / "disk", 16 * MIB) as disk:
        source, location = fill(tmp_path / "source", 3, 100), location_at(disk / "repository")
        assert back_up(restic_task(local_folder(source), location)).verdict is Verdict.SUCCEEDED
        if state == "full":
            with suppress(OSError), (disk / "other").open("wb", buffering=0) as other:
                while other.write(b"x" * 4096):
                    pass
        else:
            with frozen_prune(location, locks := disk / "repository/restic/locks"):
                [lock] = locks.iterdir()
                written = lock.read_bytes()
            lock.write_bytes(written)
            subprocess.run(("mount", "-o", "remount,ro", str(disk)), check=True)
        restores(location, source, tmp_path / "back")
        failed = back_up(restic_task(local_folder(source), location, started_at=STARTED_AT.replace(day=22)))
        assert (failed.verdict, why in failed.error) == (Verdict.REPOSITORY_FAILED, True), failed


def test_a_file_of_data_that_is_lost_costs_no_more_than_what_it_held(tmp_path: Path) -> None:
    source, location = fill(tmp_path / "source", 12, 4 * MIB), location_at(tmp_path / "repository")
    assert back_up(restic_task(local_folder(source), location)).verdict is Verdict.SUCCEEDED
    largest = max((tmp_path / "repository/restic").glob("data/*/*"), key=lambda each: each.stat().st_size)
    largest.unlink()
    store, target = store_of(location, threading.Event()), tmp_path / "back"
    report = into_folder.restore(Wish(FOLDER, "20261121T065755Z", target), store, tmp_path / "cache")
    assert 0 < report.failed_files < 9, report
    assert report.files == 12 - report.failed_files == len(contents(target))
    assert contents(target).items() <= contents(source).items()


def test_what_is_lost_of_one_source_keeps_no_other_from_being_recovered(tmp_path: Path) -> None:
    repository, data = tmp_path / "repository", tmp_path / "repository/restic/data"
    source, other = fill(tmp_path / "source", 3, 100), fill(tmp_path / "other", 3, 100)
    assert back_up(restic_task(local_folder(source), location_at(repository))).verdict is Verdict.SUCCEEDED
    lost = "a lost one/nightly"
    for day in (21, 22):
        whole = set(data.rglob("*"))
        fill(other, 3, 100)
        at = STARTED_AT.replace(day=day)
        task = restic_task(local_folder(other), location_at(repository), folder=lost, started_at=at)
        assert back_up(task).verdict is Verdict.SUCCEEDED
    for each in set(data.rglob("*")) - whole:
        each.unlink() if each.is_file() else None
    found = lost_results.unrecorded(store_of(location_at(repository), threading.Event()), lost, [])
    assert [each["name"] for each in found] == ["20261121T065755Z"], "neither a check nor retention fails for good"
    (tmp_path / "key").write_text(KEY)
    named = (repository, "--key-file", tmp_path / "key")
    (repository / layout.REPOSITORY).unlink()
    assert all(each in recover(*named, "--list") for each in (f"{lost}: ", f"{FOLDER}: "))
    said = recover(*named, "--to", tmp_path / "back", code=1)
    assert f"{lost}: of point 20261122T065755Z, the repository's contents are damaged (Load(<data/" in said
    assert f"the point before it: --source {lost} --at 20261121T065755Z" in said
    assert contents(tmp_path / "back" / FOLDER) == contents(source)


def test_what_cannot_be_opened_is_named(tmp_path: Path) -> None:
    source, location = fill(tmp_path / "source", 3, 100), location_at(tmp_path / "repository")
    assert back_up(restic_task(local_folder(source), location)).verdict is Verdict.SUCCEEDED
    wrong = location_at(tmp_path / "repository", key="f" * 64)
    failed = run(restic_task(local_folder(source), wrong))
    assert failed.verdict is Verdict.REPOSITORY_FAILED
    assert "the key is not that of the repository" in failed.error
    gone = dataclasses.replace(local_folder(source), path=str(tmp_path / "nothing"))
    assert back_up(restic_task(gone, location)).verdict is Verdict.SOURCE_FAILED
    empty = run(restic_task(local_folder(fill(tmp_path / "empty", 0, 0)), location))
    assert (empty.verdict, empty.error) == (Verdict.SOURCE_FAILED, NOTHING), "other sources go on"
    os.rename(tmp_path / "repository/restic/config", tmp_path / "config")
    lost = run(restic_task(local_folder(source), location))
    assert lost.verdict is Verdict.REPOSITORY_FAILED
    assert "there is no restic repository" in lost.error


def test_a_point_of_which_no_file_could_be_read_is_not_proved(tmp_path: Path) -> None:
    location = location_at(tmp_path / "repository")
    fill(fill(tmp_path / "source", 0, 0) / "closed", 0, 0)
    assert back_up(restic_task(local_folder(tmp_path / "source"), location)).verdict is Verdict.SUCCEEDED
    store = store_of(location, threading.Event())
    scratch = Scratch(str(tmp_path / "drills"), 0)
    assert drilling.drill(store, FOLDER, scratch).error == ""
    [point] = runs.points(store, FOLDER)
    note_incomplete(Restic(location, threading.Event()), FOLDER, point, ["closed/a: permission denied"])
    assert drilling.drill(store, FOLDER, scratch).error == drilling.HOLDS_NOTHING


def test_a_server_that_takes_a_request_and_says_nothing_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "STEP_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        remote = {"type": "rest", "url": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        location = remotes.location_of("x", remote, {}, "5f" * 32, format=RESTIC)
        end = threading.Event()
        late = threading.Timer(20, end.set)
        late.start()
        assert "the repository does not answer (restic cat made no progress" in str(probing.not_writable(location, end))
        late.cancel()
