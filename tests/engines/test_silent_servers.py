"""Servers that take a request for a file, and then send nothing."""

from datetime import timedelta
from pathlib import Path
from threading import Event

import pytest

from engines.base import Verdict
from engines.rclone import run as rclone_run
from engines.rclone.engine import RcloneEngine
from engines.rclone.remotes import way_to
from engines.rclone.run import RcloneRun
from storage.places import remotes
from tests.engines.peers import STARTED_AT, back_up, held, point, task_for, tree
from tests.engines.served import KEY, serving
from tests.engines.webdav_shares import Share
from tests.processes import below

STALL_SECONDS = 8.0
"""After so long rclone is ended; it must have begun to copy by then."""
LATER = {"started_at": STARTED_AT + timedelta(days=1), "stall_timeout": STALL_SECONDS}
WHY = f"nothing moved for {STALL_SECONDS:g} s; it was ended"
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("names", [["silent"], ["silent."], ["b", "silent", "silent."]], ids=" ".join)
def test_files_that_never_come_are_exceptions_and_all_others_come(names: list[str], tmp_path: Path) -> None:
    share = Share(a=b"a", z=b"z", **dict.fromkeys(names, b"earlier"))
    with share.served() as source:
        assert back_up(source, tmp_path / "copy").verdict is Verdict.SUCCEEDED
        share.files = dict.fromkeys(share.files, b"changed since") | {"z.": b"new"}
        share.silent = set(names)
        result = back_up(source, tmp_path / "copy", **LATER)
    changed = {"a": "changed since", "z": "changed since", "z.": "new"}
    assert held(tmp_path / "copy") == changed | dict.fromkeys(names, "earlier"), result
    entries = point(tmp_path / "copy", result.snapshot).values()
    assert {each.path: each.why for each in entries if each.why} == dict.fromkeys(names, WHY)
    assert below("--config=") == []


def test_a_file_that_never_comes_is_left_out_of_what_is_stored_here_for_restic(tmp_path: Path) -> None:
    share = Share(a=b"a", z=b"z", **dict.fromkeys(["b[1]", "silent", "left/out"], b"earlier"))
    with share.served() as source:
        for exclude in ([], ["left"]):
            task = task_for(source, tmp_path / "copy", stall_timeout=STALL_SECONDS, options={"exclude": exclude})
            result, folder = RcloneEngine().stage(task, tmp_path / "stage", Event(), lambda progress: None)
            whole = tree(folder)
            share.files = dict.fromkeys(share.files, b"changed since")
            share.silent = {"silent", "b[1]"}
    assert whole == {"a": "changed since", "z": "changed since", "silent": "earlier", "b[1]": "earlier"}, result
    assert result.verdict is Verdict.WARNINGS
    assert sorted(result.warnings) == ["2 files not copied", f"b[1]: {WHY}", f"silent: {WHY}"]
    assert below("--config=") == []


def test_a_server_that_says_nothing_at_all_any_more_ends_the_run(tmp_path: Path) -> None:
    share = Share(a=b"a", b=b"b", silent=b"silent", z=b"z")
    share.silent, share.dies = {"silent"}, True
    with share.served() as source:
        result = back_up(source, tmp_path / "copy", **LATER)
    assert (result.verdict, result.error, held(tmp_path / "copy")) == (Verdict.SOURCE_FAILED, WHY, {}), result
    assert below("--config=") == []


def test_a_comparison_with_a_server_that_never_sends_a_file_ends_and_confirms_no_file_of_its_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The digests of an encrypted bucket are those of encrypted files, so each file of the source is read."""
    monkeypatch.setattr(rclone_run, "OF_A_LIST", 1)
    share = Share(a=b"a", silent=b"silent")
    with share.served() as source, serving("s3", tmp_path / "served") as (settings, secrets, path):
        location = remotes.location_of(path, settings, secrets, KEY)
        there = {"location": location, "folder": "copy"}
        first = back_up(source, tmp_path, **there)
        assert first.verdict is Verdict.SUCCEEDED, first
        task = task_for(source, tmp_path, **there, **LATER)
        with way_to(source, location, task.connect_timeout) as way:
            run = RcloneRun(task, Event(), lambda progress: None, way=way)
            sizes = {name: len(content) for name, content in share.files.items()}
            assert run.confirmed(first.snapshot, sizes) == sizes.keys()
            share.silent = {"silent"}
            assert run.confirmed(first.snapshot, sizes) == {"a"}
    assert below("--config=") == []
