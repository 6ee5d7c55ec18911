"""A repository is read part by part, each stored file once; what is damaged is found, named with all its points, and
brought again by the next backup."""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from engines import engine_for
from engines.at_repositories import point_upkeep
from engines.base import Verdict
from storage import layout
from storage.places import remotes
from storage.places.location import Location, of_directory
from storage.points import checking, manifests, removal
from storage.points.checking import GONE, CheckResult, Damage
from storage.points.known import digest_of
from storage.points.reading import NO_FILE
from storage.points.store import StorageFailed, Store
from tests.engines.peers import STARTED_AT, local_folder, task_for
from tests.engines.served import KEY, serving
from tests.storage.played_runs import ASSIGNMENT, Played, files_below
from tests.storage.repositories import encrypted
from tests.storage.stepping import stepped
from tests.storage.with_digests import WithDigests

FOLDER = "nas-7/nightly"
KNOWN: Any = {"part": "", "after": "", "total": 0}


@dataclass
class Backed:
    """A local source, backed up by the engine; `files`: the place of the repository's files on this host."""

    source: Path
    location: Location
    files: Path
    runs: int = 0

    @property
    def store(self) -> Store:
        return Store(self.location, threading.Event())

    def back_up(self, *damaged: Damage, **files: str) -> str:
        for name, text in files.items():
            (self.source / name).write_text(text)
            os.utime(self.source / name, ns=(10**18, 10**18))
        self.runs += 1
        task = task_for(
            local_folder(self.source), self.files, location=self.location, folder=FOLDER,
            started_at=STARTED_AT + timedelta(days=self.runs), damaged=frozenset(each.place for each in damaged),
        )  # fmt: skip
        result = engine_for("local").run(task, on_progress=lambda progress: None, stop=threading.Event())
        assert result.verdict is Verdict.SUCCEEDED, (result.error, result.warnings)
        return result.snapshot

    def check(self, known: list[Damage] | None = None) -> CheckResult:
        return checking.check(self.store, FOLDER, **KNOWN, share=1.0, known=known or [])

    def flip(self, size: int) -> None:
        """One bit of the one file of that size, size and time as before."""
        [file] = [each for each in self.files.rglob("*") if each.is_file() and each.stat().st_size == size]
        content, facts = bytearray(file.read_bytes()), file.stat()
        content[size // 2] ^= 1
        file.write_bytes(content)
        with contextlib.suppress(OSError):
            os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))

    def entry(self, point: str, path: str, scratch: Path) -> manifests.Entry:
        assert self.store.manifest(FOLDER, point, scratch)
        return next(each for each in manifests.read(scratch) if each.path == path)


@pytest.fixture
def plain(tmp_path: Path) -> Backed:
    (tmp_path / "source").mkdir()
    (tmp_path / "repository").mkdir()
    return Backed(
        tmp_path / "source", remotes.location_of(str(tmp_path / "repository"), {}, {}, None), tmp_path / "repository"
    )


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[Backed]:
    """An encrypted repository in a bucket."""
    (tmp_path / "source").mkdir()
    with serving("s3", tmp_path / "served") as (settings, secrets, path):
        location = remotes.location_of(path, settings, secrets, KEY)
        yield Backed(tmp_path / "source", location, tmp_path / "served")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "bucket"])
