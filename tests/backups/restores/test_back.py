"""Restores to where it came from, with the real programs: SFTP, S3, WebDAV, a folder, PostgreSQL."""

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connection

from engines.base import SourceSpec
from engines.restores import postgresql, to_source
from storage.points.manifests import Entry
from storage.points.store import Store
from storage.restoring import base
from storage.restoring.base import Report, RestoreRefused, Wish
from tests.backups.restores.databases_here import alone_with_roles, database_of_the_tests
from tests.engines import peers
from tests.engines.peers import back_up as dump
from tests.storage.building import ASSIGNMENT, FILES, Built
from tests.storage.renaming_disk import renaming_disk

pytestmark = pytest.mark.slow


@pytest.fixture
def built(tmp_path: Path) -> Built:
    built = Built(tmp_path / "built")
    for name in ("docs/a", "docs/-dash", "docs/#hash", "top"):
        built.write(name, f"{name}, first")
    (built.source / "empty").mkdir()
    built.back_up()
    built.write("docs/a", "second")
    built.back_up()
    return built


@pytest.fixture(params=["sftp", "s3", "webdav", "local"])
def served(request: Any, tmp_path: Path) -> Iterator[tuple[SourceSpec, Path]]:
    """A source, and the folder that it really is."""
    folder = tmp_path / "served" / "photos"
    folder.mkdir(parents=True)
    with ExitStack() as stack:
        match request.param:
            case "sftp":
                yield stack.enter_context(peers.sftp_host(folder)), folder
            case "s3":
                yield stack.enter_context(peers.s3_bucket(folder.parent)), folder
            case "webdav":
                yield stack.enter_context(peers.webdav_share(folder)), folder
            case _:
                yield peers.local_folder(folder), folder


@contextmanager
def in_use(file: Path) -> Iterator[None]:
    """A file that can be neither replaced nor written: something is mounted on it. Skips the test where that is not
    permitted."""
    file.chmod(0o444)
    if subprocess.run(
        ["mount", "--bind", "-o", "ro", str(file), str(file)], check=False, capture_output=True
    ).returncode:
        pytest.skip("this account may not mount a file here")
    try:
        yield
    finally:
        subprocess.run(["umount", str(file)], check=True)


def put_back(built: Built, source: SourceSpec, target: str = "", store: Store | None = None, **wish: Any) -> Report:
    whole = Wish(ASSIGNMENT, wish.pop("point", built.points[0]), Path(target), **wish)
    return to_source.put_back(whole, store or built.store, source, built.folder / "cache", lambda step: None)


def contents(folder: Path) -> dict[str, str]:
    return {str(each.relative_to(folder)): each.read_text() for each in folder.rglob("*") if each.is_file()}


def first(built: Built) -> dict[str, str]:
    return contents(built.source) | {"docs/a": "docs/a, first"}


def test_a_source_gets_back_what_it_had(built: Built, served: tuple[SourceSpec, Path]) -> None:
    source, folder = served
    if source.kind in ("s3", "local"):
        if source.kind == "local":  # rclone's own servers show no line break as what it is
            built.write("docs/new\nline", "x")
        else:  # and that of buckets takes no such names
            for name in ("-dash", "#hash"):
                (built.source / "docs" / name).unlink()
        built.points.insert(0, built.points[0])
        built.write("docs/a", "docs/a, first")
        built.points[0] = built.back_up()
    (folder / "other").write_text("stays")

    before, report = (put_back(built, source, dry_run=each) for each in (True, False))
    assert before.not_set == report.not_set
    if source.kind == "sftp":
        assert "backups of sftp lack them: symbolic links; owners, groups and modes" in report.not_set[-1]
    assert contents(folder) == first(built) | {"other": "stays"}
    assert (report.files, report.failed, report.present) == (len(first(built)), [], 0)

    again = put_back(built, source)
    assert (again.files, again.present) == (0, len(first(built)))
    if source.kind != "s3":
        assert (folder / "empty").is_dir()

    time = (folder / "docs/a").stat().st_mtime + 1
    (folder / "docs/a").write_text("docs/a, fault")
    os.utime(folder / "docs/a", (time, time))
    assert put_back(built, source, overwrite=True).replaced == 1
    assert contents(folder) == first(built) | {"other": "stays"}

    (folder / "docs/a").write_text("changed since, of another length")
    (folder / "top").unlink()
    with pytest.raises(RestoreRefused, match=r"differs? from this point \(docs/a\)"):
        put_back(built, source)
    assert not (folder / "top").exists()
    put_back(built, source, target="beside", paths=("docs/a",))
    assert (folder / "beside/docs/a").read_text() == "docs/a, first"
    put_back(built, source, overwrite=True)
    assert {name: text for name, text in contents(folder).items() if name in first(built)} == first(built)


