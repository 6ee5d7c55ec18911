"""`RECOVER.txt`, followed to the letter with nothing but rclone and a shell."""

import gzip
import re
import shutil
import subprocess
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Event

import pytest

from backups import repository_orders
from engines.base import EngineResult, Verdict
from storage import layout
from storage.places import remotes
from storage.places.location import Location, of_directory
from storage.points import copying, manifests
from storage.points.manifests import Entry, Header
from storage.points.store import Store
from storage.recover import instructions
from tests.engines.peers import PASSWORD, STARTED_AT, local_folder, task_for, tree, write_files
from tests.storage.building import ASSIGNMENT, Built, picture
from tests.storage.recovering import follow
from tests.storage.renaming_disk import renaming_disk
from tests.storage.repositories import KEY, encrypted, webdav

FIRST = {
    "note": "one",
    "was a file": "file",
    "was a folder/x": "folder",
    'q\'"u\\o\nte\\"': "odd",
    " #träume": "umlaut",
    "-rf": "dash",
    "sub/gone": "soon",
    "Read.me": "twin",
    "READ.ME": "other twin",
    "as/two": "one file",
    "dot.": "ends with a dot",
    f"{'long ' * 35}name": "too long where it is encrypted",
    "old \u2421 sign": "picture of a control character",
    "tick\u201b": "how rclone quotes",
    "caf\udce9/\udcff\u201b": "not UTF-8",
}


def back_up(files: Path, location: Location, days: int) -> EngineResult:
    started_at = STARTED_AT + timedelta(days=days)
    task = task_for(local_folder(files), Path("nas-7/nightly"), location=location, folder="nas-7/nightly")
    task = replace(task, started_at=started_at)
    return repository_orders.back_up(task, on_progress=lambda progress: None, stop=Event())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("is_remote", "is_encrypted"),
    [
        pytest.param(False, False, id="directory-plain"),
        pytest.param(False, True, id="directory-encrypted", marks=pytest.mark.promise),
        pytest.param(True, True, id="remote-encrypted"),
    ],
)
def test_a_person_gets_each_point_back_with_plain_rclone(is_remote: bool, is_encrypted: bool, tmp_path: Path) -> None:
    files, copies = write_files(tmp_path / "files", **FIRST), tmp_path / "it's copies"
    (files / "link").symlink_to("note")
    (files / "as/one").hardlink_to(files / "as/two")
    (files / "empty").mkdir(mode=0o750)
    (files / "note").chmod(0o640)
    copies.mkdir()
    with webdav(copies) if is_remote else nullcontext(of_directory(copies)) as location:
        if is_encrypted:
            location = encrypted(location)
        results, states = [back_up(files, location, days=0)], [picture(files)]
        for name in ("was a file", "was a folder/x", "sub/gone"):
            (files / name).unlink()
        (files / "was a folder").rmdir()
        write_files(files, note="two!", **{"was a folder": "now a file", "was a file/y": "now a folder"})
        (files / "link").unlink()
        (files / "link").symlink_to("was a folder")
        write_files(files, later="later")
        results, states = [*results, back_up(files, location, days=0)], [*states, picture(files)]
        assert {result.verdict for result in results} == {Verdict.SUCCEEDED}, results
        (recover,) = copies.rglob(layout.RECOVER)
        text = recover.read_text()
        followed = list(zip(results, states, strict=True))
        # a second for each step with a key; the last point has files of the first one under most of its names
        for result, state in followed[-1:] if is_encrypted else followed:
            target = tmp_path / f"restored-{result.snapshot}"
            (tmp_path / "key").write_text(KEY + "\n")
            choices = {"SOURCE": "nas-7/nightly", "POINT": result.snapshot, "TO": str(target)}
            said = follow(
                text,
                tmp_path,
                {name: value for name, value in location.environment.items() if "_BASE_" in name},
                **choices,
                **({"KEY_FILE": str(tmp_path / "key")} if is_encrypted else {}),
                **({n: v for n, v in location.environment.items() if "_BASE_" in n}),
            )
            assert picture(target) == state
            assert (target / "as/one").samefile(target / "as/two")
            assert all(each in said for each in ("nas-7/nightly", result.snapshot, '"modified":"', " READ.ME")), said
            assert "missing" not in said
        names = {path.name for path in copies.rglob("*")}
        assert ("note" in names, "nas-7" in names) == (not is_encrypted, not is_encrypted)
        assert PASSWORD not in text
        assert KEY not in text


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["upper-case", "decomposes", "replaces"])
def test_a_disk_that_changes_names_gives_each_file_back_to_plain_rclone(kind: str, tmp_path: Path) -> None:
    """A copy there keeps files under names that it lists otherwise: one option more finds them."""
    files = write_files(tmp_path / "files", note="one", **{"Sub/é": "two", "a:b": "three", "sub/x\ny": "four"})
    with renaming_disk(tmp_path / "renaming", kind) as disk:
        places = [of_directory(write_files(disk / name)) for name in ("First", "Copy")]
        made = back_up(files, places[0], days=0)
        assert made.verdict is Verdict.SUCCEEDED, made
        copying.copy(Store(places[0], Event()), Store(places[1], Event()), "nas-7/nightly")
        for number, place in enumerate(places):
            target = tmp_path / f"restored-{number}"
            choices = {"SOURCE": "nas-7/nightly", "POINT": made.snapshot, "TO": str(target)}
            text = instructions.text_of(place)
            assert "use `rclone copy --no-traverse`" in text
            if number:
                text = text.replace(" rclone copy --files-from-raw", " rclone copy --no-traverse --files-from-raw")
            assert "missing" not in follow(text, tmp_path, {}, **choices)
            assert picture(target) == picture(files)