def test_a_flipped_bit_is_found_named_with_its_points_and_brought_again_by_the_next_backup(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    backed: Backed = request.getfixturevalue(kind)
    first, second = backed.back_up(a="a" * 1000, b="b"), backed.back_up(b="bb")
    assert backed.check().damaged == []
    backed.flip(1000 + (48 if kind == "bucket" else 0))
    [damage] = backed.check().damaged
    assert (damage.point, damage.oldest, damage.path, damage.place) == (second, first, "a", f"{first}/a")
    assert ("encrypted with another key" if kind == "bucket" else "its content has changed: SHA-256") in damage.why
    third = backed.back_up(damage)
    assert backed.entry(third, "a", tmp_path / "manifest").place == f"{third}/a"
    found = backed.check([damage])
    assert (found.damaged, found.mended) == ([damage], []), "of the older points it stays known"
    fourth = backed.back_up(*found.damaged)
    assert backed.entry(fourth, "a", tmp_path / "manifest").place == f"{third}/a", "and is brought once"


def test_a_folder_in_place_of_a_file_on_a_server_is_damage(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    with serving("sftp", tmp_path / "served") as (settings, secrets, path):
        location = remotes.location_of(path, settings, secrets, None)
        backed = Backed(tmp_path / "source", location, tmp_path / "served")
        point = backed.back_up(a="a", b="b")
        [file] = backed.files.rglob(f"{point}/a")
        put_folder(file)
        assert [each.path for each in backed.check().damaged] == ["a"]


@pytest.fixture
def played(tmp_path: Path) -> WithDigests:
    """Two points, of which both name `b`, and `c` under two paths. Of `new` no digest is known."""
    made = WithDigests(tmp_path)
    for text in ("new", "1"):
        made.back_up({"a": text, "b": "the same", "c": "linked", "d": "linked"}, linked={"d": "c"})
    return made


def check(played: Played, known: list[Damage] | None = None, **facts: Any) -> CheckResult:
    ours = {each: [digest_of(played.manifest(each))] for each in played.points()}
    store = Store(of_directory(played.root), threading.Event(), known=ours)
    return checking.check(store, ASSIGNMENT, **{**KNOWN, "share": 1.0, "known": known or [], **facts})


def in_parts(played: Played, monkeypatch: pytest.MonkeyPatch, between: Any = lambda done: None) -> list[CheckResult]:
    """A whole round, two files at a time."""
    monkeypatch.setattr(checking, "LEAST_BYTES", 1)
    monkeypatch.setattr(checking, "BATCH_FILES", 2)
    runs = [check(played, share=1e-9)]
    while runs[-1].part:
        between(runs[-1])
        runs.append(check(played, part=runs[-1].part, after=runs[-1].after, total=runs[-1].total, share=1e-9))
    return runs


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are read, by place."""
    found, store_read = list[str](), Store.read
    monkeypatch.setattr(Store, "read", lambda *given: (found.extend(given[2]), store_read(*given))[1])
    return found


def test_a_round_reads_each_file_once_however_it_is_divided(
    played: WithDigests, monkeypatch: pytest.MonkeyPatch, read: list[str]
) -> None:
    played.back_up({"a": "2", "b": "the same"})
    parts = in_parts(played, monkeypatch)
    assert sorted(read) == sorted(files_below(played.files))
    assert (sum(each.files for each in parts), len(parts)) == (len(read), 4)


def test_what_a_backup_brings_in_the_middle_of_a_round_keeps_nothing_else_from_being_read(
    played: WithDigests, monkeypatch: pytest.MonkeyPatch, read: list[str]
) -> None:
    there = files_below(played.files)

    def back_up(done: CheckResult) -> None:
        if len(played.points()) < 5:
            played.back_up({**played.expected[played.points()[-1]], "a": f"as of {done.after}"})

    in_parts(played, monkeypatch, back_up)
    assert there <= set(read)


@pytest.mark.parametrize(
    "kind",
    [pytest.param(Played, id="without digests", marks=pytest.mark.slow), pytest.param(WithDigests, id="with digests")],
)
def test_a_check_that_is_stopped_each_time_reaches_the_end_of_a_round_and_loses_no_finding(
    kind: type[Played], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "BATCH_FILES", 1)
    monkeypatch.setattr(checking, "UNWRITTEN_BYTES", 1)
    played, store = kind(tmp_path), Store(of_directory(tmp_path), threading.Event())
    for text in "12":
        played.back_up(dict.fromkeys("abcde", text) | {"f": "the same"})
    first, second = played.points()
    for lost in (played.place(second, "a"), played.place(first, "e"), played.place(first, "f")):
        lost.unlink()
    found, runs = CheckResult("", "", 0), 0
    while found.part or not runs:
        stop, read = threading.Event(), list[int]()

        def on_progress(files: int, size: int, stop: threading.Event = stop, read: list[int] = read) -> None:
            read.append(files)
            if len(read) == 2:
                stop.set()

        where: Any = {"part": found.part, "after": found.after, "total": found.total}
        how: Any = {"share": 1.0, "known": found.damaged, "on_progress": on_progress}
        found, runs = checking.check(replace(store, stop=stop), ASSIGNMENT, **where, **how), runs + 1
        assert "a" in {each.path for each in found.damaged}, "at once"
        assert runs < 20
    assert {(each.path, each.point) for each in found.damaged} == {("a", second), ("e", first), ("f", second)}
    unknown = {(point, each.path) for point in (first, second) for each in played.entries(point) if not each.digest}
    assert unknown <= {(second, "a"), (first, "e"), (first, "f"), (second, "f")}


def test_a_stopped_check_passes_over_no_file_whose_digest_it_has_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "BATCH_FILES", 1)
    played, stop = Played(tmp_path), threading.Event()
    played.back_up({"a": "1", "b": "2"})
    store = Store(of_directory(tmp_path), stop)
    done = checking.check(store, ASSIGNMENT, **KNOWN, share=1.0, on_progress=lambda files, size: stop.set())
    assert (done.files, done.part, done.after) == (1, checking.NEWEST, "")
    assert check(played, part=done.part, after=done.after).filled == 2


@pytest.mark.parametrize("how", ["missing", pytest.param("shorter", marks=pytest.mark.slow), "other content"])
def test_what_is_wrong_is_named_with_the_first_and_the_last_point_that_hold_it(played: WithDigests, how: str) -> None:
    played.back_up({"a": "1", "c": "linked"})
    first, second, third = played.points()
    held = {"a": (third, second), "b": (second, first)}
    before = {path: (file := played.place(newest, path), file.read_text()) for path, (newest, _) in held.items()}
    for file, text in before.values():
        if how == "missing":
            file.unlink()
        else:
            file.write_text(text[:-1] if how == "shorter" else "?" * len(text))
    damaged = check(played).damaged
    assert {each.path: (each.point, each.oldest) for each in damaged} == held
    for damage in damaged:
        newest, oldest = held[damage.path]
        assert all(damage.touches(each) is (oldest <= each <= newest) for each in played.points())
        assert damage.points == f"{newest} and of all points before it since {oldest}"
    assert check(played, damaged).damaged == damaged
    for file, text in before.values():
        file.write_text(text)
    found = check(played, damaged)
    assert (found.damaged, sorted(found.mended)) == ([], ["a", "b"])


def put_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def put_link(file: Path) -> None:
    """To the very file, as a program makes it that saves space."""
    file.rename(other := file.with_name("elsewhere"))
    file.symlink_to(other)


def put_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


@pytest.mark.parametrize("put", [put_folder, put_link, put_pipe])
def test_what_is_not_a_file_any_more_is_damage_and_keeps_nothing_else_from_being_read(
    put: Callable[[Path], None], played: WithDigests
) -> None:
    first, second = played.points()
    put(played.place(second, "a"))
    played.place(first, "b").write_text("the sbme")
    damaged = check(played).damaged
    assert [(each.path, each.point) for each in damaged] == [("a", second), ("b", second)]
    assert damaged[0].why == NO_FILE
    assert check(played, damaged).damaged == damaged


def test_a_size_speaks_where_no_digest_is_known_and_a_manifest_gets_what_was_read(tmp_path: Path) -> None:
    played = Played(tmp_path)
    point = played.back_up({"a": "longer", "b": "text"})
    played.place(point, "a").write_text("short")
    [damage] = (found := check(played)).damaged
    assert (damage.path, damage.why) == ("a", "it has 5 bytes, and 6 were written")
    assert found.filled == 1
    digests = {each.path: (each.digest is not None, each.digest_from) for each in played.entries(point)}
    assert digests == {"a": (False, ""), "b": (True, "check")}
    played.place(point, "b").write_text("tex?")
    assert {each.path for each in check(played).damaged} == {"a", "b"}


def test_a_manifest_that_was_written_again_is_no_foreign_one(tmp_path: Path) -> None:
    played = WithDigests(tmp_path)
    for text in ("old", "new", "red"):
        played.back_up({"a": text, "b": "the same"})
    played.place(played.points()[0], "b").unlink()
    found = check(played)
    assert [(each.path, each.oldest) for each in found.damaged] == [("b", played.points()[0])]
    assert sorted(found.digests) == played.points()[1:]


def test_where_a_manifest_may_not_be_replaced_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(tmp_path)
    point = played.back_up({"a": "text"})
    before = played.manifest(point).read_bytes()

    def refuse(*_: object) -> None:
        raise StorageFailed("access denied")

    monkeypatch.setattr(Store, "put", refuse)
    found = check(played)
    assert (found.damaged, found.filled, list(found.digests)) == ([], 0, [point])
    assert played.manifest(point).read_bytes() == before


def test_known_damage_goes_with_its_points(played: WithDigests) -> None:
    third = played.back_up({"a": "2"})
    first, second, _ = played.points()
    played.place(first, "b").unlink()
    [damage] = check(played).damaged
    assert (damage.point, damage.oldest) == (second, first)
    removal.remove(stepped(played.root), ASSIGNMENT, [second])
    [damage] = check(played, [damage]).damaged
    assert damage.point == first
    removal.remove(stepped(played.root), ASSIGNMENT, [first])
    assert check(played, [damage]).damaged == []
    assert played.points() == [third]


def test_a_manifest_that_is_damaged_is_named_and_the_points_beside_it_are_read(played: WithDigests) -> None:
    played.back_up({"a": "2", "b": "the same"})
    first, second, third = played.points()
    played.place(first, "a").unlink()
    played.manifest(second).write_bytes(b"no manifest")
    damaged = check(played).damaged
    assert [(each.point, each.path, each.place == layout.MANIFESTS) for each in damaged] == [
        (second, f"manifests/{second}", True),
        (first, "a", False),
    ]
    assert check(played, damaged).damaged == damaged
    played.manifest(third).unlink()
    assert [each.point for each in check(played, damaged).damaged] == [second, first]


def test_a_dump_is_all_that_its_point_has(tmp_path: Path) -> None:
    played = Played(tmp_path)
    point = played.back_up({"database.dump": "x"}, is_dump=True)
    header = manifests.read_header(played.manifest(point))
    entries = played.entries(point)
    for engine, is_all in ("rclone", False), ("postgresql", True):
        manifests.write(played.manifest(point), replace(header, engine=engine), entries)
        (played.files / entries[0].place).unlink(missing_ok=True)
        assert [each.is_all for each in check(played).damaged] == [is_all]


def test_of_an_assignment_whose_folder_is_lost_each_point_is_named(tmp_path: Path) -> None:
    here, recorded = of_directory(tmp_path), ["20261121T065755Z", "20261122T065755Z"]
    for location in (here, encrypted(here), Location(str(tmp_path), str(tmp_path))):
        facts = {"part": "", "after": "", "total": 0, "share": 1.0, "known": [], "recorded": recorded}
        found = point_upkeep.check_files(location.as_json(), FOLDER, **facts)
        assert [(each["point"], each["why"]) for each in found["damaged"]] == [(each, GONE) for each in recorded]
