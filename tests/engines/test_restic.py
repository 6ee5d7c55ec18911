"""Snapshots of restic as points: made, looked at, restored byte for byte, removed, recovered without a database."""

import json
import os
import threading
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from engines.at_repositories import point_upkeep, questions
from engines.base import EngineProgress, SourceSpec, Verdict
from engines.restores import to_source
from storage import layout
from storage.places import remotes
from storage.places.identity import digest_of
from storage.places.location import RESTIC, Location
from storage.points import runs
from storage.points.manifests import Entry
from storage.points.store import StorageFailed, Store
from storage.points.trees import opened, versions_of
from storage.restic import program, snapshots
from storage.restic.program import Restic
from storage.restoring import into_folder
from storage.restoring.base import Report, RestoreRefused, Wish
from storage.restoring.placing import NOT_BY_RESTIC
from storage.stores import store_of
from tests.engines.peers import (
    PASSWORD,
    STARTED_AT,
    USER,
    local_folder,
    run,
    serving,
    small_disk,
    specification,
    write_files,
)
from tests.engines.restic_keys import make_empty, make_quick
from tests.engines.restic_runs import (
    FOLDER,
    IDENTITY,
    KEY,
    MADE,
    OTHER_KEY,
    back_up,
    contents,
    location_at,
    restic_task,
)
from tests.programs import needs_restic

ODD = ("-dash", "new\nline", 'q"uote', "star*?[x]", "back\\slash", "é 𝄞", "a: b", "tab\t", "**", "␊")


def is_all_set(report: Report) -> bool:
    """True if nothing of a restore is not set but attributes of folders that this account cannot set."""
    return all(each.startswith(NOT_BY_RESTIC) for each in report.not_set)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    files = write_files(tmp_path / "source", **{"a/b.txt": "text", "empty": "", **dict.fromkeys(ODD, "odd")})
    os.truncate(files / "a/b.txt", 3_000_000)
    (files / "link").symlink_to("a/b -> c.txt")
    (files / "void").mkdir()
    (files / "a/b.txt").chmod(0o640)
    os.utime(files / "a", (1_000_000_000, 1_000_000_000))
    os.mkfifo(files / "pipe")
    return files


@needs_restic
@pytest.mark.slow
def test_of_two_names_that_are_not_utf_8_and_listed_alike_a_point_says_that_one_is_lacking(tmp_path: Path) -> None:
    source, location = tmp_path / "source", location_at(tmp_path / "repository")
    store, whole = store_of(location, threading.Event()), []
    for day, name in ((21, b"bad\xff"), (22, b"bad\xfe")):
        write_files(source, ok="ok")
        Path(os.fsdecode(os.fsencode(source) + b"/" + name)).write_bytes(name)
        task = restic_task(local_folder(source), location, started_at=STARTED_AT.replace(day=day))
        assert back_up(task).verdict is Verdict.SUCCEEDED
        wish = Wish(FOLDER, f"202611{day}T065755Z", tmp_path / f"back {day}")
        whole.append(into_folder.restore(wish, store, tmp_path / "cache").complete)
    assert (tmp_path / "back 21/bad\ufffd").read_bytes() == b"bad\xff"
    assert json.dumps(whole) == "[true, false]"


