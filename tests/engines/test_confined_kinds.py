"""Every kind of source, by the process of a worker that may write to its repository and nowhere else: none of what an
engine and its programs write is refused."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from engines.base import SourceSpec
from external.processes import launcher
from external.processes.confinement import WITH_MOVES
from storage import layout
from storage.places import remotes
from storage.places.identity import Identity, digest_of
from storage.places.location import RCLONE, RESTIC
from tests.engines.mailboxes import dovecot
from tests.engines.mariadb_peer import mariadb_server
from tests.engines.peers import (
    PASSWORD,
    STARTED_AT,
    USER,
    local_folder,
    s3_bucket,
    serving,
    sftp_host,
    specification,
    task_for,
    webdav_share,
    write_files,
)
from tests.engines.postgresql_peer import EMBEDDED, postgresql_server
from tests.engines.restic_keys import make_empty
from tests.engines.samba_peer import samba
from tests.engines.swapped import Swapped, ordered
from tests.programs import needs_mariadb_client, needs_mariadb_server, needs_restic
from tests.storage.disks import ownerless_disk
from tests.storage.played_runs import ASSIGNMENT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(launcher.version() < WITH_MOVES, reason="this kernel has no Landlock, or its first version"),
]
KEY = "0123456789abcdef" * 4
TEXT = {"a.txt": "alpha", "deep/er/b.txt": "beta" * 1_000, "odd:name": "gamma"}


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporary files and a home have places of their own, the home one where nothing may be written."""
    for name, variable in (("tmp", "TMPDIR"), ("home", "HOME")):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(variable, str(tmp_path / name))


@contextmanager
def local(folder: Path) -> Iterator[SourceSpec]:
    yield local_folder(write_files(folder / "in", **TEXT))


@contextmanager
def sftp(folder: Path) -> Iterator[SourceSpec]:
    with sftp_host(write_files(folder / "in", **TEXT)) as source:
        yield source


@contextmanager
def s3(folder: Path) -> Iterator[SourceSpec]:
    write_files(folder / "in/photos", **TEXT)
    with s3_bucket(folder / "in") as source:
        yield source


@contextmanager
def webdav(folder: Path) -> Iterator[SourceSpec]:
    with webdav_share(write_files(folder / "in", **TEXT)) as source:
        yield source


@contextmanager
def ftp(folder: Path) -> Iterator[SourceSpec]:
    files = write_files(folder / "in", **TEXT)
    with serving("ftp", files, f"--user={USER}", f"--pass={PASSWORD}") as (address, port):
        settings = {"type": "ftp", "host": address, "port": port, "user": USER}
        yield specification("rclone", options=settings, secret=None, secrets={"pass": PASSWORD}, path="")


@contextmanager
def smb(folder: Path) -> Iterator[SourceSpec]:
    with samba(write_files(folder / "in", **TEXT)) as settings:
        yield specification("rclone", options=settings, secret=None, secrets={"pass": PASSWORD}, path="files")


@contextmanager
def imap(folder: Path) -> Iterator[SourceSpec]:
    with dovecot() as box:
        box.deliver("INBOX", b"From: a@example.org\r\n\r\nbody\r\n", os.urandom(2**20).hex().encode())
        yield box.source()


@contextmanager
def postgresql(folder: Path) -> Iterator[SourceSpec]:
    with postgresql_server(EMBEDDED) as server:
        server.run("CREATE DATABASE shop")
        server.run("CREATE TABLE t AS SELECT n FROM generate_series(1, 1000) n;; COMMENT ON TABLE t IS 'ü'", "shop")
        yield server.source()


@contextmanager
def mariadb(folder: Path) -> Iterator[SourceSpec]:
    (folder / "keys").mkdir()
    with mariadb_server(folder / "keys") as server:
        server.sql("DROP TABLE old", "shop")  # which has no transactions, and so makes a warning
        yield server.source(options={"user": "backup", "sslrootcert": str(server.certificate)})


@contextmanager
def sqlite(folder: Path) -> Iterator[SourceSpec]:
    """A database in use, with everything that counts in its log; its folder is reached by a link."""
    (folder / "data").mkdir()
    (folder / "linked").symlink_to(folder / "data")
    with closing(sqlite3.connect(folder / "data/shop.sqlite")) as database:
        database.execute("PRAGMA journal_mode = wal")
        database.execute("CREATE TABLE t (n)")
        database.commit()
        yield specification("sqlite", path=str(folder / "linked/shop.sqlite"), secret=None)


@contextmanager
def sqlite_left(folder: Path) -> Iterator[SourceSpec]:
    """A database whose program was killed: it has a log, and no index of it; it is itself a link."""
    with closing(sqlite3.connect(folder / "used.sqlite")) as database:
        database.execute("PRAGMA journal_mode = wal")
        database.execute("CREATE TABLE t (n)")
        database.commit()
        (folder / "left").mkdir()
        for each in ("", "-wal"):
            (folder / f"left/shop.sqlite{each}").write_bytes((folder / f"used.sqlite{each}").read_bytes())
    (folder / "shop.sqlite").symlink_to(folder / "left/shop.sqlite")
    yield specification("sqlite", path=str(folder / "shop.sqlite"), secret=None)


