"""A bit that falls is found, named, and mended as far as its content is to be had elsewhere."""

import contextlib
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from engines import engine_for
from engines.base import Verdict
from storage.places import remotes
from storage.places.location import Location
from storage.points import checking
from storage.points.checking import Checked, Damage
from storage.points.places import Wish
from storage.points.store import Store
from storage.restoring import restoring
from tests.engines.peers import STARTED_AT, local_folder, task_for
from tests.engines.test_probing import KEY, serving

FOLDER = "nas-7/nightly"


@dataclass
class Backed:
    """A local source, backed up by the engine; `files`: where what the repository holds lies on this host."""

    source: Path
    location: Location
    files: Path
    runs: int = 0

    @property
    def store(self) -> Store:
        return Store(self.location, threading.Event())

    def back_up(self, **files: str) -> str:
        for name, text in files.items():
            (self.source / name).write_text(text)
        self.runs += 1
        started_at = STARTED_AT + timedelta(days=self.runs)
        task = task_for(
            local_folder(self.source), self.files, location=self.location, folder=FOLDER, started_at=started_at
        )
        result = engine_for("local").run(task, on_progress=lambda progress: None, stop=threading.Event())
        assert result.verdict is Verdict.SUCCEEDED, (result.error, result.warnings)
        return result.snapshot

    def check(self, known: list[Damage] | None = None, part: str = "", after: str = "") -> Checked:
        return checking.check(self.store, FOLDER, part=part, after=after, total=0, share=1.0, known=known or [])

    def flip(self, folder: str, *, size: int) -> None:
        """One bit of the file of that size below a folder of the repository, size and time as before."""
        [file] = [each for each in (self.files / folder).rglob("*") if each.is_file() and each.stat().st_size == size]
        content, facts = bytearray(file.read_bytes()), file.stat()
        content[size // 2] ^= 1
        file.write_bytes(content)
        with contextlib.suppress(OSError):
            os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))

    def restored(self, point: str, target: Path) -> dict[str, str]:
        report = restoring.restore(Wish(FOLDER, point, target), self.store, target.with_name("cache"))
        assert report.failed == []
        return {each.name: each.read_text() for each in target.iterdir()}


@pytest.fixture
def plain(tmp_path: Path) -> Backed:
    (tmp_path / "source").mkdir()
    (tmp_path / "repository").mkdir()
    return Backed(
        tmp_path / "source",
        remotes.location_of(str(tmp_path / "repository"), {}, {}, None),
        tmp_path / "repository",
    )


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[Backed]:
    """An encrypted repository in a bucket."""
    (tmp_path / "source").mkdir()
    with serving("s3", tmp_path / "served") as (settings, secrets, path):
        location = remotes.location_of(path, settings, secrets, KEY)
        yield Backed(tmp_path / "source", location, tmp_path / "served")


@pytest.mark.slow
def test_a_flipped_bit_in_current_is_found_and_mended_by_the_next_backup(plain: Backed, tmp_path: Path) -> None:
    first = plain.back_up(a="a" * 1000, b="b")
    second = plain.back_up(b="bb")
    assert plain.check().damaged == []
    plain.flip(f"{FOLDER}/current", size=1000)
    found = plain.check()
    [damage] = found.damaged
    assert (damage.point, damage.path, damage.place) == (second, "a", "current")
    assert "its content has changed: SHA-256" in damage.why
    third = plain.back_up()
    assert (plain.files / FOLDER / "current/a").read_text() == "a" * 1000
    mended = plain.check(found.damaged)
    assert (mended.damaged, mended.mended) == ([], ["a"])
    for point, b in ((first, "b"), (second, "bb"), (third, "bb")):
        assert plain.restored(point, tmp_path / point) == {"a": "a" * 1000, "b": b}


@pytest.mark.slow
def test_many_damaged_files_are_given_another_time_at_once(plain: Backed, monkeypatch: pytest.MonkeyPatch) -> None:
    (plain.source / "below").mkdir()
    names = ["a", "below/b [c].txt", "below/ d\n"]
    plain.back_up(**{name: "x" * (number + 10) for number, name in enumerate(names)})
    for number, _ in enumerate(names):
        plain.flip(f"{FOLDER}/current", size=number + 10)
    started: list[str] = []
    run = Store.run
    monkeypatch.setattr(Store, "run", lambda *given, **more: (started.append(given[1]), run(*given, **more))[1])
    assert len(plain.check().damaged) == 3
    assert started.count("touch") == 1
    times = [(plain.files / FOLDER / "current" / name).stat().st_mtime for name in names]
    assert times == [datetime.fromisoformat(f"{checking.OTHER_TIME}Z").timestamp()] * 3


@pytest.mark.slow
def test_a_flipped_bit_in_versions_is_named_with_its_point_and_stays_known(plain: Backed) -> None:
    first = plain.back_up(a="a" * 1000, b="b")
    second = plain.back_up(a="x")
    plain.flip(f"{FOLDER}/versions", size=1000)
    found = plain.check()
    assert [(each.point, each.path, each.place) for each in found.damaged] == [(first, "a", f"versions/{second}")]
    (plain.files / FOLDER / "versions" / second / "a").unlink()
    again = plain.check(found.damaged)
    assert [(each.point, each.path) for each in again.damaged] == [(first, "a")]


@pytest.mark.slow
def test_a_flipped_bit_of_an_encrypted_bucket_is_found_and_mended(bucket: Backed, tmp_path: Path) -> None:
    first, point = bucket.back_up(a="a" * 1000, b="b"), bucket.back_up(b="bb")
    bucket.flip("vault/backups/encrypted", size=1000 + 48)
    found = bucket.check()
    assert [(each.point, each.path) for each in found.damaged] == [(point, "a")]
    assert "encrypted with another key" in found.damaged[0].why
    bucket.back_up()
    assert bucket.check(found.damaged).mended == ["a"]
    assert bucket.restored(first, tmp_path / first) == {"a": "a" * 1000, "b": "b"}


@pytest.mark.slow
def test_a_round_reads_each_file_once_however_it_is_divided(plain: Backed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "LEAST_BYTES", 1)
    monkeypatch.setattr(checking, "BATCH_FILES", 2)
    for number in range(4):
        plain.back_up(a=f"{number}", b=f"b{number // 2}", c="c", d="d")
    files = parts = 0
    done = checking.check(plain.store, FOLDER, part="", after="", total=0, share=1e-9)
    while True:
        files, parts = files + done.files, parts + 1
        if not done.part:
            break
        done = checking.check(plain.store, FOLDER, part=done.part, after=done.after, total=done.total, share=1e-9)
    lying = [each for each in (plain.files / FOLDER).glob("*/**/*") if each.is_file() and "manifests" not in each.parts]
    assert (files, parts) == (len(lying), 6)
