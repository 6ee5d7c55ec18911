"""A backup on a kernel that does not flush, and on one that reports nothing."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from threading import Event

import pytest

from engines.at_repositories import questions
from storage.folders import flushing
from storage.places import location
from storage.places.identity import Identity
from storage.points.store import Store
from tests.engines.peers import small_disk
from tests.storage import in_a_sandbox
from tests.waiting import PATIENCE

pytestmark = pytest.mark.usefixtures("waits_for_disks")

ROOT = Path(__file__).parents[2]


def test_what_is_put_is_on_the_disk_before_it_gets_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, place = tmp_path / "file", tmp_path / "repository" / "nas" / "marks"
    file.write_text("of a run")
    synced = dict[int, tuple[int, bool]]()

    def noted(descriptor: int) -> None:
        facts = os.fstat(descriptor)
        synced[facts.st_ino] = facts.st_size, place.exists()

    monkeypatch.setattr(os, "fsync", noted)
    Store(location.of_directory(tmp_path / "repository"), Event()).put(file, "nas/marks")
    assert synced == {place.stat().st_ino: (len("of a run"), False)}


def flushed(folder: Path, code: int) -> subprocess.CompletedProcess[str]:
    """Run in a sandbox whose syncfs answers with this error."""
    if os.uname().machine not in in_a_sandbox.SYNCFS:
        pytest.skip("the number of syncfs is not known for this processor")
    argv = (sys.executable, in_a_sandbox.__file__, str(ROOT), str(folder), str(code))
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=PATIENCE)
    if done.stderr.startswith("no filter here"):
        pytest.skip(done.stderr)
    return done


@pytest.mark.parametrize("code", flushing.REFUSALS, ids=errno.errorcode.get)
def test_a_sandbox_that_refuses_to_flush_one_file_system_fails_no_backup(code: int, tmp_path: Path) -> None:
    done = flushed(tmp_path, code)
    assert (done.returncode, done.stdout) == (0, f"syncfs is refused here: {os.strerror(code)}"), done.stderr


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EDQUOT], ids=errno.errorcode.get)
def test_a_write_that_failed_does(code: int, tmp_path: Path) -> None:
    done = flushed(tmp_path, code)
    assert done.returncode
    assert f"[Errno {code}]" in done.stderr


def test_a_file_system_that_went_read_only_has_taken_nothing(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 2**20) as disk:
        flushing.flush(disk, Event())
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with pytest.raises(OSError, match="Read-only"):
            flushing.flush(disk, Event())


@pytest.mark.parametrize(
    ("release", "tells"), [("4.18.0-553.el8", False), ("5.7", False), ("5.8.0", True), ("odd", True)]
)
def test_who_names_a_repository_reads_once_what_is_not_told(
    release: str, tells: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.uname", lambda: os.uname_result(("Linux", "here", release, "#1", "x86_64")))
    ours = vars(Identity("1", "here", encrypted=False, key_digest=""))
    found = questions.probe(location.of_directory(tmp_path).as_json(), ours, take_over=False)
    said = f"{questions.UNTOLD} (Linux reports it since 5.8, and this is {release})"
    assert found["notices"] == ([] if tells else [said])