def test_a_killed_server_leaves_a_restore_that_goes_on(built: Built, tmp_path: Path) -> None:
    built.write("large", "0123456789" * 2_000_000)
    point = built.back_up()
    folder = tmp_path / "served"
    folder.mkdir()

    class Killing(Store):
        """The host loses its power when the first bytes are under way."""

        def copy_out(self, path: str, target: str, paths: Any, on_progress: Any, *options: str, **how: Any) -> None:
            stack.close()
            super().copy_out(path, target, paths, on_progress, *options, **how)

    with ExitStack() as stack:
        source = stack.enter_context(peers.sftp_host(folder))
        with pytest.raises(to_source.StorageFailed):
            put_back(built, source, point=point, store=Killing(built.location, threading.Event()))
    with peers.sftp_host(folder) as source:
        put_back(built, source, point=point)
    assert contents(folder) == contents(built.source)


@pytest.mark.parametrize("served", ["sftp"], indirect=True)
def test_what_has_another_name_there_or_is_large_goes_back_and_what_is_damaged_does_not(
    built: Built, served: tuple[SourceSpec, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(to_source, "SCRATCH_BYTES", 20)
    source, folder = served
    for name in ("docs/Top", "large", "renamed"):
        built.write(name, f"{name}, " * 20)
    files, point = built.folder / "repository" / FILES, built.back_up()
    moved = {"docs/Top": (f"{point}.2", "docs/Top"), "renamed": (f"{point}.0", "1")}
    for path, (run, stored) in moved.items():
        (files / run / stored).parent.mkdir(parents=True)
        built.stored(path).rename(files / run / stored)
    entries = [
        each._replace(folder=moved[each.path][0], stored=moved[each.path][1]) if each.path in moved else each
        for each in built.last.values()
    ]
    lacking = Entry("locked", size=3, why="permission denied")
    built.point(again := "20261121T060000Z", [*entries, lacking])
    built.stored("top").write_text("Top, first")
    (folder / "top").write_text("better than damaged")

    report = put_back(built, source, point=again, overwrite=True)

    assert (report.lost, report.missing) == (1, ["locked: permission denied"])
    assert [each.partition(":")[0] for each in report.failed] == ["top"]
    assert contents(folder) == contents(built.source) | {"top": "better than damaged"}


@pytest.mark.parametrize("served", ["sftp", "webdav"], indirect=True)
@pytest.mark.parametrize("large", [False, True])
def test_a_file_that_the_source_does_not_take_keeps_no_other_from_coming_back(
    built: Built, served: tuple[SourceSpec, Path], large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if large:
        monkeypatch.setattr(to_source, "SCRATCH_BYTES", 1)
    monkeypatch.setattr(to_source, "BATCH_FILES", 1)
    source, folder = served
    built.write("zuletzt", "the last one")
    (folder / "docs/a/in the way").mkdir(parents=True)
    (folder / "empty").write_text("no folder")
    report = put_back(built, source, point=built.back_up())
    assert (folder / "docs/a/in the way").is_dir()
    assert [each.partition(": ")[0] for each in report.failed] == ["docs/a", "empty"], report
    assert "there is a file of this name" in report.failed[1]
    assert contents(folder) == {k: v for k, v in contents(built.source).items() if k != "docs/a"} | {
        "empty": "no folder"
    }
    assert report.files == len(contents(built.source)) - 1


def test_each_file_that_does_not_come_back_is_named_once_and_no_other_is_blamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "KEPT_TEXTS", 2)
    built = Built(tmp_path / "built", digests=False)
    for name in ("a: b/1", "a: b/2", "way/1", "way/2", "w-ay/1"):
        built.write(name, name)
    point, folder = built.back_up(), tmp_path / "served"
    folder.mkdir()
    for name in ("a: b", "way"):
        (folder / name).write_text("no folder")
    with peers.sftp_host(folder) as source:
        report = put_back(built, source, point=point)
    assert [each.partition(": Failed")[0] for each in report.failed] == ["a: b/1", "a: b/2"]
    assert (report.failed_files, report.files, report.lost) == (4, 1, 0)


@pytest.mark.parametrize(
    ("served", "name"), [("sftp", "held"), ("sftp", "held" * 40), ("webdav", "held")], indirect=["served"]
)
def test_a_file_that_is_not_replaced_is_named_though_the_old_one_has_its_size(
    built: Built, served: tuple[SourceSpec, Path], name: str
) -> None:
    source, folder = served
    for each in (name, "other"):
        built.write(each, "new")
        (folder / each).write_text("old")
    point = built.back_up()
    with in_use(folder / name):
        report = put_back(built, source, point=point, paths=(name, "other"), overwrite=True)
        assert ((folder / name).read_text(), (folder / "other").read_text()) == ("old", "new")
    assert [each.partition(": ")[0] for each in report.failed] == [name], report
    assert (report.files, report.failed_files) == (1, 1)


def test_a_large_file_that_the_repository_has_damaged_is_not_one_that_the_source_does_not_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(to_source, "SCRATCH_BYTES", 1)
    built, folder = Built(tmp_path / "built", key="the key", digests=False), tmp_path / "served"
    built.write("damaged", "0123456789" * 30_000)
    point = built.back_up()
    [stored] = [
        each for each in built.folder.glob("repository/**/*") if each.is_file() and each.stat().st_size > 300_000
    ]
    stored.write_bytes(stored.read_bytes()[:-1] + b"?")
    folder.mkdir()
    with peers.sftp_host(folder) as source:
        report = put_back(built, source, point=point)
    assert (report.failed_files, report.lost, report.files) == (1, 1, 0), report


def test_a_server_that_keeps_two_names_as_one_is_found_holding_the_wrong_one(built: Built, tmp_path: Path) -> None:
    for name, text in (("a:b", "1st"), ("a_b", "2nd"), ("a?c", "only")):
        built.write(name, text)
    point = built.back_up()
    with renaming_disk(tmp_path / "renaming", "replaces") as disk, peers.sftp_host(disk) as source:
        put_back(built, source, point=point, paths=("a_b",))
        report = put_back(built, source, point=point, paths=("a:b", "a_b"), overwrite=True)
        held = (disk / "a_b").read_text()
        (disk / "a_b").write_text("1st")
        again = put_back(built, source, point=point, paths=("a:b", "a_b"), overwrite=True)
        alone = put_back(built, source, point=point, paths=("a?c",))
    wrong = {name for name, text in (("a:b", "1st"), ("a_b", "2nd")) if name == "a:b" or held != text}
    assert {each.partition(": ")[0] for each in report.failed} == wrong, report
    assert "a:b" in {each.partition(": ")[0] for each in again.failed}
    assert [each.partition(": ")[0] for each in alone.failed] == ["a?c"]


@pytest.mark.parametrize("served", ["sftp", "local"], indirect=True)
def test_an_encrypted_repository_gives_back_the_same(tmp_path: Path, served: tuple[SourceSpec, Path]) -> None:
    source, folder = served
    built = Built(tmp_path / "built", key="the key", digests=False)
    built.write("docs/" + "n" * 140, "content")
    built.back_up()

    put_back(built, source)

    assert contents(folder) == contents(built.source)


@pytest.mark.django_db(transaction=True)
@alone_with_roles()
def test_a_database_comes_back_under_a_new_name(tmp_path: Path) -> None:
    source = database_of_the_tests()
    built = Built(tmp_path / "built")
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE restore_test AS SELECT n, repeat('x', 100) AS text FROM generate_series(1, 1000) n"
        )
    try:
        result = dump(source, built.folder / "repository" / ASSIGNMENT)
        wish = Wish(ASSIGNMENT, result.snapshot.partition("/")[0], Path("shop2"))
        postgresql.create(wish, built.store, source, tmp_path / "cache", lambda step: None)
        with pytest.raises(RestoreRefused, match="there is a database 'shop2'"):
            postgresql.create(wish, built.store, source, tmp_path / "cache", lambda step: None)
        with pytest.raises(RestoreRefused):
            postgresql.create(replace(wish, target=Path(source.path)), built.store, source, tmp_path / "cache", print)
        with psycopg.connect(**connection.get_connection_params() | {"dbname": "shop2"}) as restored:
            rows = restored.execute("SELECT count(*), min(text) FROM restore_test").fetchone()
        assert rows == (1000, "x" * 100)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE restore_test")
            cursor.execute("DROP DATABASE IF EXISTS shop2")
