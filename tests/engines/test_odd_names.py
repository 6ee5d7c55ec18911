"""Files with odd names in a repository on a server: each comes back under its own name, with its own content."""

import os
from datetime import timedelta
from pathlib import Path
from threading import Event

import pytest

from engines.base import EngineResult, Verdict
from storage import layout
from storage.points import checking, manifests, removal, runs
from storage.points.store import Store
from storage.recover import instructions
from storage.restoring.base import Wish
from storage.restoring.into_folder import restore
from tests.engines.locations import SERVED, location_of
from tests.engines.peers import STARTED_AT, local_folder, run, task_for
from tests.storage.recovering import follow

FOLDER = "nas-7/nightly"
NAMES = (
    *(b" leading", b"trailing ", b"dots./x", b"dots../x", b"name.", b"...", b"..name", b"~", b"-rf", b"--exclude"),
    *(b"new\nline", b"cr\r", b"tab\t", b"\x01", b"\x7f", b"a:b", b"a\\b", b'q*?<>|"', b"[br]", b"{a,b}", b"**", b"nul"),
    *(b"%", b"%2F", b"%00", b"100%25", b"#hash", b"?q=1", b"&", b"+plus", b"; semi", b"'q'", b"$HOME", b"`id`"),
    *(b"\xff\xfe", b"caf\xe9/x", b"n" * 255, "é".encode() * 127, "😀".encode() * 63, b"p" * 200 + b"/" + b"q" * 250),
    *("\u201bFF".encode(), "\u201b\u201bx".encode(), "\u240a".encode(), "\uff0e".encode(), "x/\uff0e\uff0e/y".encode()),
    *("\u00e9".encode(), b"e\xcc\x81", b"case/x", b"Case/x", b"CASE", "\u00df".encode(), b"ss", "\u202ertl".encode()),
    *(b"files/20261121T065755Z/x", b"manifests/20261121T065755Z.jsonl.gz", b"repository.json", b"RECOVER.txt", b"lock"),
    *(b"20261121T065755Z.0/x", b"x.0123abcd.rclone-partial", b"incoming/x", b"x.rclonelink", b"x.partial", b"a.new"),
)


def fill(top: Path) -> None:
    for number, name in enumerate(NAMES):
        path = os.path.join(os.fsencode(top), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Path(os.fsdecode(path)).write_bytes(b"%d" % (number + 100))  # all of one size


def content(top: Path) -> dict[bytes, bytes]:
    found = {}
    for folder, _, files in os.walk(os.fsencode(top)):
        for path in (os.path.join(folder, each) for each in files):
            found[os.path.relpath(path, os.fsencode(top))] = Path(os.fsdecode(path)).read_bytes()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", SERVED)
def test_each_name_comes_back_from_a_server_also_after_an_older_point_is_gone(kind: str, tmp_path: Path) -> None:
    source, repository = tmp_path / "source", tmp_path / "repository"
    fill(source)
    repository.mkdir()
    with location_of(kind, repository) as location:
        store = Store(location, Event())

        def backed_up(day: int) -> EngineResult:
            started = STARTED_AT.replace(year=2100) + timedelta(days=day)
            return run(task_for(local_folder(source), tmp_path, location=location, folder=FOLDER, started_at=started))

        first, again = backed_up(0), backed_up(1)
        assert (first.verdict, first.new) == (Verdict.SUCCEEDED, len(NAMES)), first
        assert (again.verdict, again.unchanged, again.added) == (Verdict.SUCCEEDED, len(NAMES), 0), again
        before = content(source)
        for name in NAMES[::2]:
            Path(os.fsdecode(os.path.join(os.fsencode(source), name))).write_bytes(b"new")
        newest = backed_up(2)
        assert (newest.changed, newest.unchanged) == (len(NAMES[::2]), len(NAMES[1::2])), newest
        for point, wanted in ((first.snapshot, before), (newest.snapshot, content(source))):
            report = restore(Wish(FOLDER, point, tmp_path / point), store, tmp_path / "cache")
            assert (report.failed, content(tmp_path / point)) == ([], wanted)
        assert checking.check(store, FOLDER, part="", after="", total=0, share=1.0).damaged == []
        removal.remove(store, FOLDER, [first.snapshot, again.snapshot])
        assert runs.points(store, FOLDER) == [newest.snapshot]
        restore(Wish(FOLDER, newest.snapshot, tmp_path / "last"), store, tmp_path / "cache")
        assert content(tmp_path / "last") == content(source)
        way = {name: value for name, value in location.environment.items() if "_BASE_" in name}
        choices = {"SOURCE": FOLDER, "POINT": newest.snapshot, "TO": str(tmp_path / "by hand")}
        assert "missing" not in follow(instructions.text_of(location), tmp_path, way, **choices, **way)
        assert content(tmp_path / "by hand") == content(source)
        assert store.manifest(FOLDER, newest.snapshot, tmp_path / "manifest")
        named = {each.place for each in manifests.read(tmp_path / "manifest") if each.folder}
        assert set(store.sizes(layout.files_path(FOLDER))) == named
