"""Names of a source that no disk of this host takes: their files are kept, and keep no other one from coming back."""

import os
from pathlib import Path
from threading import Event

import pytest

from engines.base import SourceSpec
from engines.restores import drilling, to_source
from engines.restores.scratch import Scratch
from storage.places.location import Location, of_directory
from storage.recover import instructions
from storage.restoring import into_folder
from storage.restoring.base import NOT_TAKEN, Wish
from storage.stores import store_of
from tests.engines.peers import back_up, local_folder, sftp_host, webdav_share, write_files
from tests.engines.restic_runs import FOLDER, location_at, restic_task
from tests.engines.restic_runs import back_up as back_up_by_restic
from tests.engines.webdav_shares import Share
from tests.programs import needs_restic
from tests.storage.recovering import follow

LONG = {"k" * 256: b"a key", "a/" + "\u4f60" * 100: b"of Windows", "b" * 300 + "/below": b"below"}
"""Names of a bucket, and of a server of Windows, which counts characters and not bytes."""


@pytest.fixture
def point(tmp_path: Path) -> str:
    with Share(**LONG, ok=b"ok").served() as share:
        result = back_up(share, tmp_path / "repository" / "copy")
    assert (result.files, result.warnings) == (4, ()), result
    return result.snapshot


def check_rest(location: Location, folder: str, point: str, tmp_path: Path, lacking: int) -> None:
    """Restores bring the others, and name the files that they lack; and a drill proves the others."""
    store = store_of(location, Event())
    report = into_folder.restore(Wish(folder, point, tmp_path / "back"), store, tmp_path / "cache")
    assert (report.files, report.failed_files, report.lost) == (1, lacking, 0), report
    assert all(each.endswith(NOT_TAKEN) for each in report.failed)
    assert (tmp_path / "back/ok").read_text() == "ok"
    done = drilling.drill(store, folder, Scratch(folder=str(tmp_path / "drills"), reserve=0))
    assert (done.error, done.files, len(done.notes)) == ("", 1, 1), done


def test_a_restore_and_a_drill_bring_all_others(point: str, tmp_path: Path) -> None:
    location = of_directory(tmp_path / "repository")
    check_rest(location, "copy", point, tmp_path, len(LONG) + 1)  # with a folder
    printed = follow(
        instructions.text_of(location), tmp_path, {}, SOURCE="copy", POINT=point, TO=str(tmp_path / "recovered")
    )
    assert (tmp_path / "recovered/ok").read_text() == "ok"
    lines = [each for each in printed.splitlines() if "its content is in" in each]
    assert {Path(each.rpartition(" ")[2]).read_bytes() for each in lines} == {*LONG.values()}


@pytest.mark.slow
@pytest.mark.parametrize("peer", [sftp_host, webdav_share])
def test_a_restore_to_a_source_brings_all_others(peer: object, point: str, tmp_path: Path) -> None:
    write_files(tmp_path / "target")
    with peer(tmp_path / "target") as source:  # type: ignore[operator]
        assert isinstance(source, SourceSpec)
        store = store_of(of_directory(tmp_path / "repository"), Event())
        wish = Wish("copy", point, Path())
        report = to_source.put_back(wish, store, source, tmp_path / "cache", lambda step: None)
    assert (report.files, report.failed_files) == (1, len(LONG)), report
    assert (tmp_path / "target/ok").read_text() == "ok"


@needs_restic
@pytest.mark.slow
def test_so_it_is_of_a_name_that_is_longer_in_a_manifest_than_on_the_disk(tmp_path: Path) -> None:
    source, location = write_files(tmp_path / "source", ok="ok"), location_at(tmp_path / "repository")
    Path(os.fsdecode(os.fsencode(source) + b"/" + b"\xc4\xe3" * 100)).write_bytes(b"100 characters of GBK")
    result = back_up_by_restic(restic_task(local_folder(source), location))
    check_rest(location, FOLDER, result.snapshot.partition("/")[0], tmp_path, 1)