@needs_restic
@pytest.mark.slow
@pytest.mark.promise
def test_a_local_folder_comes_back_byte_for_byte_with_its_odd_names(source: Path, tmp_path: Path) -> None:
    location = location_at(tmp_path / "repository")
    seen: list[EngineProgress] = []
    result = back_up(restic_task(local_folder(source), location), seen.append)
    assert result.verdict is Verdict.SUCCEEDED, result
    assert (result.files, result.new, result.changed, result.removed) == (len(ODD) + 2, len(ODD) + 2, 0, None)
    point, _, short = result.snapshot.partition("/")
    assert layout.point_of(result.snapshot) == point == "20261121T065755Z"
    store = store_of(location, threading.Event())
    assert runs.points(store, FOLDER) == [point]
    report = into_folder.restore(Wish(FOLDER, point, tmp_path / "back"), store, tmp_path / "cache")
    assert (report.failed, is_all_set(report)) == ([], True)
    os.unlink(source / "pipe")
    assert contents(tmp_path / "back") == contents(source)

    (source / "a/b.txt").write_text("other")
    (source / "empty").unlink()
    later = STARTED_AT.replace(day=22)
    again = back_up(
        restic_task(local_folder(source), location, started_at=later, last_snapshot=short, last_files=result.files)
    )
    assert (again.new, again.changed, again.removed) == (0, 1, 1)
    with opened(store, FOLDER, "20261122T065755Z", tmp_path / "cache") as tree:
        modified = tree.entry("link").modified  # type: ignore[union-attr]
        expected = Entry("link", "link", 12, modified, 0o777, "a/b -> c.txt", uid=os.getuid(), gid=os.getgid())
        assert tree.entry("link") == expected
        assert [each.name for each in tree.folder("a")] == ["b.txt"]
        assert tree.header.source == "a local source"
    points = ["20261122T065755Z", point]
    versions = versions_of(store, FOLDER, points, "a/b.txt", tmp_path / "cache")
    assert [each["size"] for each in versions] == [5, 3_000_000]
    one = Wish(FOLDER, point, tmp_path / "one", paths=("star*?[x]", "a"))
    assert into_folder.restore(one, store, tmp_path / "cache").files == 2
    assert sorted(os.listdir(tmp_path / "one")) == ["a", "star*?[x]"]

    order = {"location": location.as_json(), "folder": FOLDER}
    removed = point_upkeep.remove_points(points=[point], stay=["20261122T065755Z"], **order)
    assert (removed["points"], removed["present"]) == ((point,), ("20261122T065755Z",))
    assert point_upkeep.prune(**order)["freed"] > 0
    facts = {"after": "", "total": 0, "share": 0.5, "known": [], "recorded": ["20261122T065755Z"], **order}
    first = point_upkeep.check_files(part="", **facts)
    last = point_upkeep.check_files(part=first["part"], **facts)
    assert (first["part"], last["part"], first["damaged"] + last["damaged"]) == ("2/2", "", [])
    assert first["files"] + last["files"] > 0
    known = [{"point": "any point", "path": "1/1", "place": "restic", "why": "a pack was damaged", "repository": 1}]
    nothing, again = (point_upkeep.check_files(part="", **facts | {"share": 0, "known": each}) for each in ([], known))
    assert (nothing["files"], again["damaged"]) == (0, [])
    assert again["files"] > 0, "what was known to be damaged is read again, and is not any more"