def test_a_point_that_lacks_a_file_says_so_and_follows_no_path_out_of_its_folder(tmp_path: Path) -> None:
    text = instructions.text_of(of_directory(tmp_path))
    for folder in (layout.MANIFESTS, layout.FILES):
        (tmp_path / "nas-7/nightly" / folder).mkdir(parents=True)
    for number, path in enumerate(("lacking", "../../out", "/tmp/out")):
        point, target = f"2026112{number}T065755Z", tmp_path / f"restored-{number}"
        manifest = tmp_path / layout.manifest_path("nas-7/nightly", point)
        header = Header("nas", "local", "nightly", "rclone", "1", "", "")
        entry = Entry(path, why="it was not there") if path == "lacking" else Entry(path, "link", target="/etc")
        manifests.write(manifest, header, [entry])
        choices = {"SOURCE": "nas-7/nightly", "POINT": point, "TO": str(target)}
        if path == "lacking":
            assert "missing: lacking it was not there" in follow(text, tmp_path, {}, **choices)
        else:
            with pytest.raises(subprocess.CalledProcessError):
                follow(text, tmp_path, {}, **choices)
            assert list(target.iterdir()) == []


def flipped(stored: Path) -> None:
    stored.write_bytes(b"as at was")


def cut(stored: Path) -> None:
    stored.write_bytes(b"as")


def of_another(stored: Path) -> None:
    shutil.copyfile(stored.with_name("other"), stored)


@pytest.mark.parametrize("change", [flipped, cut, of_another])
def test_plain_rclone_names_a_file_that_is_not_as_it_was_backed_up(
    change: Callable[[Path], None], tmp_path: Path
) -> None:
    built = Built(tmp_path / "built")
    built.write("sub/a", "as it was")
    built.write("sub/other", "not so")
    point = built.back_up()
    change(built.stored("sub/a"))
    said = follow(
        instructions.text_of(built.location), tmp_path, {}, SOURCE=ASSIGNMENT, POINT=point, TO=str(tmp_path / "to")
    )
    assert [line for line in said.splitlines() if line.startswith("not as")] == ["not as it was backed up: sub/a"]


@pytest.mark.parametrize("kept", [slice(-2), slice(-1), slice(1, None)], ids=["two lines", "the last", "the first"])
def test_plain_rclone_stops_at_a_manifest_that_lacks_lines(kept: slice, tmp_path: Path) -> None:
    """One that is packed whole: `gunzip` itself reports any other."""
    built = Built(tmp_path / "built")
    built.write("a", "a")
    manifest = Path(built.location.at(layout.manifest_path(ASSIGNMENT, point := built.back_up())))
    lines = gzip.decompress(manifest.read_bytes()).splitlines(keepends=True)
    manifest.write_bytes(gzip.compress(b"".join(lines[kept])))
    choices = {"SOURCE": ASSIGNMENT, "POINT": point, "TO": str(tmp_path / "to")}
    with pytest.raises(subprocess.CalledProcessError):
        follow(instructions.text_of(built.location), tmp_path, {}, **choices)


@pytest.mark.parametrize("format", ["rclone", "restic"])
def test_it_says_how_each_kind_of_dump_becomes_a_database(format: str, tmp_path: Path) -> None:
    text = instructions.text_of(remotes.location_of(str(tmp_path), {}, {}, "5e" * 32, format=format))
    for name in (
        "database.dump, pg_restore of at least",
        "database.sql, the client mariadb",
        "database.sqlite, sqlite3 or",
    ):
        assert re.search(name, text), name


def test_a_repository_of_another_layout_is_left_as_it_is(tmp_path: Path) -> None:
    files, copies = write_files(tmp_path / "files", a="a"), write_files(tmp_path / "copies")
    (copies / layout.REPOSITORY).write_text('{"layout": 3}')
    result = back_up(files, of_directory(copies), days=0)
    assert result.verdict is Verdict.REPOSITORY_FAILED
    assert "layout version 3" in result.error
    assert tree(copies) == {layout.REPOSITORY: '{"layout": 3}'}
