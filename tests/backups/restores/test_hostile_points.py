"""Points that another one has written who can write to the repository: nothing that they name is taken for a dump but
a file, and what loads it opens no file of this host."""

import os
import sqlite3
import tempfile
import threading
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import pytest

from engines.restores import drilling, loading
from engines.restores.drilling import DATABASES, DrillResult
from engines.restores.scratch import Scratch
from external.processes import runner
from external.processes.confinement import SYSTEM
from external.processes.runner import Command
from storage import layout
from storage.points.manifests import Entry
from storage.points.store import StorageFailed
from storage.restoring import into_folder
from storage.restoring.base import RestoreRefused, TargetFailed, Wish
from tests.engines.peers import USER, new_host_key, sftp_host, specification
from tests.storage.building import ASSIGNMENT, FILES, FIRST, Built

POINT = layout.name_of(FIRST)
DUMPS = {kind: each.FILES[0] for kind, each in DATABASES.items()}


@pytest.fixture
def built(tmp_path: Path) -> Built:
    return Built(tmp_path / "built")


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A database of this host that no source names."""
    file = tmp_path / "secret.sqlite"
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("CREATE TABLE root_hash (password)")
    return file


def drilled(built: Built, tmp_path: Path, kind: str) -> DrillResult:
    scratch = Scratch(str(tmp_path / "drills"), 0)
    return drilling.drill(built.store, ASSIGNMENT, scratch, source_kind=kind)


def claim(built: Built, kind: str, *entries: Entry) -> None:
    """A point whose manifest says that it holds these."""
    built.point(POINT, list(entries), engine="pg_dump", kind=kind)


@pytest.mark.parametrize("what", ["link", "folder"])
@pytest.mark.parametrize(("kind", "name"), DUMPS.items())
def test_a_link_or_a_folder_is_no_dump(
    kind: str, name: str, what: str, built: Built, secret: Path, tmp_path: Path
) -> None:
    below = built.folder / "repository" / ASSIGNMENT / f"files/{POINT}/{name}/toc.dat"
    below.parent.mkdir(parents=True)
    below.write_text("toc")
    folder = (Entry(name, "folder"), Entry(f"{name}/toc.dat", size=3))
    claim(built, kind, *([Entry(name, "link", target=str(secret))] if what == "link" else folder))
    found = drilled(built, tmp_path, kind)
    assert f"names {name} as a {what}" in found.error
    assert "root_hash" not in str(asdict(found))
    if kind == "sqlite":  # the others ask their server first
        source = specification(kind, path=str(tmp_path / "shop.sqlite"))
        wish = Wish(ASSIGNMENT, POINT, Path("new"))
        with pytest.raises(RestoreRefused, match=f"names {name} as a {what}"):
            DATABASES[kind].create(wish, built.store, source, tmp_path / "trees", lambda step: None)
        assert not (tmp_path / "new").exists()


def test_the_kind_of_a_point_is_what_we_know_of_its_source(built: Built, secret: Path, tmp_path: Path) -> None:
    (built.source / "database.sqlite").write_bytes(secret.read_bytes())
    built.back_up(fails=True)
    built.point(POINT, kind="sqlite")
    found = drilled(built, tmp_path, "local")
    assert (found.files, found.tables, found.error) == (1, {}, "")
    assert drilled(built, tmp_path, "sqlite").tables == {"root_hash": 0}
    assert drilled(built, tmp_path, "postgresql").error.startswith("the point holds no database.dump")


def test_what_came_back_is_opened_only_as_a_file(secret: Path, tmp_path: Path) -> None:
    """Whatever a program of the restore has made of it."""
    (tmp_path / "link").symlink_to(secret)
    (tmp_path / "zero").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("link", "zero", "pipe", "folder"):
        with pytest.raises((OSError, TargetFailed)), loading.opened(tmp_path, name):
            pass
        with pytest.raises((OSError, TargetFailed)):
            list(loading.lines_of(tmp_path, name))


@pytest.fixture
def confined() -> None:
    said = list[str]()
    runner.run(Command(("/bin/cat", "/etc/hostname"), readable=SYSTEM), stop=threading.Event(), on_line=said.append)
    if not said or "ermission" not in said[0]:
        pytest.skip("this kernel has no Landlock")
    return


@pytest.mark.usefixtures("confined")
def test_who_loads_a_dump_opens_no_other_file_of_this_host(secret: Path, tmp_path: Path) -> None:
    """Also where the worker is not root, and so the program runs as the worker."""
    (tmp_path / "link").symlink_to(secret)

    def said(*command: str, reads: int | None = None) -> str:
        lines = list[str]()
        how = loading.apart_from(command[0], None)
        runner.run(Command(command, reads=reads, **how), stop=threading.Event(), on_line=lines.append)
        return "\n".join(lines)

    for each in (secret, tmp_path / "link", f"/proc/self/root{secret}", f"/proc/{os.getpid()}/environ"):
        assert "ermission" in said("/bin/cat", str(each)), each
    assert "ermission" in said("/bin/sh", "-c", f"echo x > {tmp_path}/made")
    assert not (tmp_path / "made").exists()
    with loading.opened(tmp_path, secret.name) as descriptor:
        assert "root_hash" in said("/bin/cat", reads=descriptor)


@pytest.mark.slow
@pytest.mark.usefixtures("confined")
def test_a_copy_to_a_remote_finds_its_key_in_the_home_of_the_worker(
    built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built.write("a", "x")
    point = built.back_up()
    for each in ("home", "far", "scratch"):
        (tmp_path / each).mkdir()
    key = tmp_path / "key.pub"
    key.write_text(new_host_key(tmp_path / "home/key"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))  # which it may open whole
    with sftp_host(tmp_path / "far", f"--authorized-keys={key}") as host:
        facts = {"type": "sftp", "host": host.address, "port": host.port, "user": USER, "key_file": "~/key"}
        far = {f"RCLONE_CONFIG_FAR_{name.upper()}": str(value) for name, value in facts.items()}
        built.store.copy_out(FILES, "far:to", [f"{point}/a"], lambda files, size: None, environment=far)
    assert (tmp_path / f"far/to/{point}/a").read_text() == "x"


def with_a_file_of_this_host(built: Built, tmp_path: Path) -> tuple[str, Path]:
    """A point, and a folder of this host with a file that has name, size and time of one of it."""
    built.digests = False
    built.write("docs/shadow", "x" * 20)
    built.write("own", "y")
    host, times = tmp_path / "host/docs", (built.source / "docs/shadow").stat()
    host.mkdir(parents=True)
    (host / "shadow").write_text("root:$6$12345678:0:0")
    os.utime(host / "shadow", ns=(times.st_mtime_ns, times.st_mtime_ns))
    return built.back_up(), host


@pytest.mark.slow
@pytest.mark.usefixtures("confined")
def test_a_link_in_a_repository_brings_no_file_of_this_host_back(built: Built, tmp_path: Path) -> None:
    """Put a point there, as anyone who can write to such a share can."""
    point, host = with_a_file_of_this_host(built, tmp_path)
    docs = built.stored("docs/shadow").parent
    docs.rename(docs.with_name("away"))
    docs.symlink_to(host)
    wish = Wish(ASSIGNMENT, point, tmp_path / "to")
    report = into_folder.restore(wish, built.store, tmp_path / "trees")
    assert ((tmp_path / "to/own").read_text(), report.lost) == ("y", 1)
    assert not (tmp_path / "to/docs/shadow").exists()


@pytest.mark.slow
def test_a_folder_of_a_repository_that_a_link_leads_out_of_it_is_not_read(built: Built, tmp_path: Path) -> None:
    point, host = with_a_file_of_this_host(built, tmp_path)
    files = built.folder / "repository" / FILES
    files.rename(files.with_name("away"))
    (host.parent / point).symlink_to(host.parent)
    files.symlink_to(host.parent)
    with pytest.raises(StorageFailed, match="a link leads out of the repository"):
        into_folder.restore(Wish(ASSIGNMENT, point, tmp_path / "to"), built.store, tmp_path / "trees")
    assert not (tmp_path / "to/docs").exists()
