"""A killed restore to a source leaves decrypted files on this host only until the next one, or a worker starts."""

import os
import signal
import tempfile
from pathlib import Path
from typing import Any

import pytest

from backups.restores import left_behind
from engines.base import SourceSpec
from engines.restores import to_source
from engines.restores.scratch_batch import ScratchBatch
from storage.folders.scratch import PREFIX
from storage.restoring.base import Wish
from tests.engines import peers
from tests.storage.building import ASSIGNMENT, Built


def killed_on_its_way(built: Built, source: SourceSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (child := os.fork()):
        try:
            monkeypatch.setattr(ScratchBatch, "_take", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
            put_back(built, source)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


def put_back(built: Built, source: SourceSpec) -> None:
    wish = Wish(ASSIGNMENT, built.points[0], Path())
    to_source.put_back(wish, built.store, source, built.folder / "cache", lambda step: None)


@pytest.mark.slow
@pytest.mark.parametrize("removes", ["a worker that starts", "the next restore"])
def test_decrypted_files_of_a_killed_restore_are_removed(
    removes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.VAR_DIR = tmp_path / "var"
    temporary, folder = tmp_path / "temporary", tmp_path / "served"
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    for each in (temporary, folder):
        each.mkdir()
    built = Built(tmp_path / "built")
    built.write("letter", "decrypted")
    built.back_up()
    with peers.sftp_host(folder) as source:
        killed_on_its_way(built, source, monkeypatch)
        assert [each.read_text() for each in temporary.rglob("*letter*")] == ["decrypted"]
        if removes == "the next restore":
            left_when_measured = list[Path]()
            look = lambda *_: left_when_measured.extend(temporary.rglob("*letter*"))  # noqa: E731
            monkeypatch.setattr(to_source.targets, "check_room", look)
            put_back(built, source)
            assert (folder / "letter").read_text() == "decrypted"
            assert not left_when_measured, "they count as room that others have taken"
        else:
            assert left_behind.remove() == 1
    assert not list(temporary.rglob("*letter*"))


def test_a_worker_starts_without_a_folder_that_takes_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.VAR_DIR = tmp_path
    (tmp_path / f"{PREFIX}left").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(tmp_path / "missing")])
    assert (left_behind.remove(), [*tmp_path.iterdir()]) == (1, [])