@needs_restic
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["webdav", "rest"])
def test_a_remote_and_a_rest_server_are_tried_and_keep_points(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_files(tmp_path / "source", **{"a/b.txt": "text" * 10_000, "c": "other"})
    (tmp_path / "served").mkdir()
    account = (f"--user={USER}", f"--pass={PASSWORD}")
    served = ("restic" if kind == "rest" else kind, tmp_path / "served", *account)
    with serving(*served, caches=kind != "rest") as (address, port):
        url = f"http://{address}:{port}"
        remote = {"type": kind, "url": url, "user": USER} | ({"vendor": "rclone"} if kind == "webdav" else {})
        secrets = {"password" if kind == "rest" else "pass": PASSWORD}

        def place(key: str = KEY, path: str = "backups") -> Location:
            return remotes.location_of(path, remote, secrets, key, format=RESTIC)

        found = questions.probe(place().as_json(), asdict(IDENTITY), take_over=False)
        assert found.get("id") == IDENTITY.id, found
        other = asdict(replace(IDENTITY, id="other"))
        if kind == "rest":
            assert "another installation" in questions.probe(place().as_json(), other, take_over=False)["problem"]
            wrong = questions.probe(place("f" * 64).as_json(), asdict(IDENTITY), take_over=False)
            assert wrong["field"] == "key", wrong
        else:
            assert questions.make_repository(place().as_json(), asdict(IDENTITY)) == MADE
            assert "another installation" in questions.probe(place().as_json(), other, take_over=False)["problem"]
        make_quick(tmp_path / "served/backups" / ("" if kind == "rest" else RESTIC), KEY)
        location = place()
        assert PASSWORD not in repr(location)
        assert KEY not in repr(location)
        result = back_up(restic_task(local_folder(source), location))
        assert result.verdict is Verdict.SUCCEEDED, result
        store = store_of(location, threading.Event())
        [point] = runs.points(store, FOLDER)
        assert into_folder.restore(Wish(FOLDER, point, tmp_path / "back"), store, tmp_path / "cache").failed == []
        assert contents(tmp_path / "back") == contents(source)
        second = place(OTHER_KEY, "copies")
        ours = asdict(replace(IDENTITY, id="2b9c", key_digest=digest_of(OTHER_KEY)))
        if kind == "rest":  # there a probe makes it
            questions.probe(second.as_json(), ours, take_over=False)
            make_quick(tmp_path / "served/copies", OTHER_KEY)
        policy = {
            "newest": point,
            "again": [],
            "damaged": {},
            "bandwidth": "10M",
            "zone": "UTC",
            "reserve": 0.0,
            "made": False,
        }
        order = {"location": location.as_json(), "folder": FOLDER, "target": second.as_json(), "ours": ours}
        assert point_upkeep.copy_points(**order, **policy).get("new") == [point]
        if kind == "webdav":
            make_quick(tmp_path / "served/copies" / RESTIC, OTHER_KEY)
        copy = store_of(second, threading.Event())
        assert into_folder.restore(Wish(FOLDER, point, tmp_path / "copy"), copy, tmp_path / "cache").failed == []
        assert contents(tmp_path / "copy") == contents(source)
        if kind == "webdav":
            put_back_with_and_without_room(
                store, point, specification(kind, url, options={"user": USER}), tmp_path, monkeypatch
            )
        assert questions.not_writable(location.as_json(), 0) is None
        removed = point_upkeep.remove_folder(location.as_json(), FOLDER, asdict(IDENTITY))
        assert removed["points"] == (point,), removed
    monkeypatch.setattr(program, "OUTAGE_SECONDS", 0.0)
    gone = run(restic_task(local_folder(source), location))
    assert gone.verdict is Verdict.REPOSITORY_FAILED, gone


def put_back_with_and_without_room(
    store: Store, point: str, source: SourceSpec, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def put_back() -> Report:
        return to_source.put_back(Wish(FOLDER, point, Path("back")), store, source, home / "cache", lambda step: None)

    with small_disk(home / "disk", 16_384) as disk, monkeypatch.context() as patched:
        patched.setattr("tempfile.tempdir", str(disk))
        with pytest.raises(RestoreRefused, match="name a larger one in the worker's TMPDIR"):
            put_back()
    assert put_back().files == 2
    assert (home / "served/back/c").read_text() == "other"


@needs_restic
def test_a_list_of_snapshots_that_is_too_long_is_a_sentence_and_each_assignment_has_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_empty(tmp_path / RESTIC, KEY)
    restic = Restic(location_at(tmp_path), threading.Event())
    for number in range(4):
        tags = {"assignment": f"nas-{number // 3}/nightly", "point": f"2026112{number}T065755Z"}
        snapshots.back_up_text(restic, "", **tags)
    monkeypatch.setattr(program, "LONGEST_LINE", 700)
    [found] = snapshots.snapshots(restic, "nas-1/nightly")
    assert found.point == "20261123T065755Z"
    with pytest.raises(StorageFailed, match="its list of snapshots cannot be read"):
        snapshots.snapshots(restic)
