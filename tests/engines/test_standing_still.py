"""An rclone that stands still in the middle of its files: the others come all the same, soon."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest

from engines.base import Verdict
from engines.rclone import mirror, reported_digests
from engines.rclone.engine import RcloneEngine
from engines.rclone.remotes import way_to
from engines.rclone.run import RcloneRun
from storage.places import pulse
from storage.places.location import of_directory
from storage.places.pulse import Pulse, StoodStill
from storage.points.files import raw
from storage.points.store import StorageFailed, Store
from tests.engines.peers import held, local_folder, run, sftp_host, task_for, tree, write_files
from tests.processes import below

FILES = {f"f{number:02}": f"{number}" * (1 if number < 10 else 50_000) for number in range(20)}
NEVER = "1K"
"""Bytes a second, with which no rclone comes to the end of these files."""


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulse, "SILENT_SECONDS", 1.5)
    monkeypatch.setattr(pulse, "SILENT_LOOKS", 10)


def stopping(verb: str, options: dict[str, str], *, times: int = 1) -> tuple[Callable[..., None], list[int]]:
    """What stops the first rclones of this verb that report progress, and then clears the options; and the ids of the
    stopped ones.
    """
    stopped = list[int]()

    def stop(*progress: object) -> None:
        for each in below(verb) if len(stopped) < times else ():
            if each.pid not in stopped:
                os.kill(each.pid, signal.SIGSTOP)
                stopped.append(each.pid)
        if len(stopped) == times:
            options.clear()

    return stop, stopped


@pytest.mark.parametrize(("kind", "times"), [("local", 1), pytest.param("sftp", 2, marks=pytest.mark.slow)])
def test_the_rest_comes_in_the_same_run(kind: str, times: int, tmp_path: Path) -> None:
    files, options = write_files(tmp_path / "files", **FILES), {"bwlimit": NEVER}
    stop, stopped = stopping("copy", options, times=times)
    with sftp_host(files) as host:
        source = local_folder(files) if kind == "local" else host
        result = run(task_for(source, tmp_path / "copy", options=options), stop)
    assert (result.verdict, result.new, result.warnings) == (Verdict.SUCCEEDED, len(FILES), ()), result
    assert held(tmp_path / "copy") == FILES
    assert len(stopped) == times


@pytest.mark.parametrize("times", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_files_that_get_another_name_come_in_the_same_run(times: int, tmp_path: Path) -> None:
    named = {f"{name}\u201b": text for name, text in FILES.items()}
    files, options = write_files(tmp_path / "files", **named), {"bwlimit": NEVER}
    stop, stopped = stopping("copy", options, times=times)
    result = run(task_for(local_folder(files), tmp_path / "copy", options=options), stop)
    assert (result.verdict, result.new, result.warnings) == (Verdict.SUCCEEDED, len(FILES), ()), result
    assert {raw(path): text for path, text in held(tmp_path / "copy").items()} == named
    assert len(stopped) == times


def test_a_mirror_goes_on(tmp_path: Path) -> None:
    files, options = write_files(tmp_path / "files", **FILES), {"bwlimit": NEVER}
    stop, stopped = stopping("sync", options)
    task = task_for(local_folder(files), tmp_path / "copy", options=options)
    result, folder = RcloneEngine().stage(task, tmp_path / "stage", Event(), stop)
    assert (result.verdict, tree(folder), len(stopped)) == (Verdict.SUCCEEDED, tree(files), 1), result


def test_so_does_a_mirror_that_fetches_one_file_alone(tmp_path: Path) -> None:
    files, options = write_files(tmp_path / "files", large="x" * 500_000), {"bwlimit": NEVER}
    stop, stopped = stopping("copy", options)
    task = task_for(local_folder(files), tmp_path / "copy", options=options)
    (tmp_path / "stage").mkdir()
    with way_to(task.source, task.location, 1.0) as way:
        assert mirror._alone(RcloneRun(task, Event(), stop, way=way), tmp_path / "stage", "large") == []
    assert (tree(tmp_path / "stage"), len(stopped)) == (tree(files), 1)


@pytest.mark.slow
def test_digests_of_all_files_are_read(tmp_path: Path) -> None:
    files, options = write_files(tmp_path / "files", **FILES), {"bwlimit": NEVER}
    stop, stopped = stopping("hashsum", options)
    with sftp_host(files) as host:
        task = task_for(host, tmp_path / "copy", options=options)
        with way_to(task.source, task.location, 5.0) as way:
            asking = RcloneRun(task, Event(), lambda progress: None, way=way)
            asking._sign_of_life = lambda: asking.log.activity and stop()  # type: ignore[assignment, method-assign, func-returns-value]
            sizes = {path: len(text) for path, text in FILES.items()}
            found = reported_digests._read(host, sizes, ("--bwlimit=100K",), asking.ask)
    assert (found.keys(), len(stopped)) == (FILES.keys(), 1)


def test_a_copy_out_of_a_repository_fails_soon(tmp_path: Path) -> None:
    write_files(tmp_path / "repository/copy/files", **FILES)
    store, options = Store(of_directory(tmp_path / "repository"), Event()), {"RCLONE_BWLIMIT": NEVER}
    stop, stopped = stopping("copy", {})
    with pytest.raises(StorageFailed, match="rclone hung"):
        store.copy_out("copy/files", str(tmp_path / "to"), list(FILES), stop, environment=options)
    assert len(stopped) == 1


def test_silence_proves_nothing_before_the_first_statistics_and_right_after_a_sleep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = 0.0
    monkeypatch.setattr(pulse.time, "monotonic", lambda: clock)
    heard = Pulse(lambda line: None)
    heard.on_line('a file called "stats":{')
    for _ in range(100):
        clock += 1
        heard.sign_of_life()
    heard.on_line('{"time":"2026-11-30T03:00:00Z","stats":{}}')
    heard.sign_of_life()
    clock += 3600
    for _ in range(9):
        heard.sign_of_life()
    heard.on_line("done")
    clock += 3600
    for _ in range(10):
        heard.sign_of_life()
    with pytest.raises(StoodStill, match="printed nothing"):
        heard.sign_of_life()
