"""Attributes of folders come back from restic, which lists none of them: by way of the staging folder."""

import os
import threading
from pathlib import Path
from typing import Any, NoReturn

import pytest

from storage.folders import staged_attributes
from storage.places.location import Location
from storage.restoring import into_folder
from storage.restoring.attributes import ACL
from storage.restoring.base import Wish
from storage.restoring.placing import NOT_BY_RESTIC, FilePlacement
from storage.stores import store_of
from tests.engines.peers import local_folder, write_files
from tests.engines.restic_runs import FOLDER, back_up, location_at, restic_task
from tests.programs import needs_restic
from tests.storage.extended_attributes import READ_BY_BOB, attributes, set_attribute

pytestmark = [needs_restic, pytest.mark.skipif(os.geteuid() != 0, reason="root sets all attributes")]
POINT = "20261121T065755Z"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    files = write_files(tmp_path / "source", **{"shared/deep/a": "a", "new\nline/b": "b", "shared/plain/c": "c"})
    (files / "shared/void/inner").mkdir(parents=True)
    (files / os.fsdecode(b"bad\xff")).mkdir()
    set_attribute(files / "shared", "trusted.note", b"\0of ann")
    set_attribute(files / "shared", f"{ACL}default", READ_BY_BOB)
    set_attribute(files / "shared/deep", f"{ACL}access", READ_BY_BOB)
    set_attribute(files / "shared/deep/a", f"{ACL}access", READ_BY_BOB)
    for name in ("new\nline", os.fsdecode(b"bad\xff"), "shared/void", "shared/void/inner"):
        set_attribute(files / name, "user.note", os.fsencode(name))
    (files / "shared").chmod(0o2770)
    return files


@pytest.fixture
def location(source: Path, tmp_path: Path) -> Location:
    location = location_at(tmp_path / "repository")
    back_up(restic_task(local_folder(source), location))
    return location


def in_manifest(found: dict[str, Any]) -> dict[str, Any]:
    return {os.fsencode(path).decode(errors="replace"): value for path, value in found.items()}


@pytest.mark.slow
def test_folders_come_back_with_their_attributes_and_no_others(
    source: Path, location: Location, tmp_path: Path
) -> None:
    store = store_of(location, threading.Event())
    (tmp_path / "back").mkdir()
    set_attribute(tmp_path / "back", f"{ACL}default", READ_BY_BOB)  # which is handed down to what is made there
    report = into_folder.restore(Wish(FOLDER, POINT, tmp_path / "back"), store, tmp_path / "cache")
    assert (report.failed, report.not_set) == ([], [])
    assert attributes(tmp_path / "back") == in_manifest(attributes(source))
    assert (tmp_path / "back/shared").stat().st_mode == (source / "shared").stat().st_mode

    one = Wish(FOLDER, POINT, tmp_path / "one", paths=("shared/void",))
    assert into_folder.restore(one, store, tmp_path / "cache").not_set == []
    assert os.getxattr(tmp_path / "one/shared/void/inner", "user.note") == b"shared/void/inner"


@pytest.mark.slow
def test_a_folder_whose_attributes_may_not_have_come_is_named(
    source: Path, location: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(location, threading.Event())

    def restored(name: str, **more: Any) -> list[str]:
        report = into_folder.restore(Wish(FOLDER, POINT, tmp_path / name, **more), store, tmp_path / "cache")
        assert report.failed == []
        return report.not_set

    def be_killed(placing: FilePlacement) -> NoReturn:
        raise OSError(5, "killed")

    with monkeypatch.context() as patched:
        patched.setattr(FilePlacement, "finish_folders", be_killed)
        for name in ("killed", "older"):
            with pytest.raises(OSError, match="killed"):
                restored(name)
    assert restored("killed") == []
    assert attributes(tmp_path / "killed") == in_manifest(attributes(source))

    [staged] = (tmp_path / "older").glob(f".restore-*/files/{POINT}")
    (staged / "shared/plain").chmod(staged_attributes.BARE)
    assert restored("older") == [f"{NOT_BY_RESTIC}: shared/plain"]

    for left in ("shared/deep/a", "shared/plain/c"):
        (tmp_path / "some" / left).parent.mkdir(parents=True)
        (tmp_path / "some" / left).write_text("another")
    (tmp_path / "some/new\nline").mkdir()
    (tmp_path / "some/new\nline/b").write_text("b")
    os.utime(tmp_path / "some/new\nline/b", ns=(0, (source / "new\nline/b").stat().st_mtime_ns))
    assert restored("some", overwrite=True) == [f"{NOT_BY_RESTIC}: shared/void/inner, shared/void, new␊line and 1 more"]
    assert attributes(tmp_path / "some")["shared"] == attributes(source)["shared"]

    monkeypatch.setattr(staged_attributes, "PROBES", ("nobody.has",))
    assert restored("no capability") == [f"{NOT_BY_RESTIC}: shared/void/inner, shared/void, shared/plain and 4 more"]
    assert attributes(tmp_path / "no capability") == in_manifest(attributes(source))
    monkeypatch.setattr(staged_attributes, "MOST_BYTES", 6)
    restored("endless")
    assert os.listxattr(tmp_path / "endless/shared") == []


@pytest.mark.slow
@pytest.mark.parametrize(("file", "folder"), [(b"bad\xfe", b"bad\xff"), (b"bad\xff", b"bad\xfe")])
def test_of_a_file_and_a_folder_that_are_listed_alike_the_folder_comes_back(
    file: bytes, folder: bytes, tmp_path: Path
) -> None:
    source = write_files(tmp_path / "source", **{"ok": "ok", os.fsdecode(file): "1", os.fsdecode(folder) + "/a": "2"})
    location = location_at(tmp_path / "repository")
    back_up(restic_task(local_folder(source), location))
    store = store_of(location, threading.Event())
    report = into_folder.restore(Wish(FOLDER, POINT, tmp_path / "back"), store, tmp_path / "cache")
    assert (report.complete, report.failed) == (False, [])
    assert (tmp_path / "back/ok").read_text() == "ok"
    assert (tmp_path / "back/bad\ufffd/a").read_text() == "2"