MARIADB = pytest.param(mariadb, marks=[needs_mariadb_client, needs_mariadb_server])
KINDS = (local, sftp, s3, webdav, ftp, smb, imap, postgresql, MARIADB, sqlite, sqlite_left)
FORMATS = {"plain": (None, RCLONE), "encrypted": (KEY, RCLONE), "restic": (KEY, RESTIC)}
FORMS = ["plain", "encrypted", pytest.param("restic", marks=needs_restic)]


class Repository:
    """One in a folder, of each format, and its orders."""

    def __init__(self, folder: Path, form: str, cache: Path) -> None:
        key, format = FORMATS[form]
        self.days = 0
        folder.mkdir(exist_ok=True)
        if format == RESTIC:
            make_empty(folder / RESTIC, KEY)
        self.location = remotes.location_of(str(folder), {}, {}, key, format=format, cache=str(cache / "restic"))
        self.ours = asdict(Identity("ours", "office", bool(key), digest_of(key) if key else "", format=format))

    def back_up(
        self, source: SourceSpec, staging: Path, kept: Callable[[Any], object] = lambda facts: True
    ) -> dict[str, Any]:
        self.days += 1
        at = STARTED_AT + timedelta(days=self.days)
        where = {"location": self.location, "folder": ASSIGNMENT, "staging": str(staging), "started_at": at}
        where["known"] = {}  # it asks before it makes anything
        task = asdict(task_for(source, Path(ASSIGNMENT), **where)) | {"location": self.location.as_json()}
        return ordered("back_up", kept, task=task, ours=self.ours)


@pytest.mark.parametrize("forms", [("plain", "encrypted"), pytest.param(("restic",), marks=needs_restic)], ids=" ".join)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_nothing_that_a_backup_writes_is_refused(
    kind: Callable[[Path], Any], forms: tuple[str, ...], tmp_path: Path
) -> None:
    with kind(tmp_path) as source:
        for form in forms:
            repository = Repository(tmp_path / form, form, tmp_path / "cache")
            for _ in range(2):
                done = repository.back_up(source, tmp_path / "var/staging")
                warned = [each for each in done["warnings"] if "skip_name_resolve" not in each]
                assert (done["error"], warned) == ("", []), (form, done)
    assert os.listdir(tmp_path / "home") == []


@pytest.mark.parametrize("form", FORMS)
def test_nothing_that_the_other_orders_write_is_refused(form: str, tmp_path: Path) -> None:
    first, second = (Repository(tmp_path / each, form, tmp_path / "cache") for each in ("office", "offsite"))
    source = local_folder(write_files(tmp_path / "in", **TEXT))
    points = [first.back_up(source, tmp_path / "var/staging") for _ in range(2)]
    names = [layout.point_of(each["snapshot"]) for each in points]
    known = {name: [each["manifest"]] for name, each in zip(names, points, strict=True)}
    where = {"location": first.location.as_json(), "folder": ASSIGNMENT}
    facts = {"newest": names[-1], "again": [], "damaged": {}, "bandwidth": "", "zone": "UTC", "reserve": 0.0}
    facts |= {"made": False, "known": known, "known_there": {}, "ours": second.ours}
    copied = ordered("copy_points", **where, **facts, target=second.location.as_json())
    assert copied["new"] == names, copied
    look = {"part": "", "after": "", "total": 0, "share": 1.0, "known": [], "recorded": names, "known_points": known}
    assert ordered("check_files", **where, **look)["damaged"] == []
    assert ordered("foreign_points", **where, known=known) == {"points": []}
    removed = ordered("remove_points", **where, points=names[:1], stay=names[1:], known=known)
    assert removed["points"] == names[:1], removed
    if form == "restic":
        ordered("prune", **where)
    assert ordered("remove_folder", **where, ours=first.ours, known=known)["points"] == names[1:]


@pytest.mark.parametrize("form", FORMS)
def test_a_repository_on_a_file_system_in_user_space_is_written_and_a_link_there_leads_nowhere(
    form: str, tmp_path: Path
) -> None:
    source = local_folder(write_files(tmp_path / "in", **TEXT))
    with ownerless_disk(tmp_path / "stick", "--links") as disk:
        repository = Repository(disk / "office", form, tmp_path / "cache")
        points = [repository.back_up(source, tmp_path / "var/staging") for _ in range(2)]
        assert [each["verdict"] for each in points] == ["succeeded"] * 2, points
        where = {"location": repository.location.as_json(), "folder": ASSIGNMENT}
        name, left = (layout.point_of(each["snapshot"]) for each in points)
        assert ordered("remove_points", **where, points=[name], stay=[left])["points"] == [name]
        if form != "restic":  # which makes no folder for a run
            swapped = Swapped(repository.location, "files/RUN", tmp_path / "victim")
            done = repository.back_up(source, tmp_path / "var/staging", kept=swapped)
            assert swapped.link.is_symlink()
            assert "succeeded" not in done["verdict"], done
            assert os.listdir(tmp_path / "victim") == []
