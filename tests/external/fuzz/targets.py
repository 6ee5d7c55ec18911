"""Readers of what outsiders wrote, each with valid input of its own, for the fuzz to change."""

import gzip
import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from engines.base import RunEnded
from engines.mariadb import reading
from engines.rclone import reported_digests
from engines.rclone.listing import Listing, list_remote
from engines.rclone.log import RcloneLog
from engines.rclone.verdicts import judge
from engines.restic.engine import ResticProgress
from engines.restores import mariadb
from engines.restores.maria import statements
from engines.restores.pg import databases, roles
from external.processes.orders import NoAnswer, Order
from external.processes.rows import rows_in, texts
from external.processes.runner import EndReason, ProgramEnd
from external.processes.serving import Program
from storage import layout
from storage.places import identity
from storage.places.identity import Identity, RepositoryRefused
from storage.places.rclone import rows_to
from storage.points import manifest_index, manifests
from storage.points.manifests import Entry, Header, ManifestDamaged
from storage.points.sorted_items import SortedItems
from storage.points.store import StorageFailed, Store
from storage.points.trees import Tree
from storage.restic import listing, snapshots
from storage.restic.program import Restic
from storage.restic.snapshots import Snapshot
from storage.restic.verdicts import problem_of
from tests.engines.peers import specification
from tests.external.fuzz.mutations import Mutation


@dataclass
class Folder:
    """Takes a store's place, without a process."""

    root: Path

    def fetch(self, path: str, file: Path) -> bool:
        file.write_bytes((self.root / path).read_bytes())
        return True

    def check_stop(self) -> None:
        pass


@dataclass
class Printing:
    """Takes restic's place: prints what it is given for each verb."""

    printed: dict[str, bytes]

    def run(self, verb: str, *arguments: str, on_line: Callable[[str], None] = lambda line: None, **_: Any) -> int:
        name = f"{verb} --long" if "--long" in arguments else verb
        each_line(self.printed.get(name, b""), on_line)
        return 0


HEADER = Header("anna", "local", "daily", "rclone", "1.75", "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z")
ENTRIES = (
    Entry("a", "folder"), Entry("a/é\n", "file", 3, "2026-01-01T00:00:00Z", 0o644, "", "ab" * 32, "copy"),
    Entry("b", "link", 1, "2026-01-01T00:00:00.5Z", None, "a"),
)  # fmt: skip
SNAPSHOT = Snapshot("f" * 64, "2026-01-01T00:00:00.5+01:00", {"source": "anna", "point": "p", "assignment": "a"})
LS = b"""{"time":"2026-01-01T00:00:00Z","tree":"0123","paths":["/"],"struct_type":"snapshot"}
{"name":"a","type":"dir","path":"/a","uid":0,"gid":0,"mode":2147484141,"mtime":"2026-01-01T00:00:00.123+01:00"}
{"name":"b","type":"file","path":"/a/b","size":12,"mode":420,"mtime":"2026-01-01T00:00:00Z"}
{"name":"l","type":"symlink","path":"/l","mode":134218239,"mtime":"2026-01-01T00:00:00Z"}
"""
LONG = b"Lrwxrwxrwx     0     0      0 2026-01-01 00:00:00 /l -> a/b\n"
LISTED = json.dumps([
    {"time": SNAPSHOT.time, "id": "f" * 64, "tags": ["assignment=a-1/daily", "point=20260101T000000Z", "source=anna"]},
    {"time": SNAPSHOT.time, "id": "e" * 64, "tags": ["assignment=a-1/daily", "incomplete=20260101T000000Z"]},
]).encode()  # fmt: skip
RESTIC = b"""{"message_type":"status","total_files":9,"files_done":4,"total_bytes":9,"current_files":["/a"]}
{"message_type":"error","error":{"Op":"open","Path":"/a","Err":13},"during":"archival","item":"/a"}
{"message_type":"summary","files_new":1,"files_changed":0,"files_unmodified":0,"snapshot_id":"ab"}
"""
RCLONE = b"""{"level":"error","msg":"Failed to copy: permission denied","object":"a","objectType":"*local.Object"}
{"level":"notice","msg":"x - ignoring","object":"b","objectType":"string"}
{"level":"notice","msg":"","stats":{"bytes":5,"totalBytes":9,"eta":null,"transferring":[{"name":"a","bytes":3}]}}
panic: x
"""
ROWS = b"""[
{"Path":"a","Name":"a","Size":-1,"ModTime":"2026-01-01T00:00:00Z","IsDir":true},
{"Path":"a/b","Name":"b","Size":3,"ModTime":"2026-01-01T00:00:00Z","IsDir":false}
]
"""
SHARE = ROWS.replace(b'"IsDir":false', b'"IsDir":false,"Hashes":{"sha1":"abcd","md5":""}')
FEATURES = b"""{"Name":"a","Root":"/","Precision":1000000000,"Hashes":["md5","sha1"],"Features":{"About":true}}"""
OF_DATABASE = b"""{"encoding":"UTF8","columns":{"datcollate":"C","datctype":"C","datlocprovider":"i","datlocale":"de",
"datconnlimit":5,"datistemplate":true},"owner":"anna","tablespace":"pg_default","comment":"x",
"rights":[{"role":"bob","right":"CONNECT","may_grant":false}],
"settings":[{"role":"bob","values":["search_path=a, b"]}],
"needs":{"version":180000,"bytes":7,"extensions":["citext"],"collations":[{"schema":"public","name":"de",
"provider":"i"}],"tablespaces":[],"event_triggers":[],"subscriptions":[]}}
"""
GLOBALS = b"""CREATE ROLE anna;
ALTER ROLE anna WITH NOSUPERUSER INHERIT LOGIN CONNECTION LIMIT 5 PASSWORD 'S$4096:a' VALID UNTIL 'infinity';
ALTER ROLE anna SET search_path TO 'a', 'b';
GRANT anna TO bob WITH ADMIN OPTION, INHERIT TRUE GRANTED BY postgres;
COMMENT ON ROLE anna IS 'o''hara';
"""
MARIADB = b"""SET time_zone = '+00:00';
CREATE TABLE `a` (
  `b` int
) WITH SYSTEM VERSIONING;
INSERT INTO `a` VALUES (1,'x\\'('),(2,'y');
DELIMITER ;;
/*!50003 CREATE*/ /*!50017 DEFINER=`root`@`%`*/ /*!50003 TRIGGER `t` BEFORE INSERT ON `a` FOR EACH ROW DO 1 */;;
DELIMITER ;
/*!50001 VIEW `v` AS select 1 */;
-- Dump completed
"""
OF_MARIADB = b"""{"charset":"utf8mb4","collation":"utf8mb4_bin","comment":"x"}"""
ANSWERS = b"""{"files":3,"size":9}
{"keep":{"point":"p","digest":"d"}}
{}
{"raised":"failed","with":["text",3]}
{"answer":{"verdict":"succeeded","snapshot":"p"}}
{"unknown":"work"}
"""


def lines_of_manifest(folder: Path) -> bytes:
    manifests.write(folder / "sample", HEADER, ENTRIES)
    return gzip.decompress((folder / "sample").read_bytes())


def each_line(data: bytes, *takers: Callable[[str], object]) -> None:
    for line in data.decode(errors="replace").split("\n"):
        for take in takers:
            take(line)


def sealed(data: bytes) -> bytes:
    """A manifest of these lines with a digest that is right."""
    *lines, _ = data.splitlines(keepends=True) or [b""]
    body = b"".join(lines)
    rows = lines[1:]
    folders = sum(b'"folder"' in row for row in rows)
    trailer = {"files": len(rows) - folders, "size": 4, "folders": folders, "sha256": hashlib.sha256(body).hexdigest()}
    return gzip.compress(body + json.dumps(trailer).encode() + b"\n")


def read_manifest(data: bytes, folder: Path) -> None:
    (file := folder / "manifest").write_bytes(data)
    for read in (manifests.read_header, lambda it: [*manifests.read(it)], lambda it: manifests.find(it, "a/b")):
        try:
            read(file)
        except ManifestDamaged:
            continue
    (made := folder / "index").unlink(missing_ok=True)
    try:
        manifest_index.index(file, made, cast("Store", Folder(folder)))
    except ManifestDamaged:
        return
    tree = Tree(made)
    [*tree.below(""), *tree.exceptions(), *tree.folder(), tree.total()]
    tree.close()


def read_identity(data: bytes, folder: Path) -> None:
    (folder / layout.REPOSITORY).write_bytes(data)
    try:
        if found := identity.read(cast("Store", Folder(folder))):
            identity.check(found, OURS)
    except RepositoryRefused:
        return


OURS = Identity("0123", "office")


def read_snapshots(data: bytes, folder: Path) -> None:
    restic = cast("Restic", Printing({"snapshots": data}))
    try:
        for each in snapshots.snapshots(restic, "a-1/daily"):
            listing.header_of(each)
        snapshots.repository_of(restic)
    except StorageFailed:
        return


def read_listing(ls: bytes, long: bytes, folder: Path) -> None:
    try:
        listing.write_manifest(cast("Restic", Printing({"ls": ls, "ls --long": long})), SNAPSHOT, folder / "made")
    except StorageFailed:
        return
    [*manifests.read(folder / "made")]


def read_restic_log(data: bytes, folder: Path) -> None:
    each_line(data, ResticProgress(lambda done: None).take, problem_of)


def read_rclone_log(data: bytes, folder: Path) -> None:
    log = RcloneLog()
    each_line(data, log.take)
    judge(1, log, "/srv/backups")


def read_rows(data: bytes, folder: Path) -> None:
    try:
        each_line(data, rows_to(lambda row: None))
    except StorageFailed:
        return


def read_share(data: bytes, folder: Path) -> None:
    """Entries of a listing can be written as a point, and read again."""

    def ask(arguments: tuple[str, ...], on_line: Callable[[str], None]) -> Any:
        each_line(data, on_line)
        return judge(0, RcloneLog(), "/srv/backups")

    with SortedItems[Any]() as found:
        listing = Listing(found)
        try:
            list_remote(listing, specification("webdav", "share"), {}, ask)
        except RunEnded:
            return
        entries = {each[0]: Entry(*each[2]) for each in found}
        entries |= {path: Entry(path, why=why) for path, why in listing.exceptions.items() if path}
        manifests.write(folder / "made", HEADER, (entries[path] for path in sorted(entries)))
    [*manifests.read(folder / "made")]


def read_features(data: bytes, folder: Path) -> None:
    def ask(arguments: tuple[str, ...], on_line: Callable[[str], None]) -> Any:
        on_line(data.decode(errors="replace"))
        return judge(0, RcloneLog(), "/srv/backups")

    reported_digests.offered(specification("webdav", "share"), ask)


def read_database(data: bytes, folder: Path) -> None:
    if found := databases.of_file(data.decode(errors="replace").splitlines(keepends=True)):
        for each in (*(found.rights or ()), *(found.settings or ())):
            assert isinstance(each.get("role") or "", str)
            texts(each, "values")
        [*texts(found.needs, "extensions"), *rows_in(found.needs, "collations")]


def read_globals(data: bytes, folder: Path) -> None:
    roles.foreseen(data.decode(errors="replace").splitlines(), {"bob"})


def read_mariadb(data: bytes, folder: Path) -> None:
    (file := folder / "database.sql").write_bytes(data)
    with file.open("rb") as dump:
        reading.read(dump)
        dump.seek(0)
        statements.statements_at(dump, range(20))


def read_of_mariadb(data: bytes, folder: Path) -> None:
    (folder / mariadb.PROPERTIES).write_bytes(data)
    texts(mariadb.given(folder).get("needs") or {}, "engines")


def read_answers(data: bytes, folder: Path) -> None:
    order = Order(Program("x", {}, {"failed": StorageFailed}), "work", {})
    each_line(data, order.on_line)
    try:
        order.answer(ProgramEnd(EndReason.EXITED, 0, ("x",)))
    except (NoAnswer, StorageFailed):
        return


PARSERS: dict[str, Callable[[Mutation, Path], None]] = {
    "packed manifest": lambda change, at: read_manifest(change(gzip.compress(lines_of_manifest(at))), at),
    "manifest": lambda change, at: read_manifest(gzip.compress(change(lines_of_manifest(at))), at),
    "sealed manifest": lambda change, at: read_manifest(sealed(change(lines_of_manifest(at))), at),
    "repository.json": lambda change, folder: read_identity(change(json.dumps(asdict(OURS)).encode()), folder),
    "restic snapshots": lambda change, folder: read_snapshots(change(LISTED), folder),
    "restic ls": lambda change, folder: read_listing(change(LS), LONG, folder),
    "restic ls --long": lambda change, folder: read_listing(LS, change(LONG), folder),
    "restic's log": lambda change, folder: read_restic_log(change(RESTIC), folder),
    "rclone's log": lambda change, folder: read_rclone_log(change(RCLONE), folder),
    "rclone lsjson": lambda change, folder: read_rows(change(ROWS), folder),
    "a share": lambda change, folder: read_share(change(SHARE), folder),
    "rclone backend features": lambda change, folder: read_features(change(FEATURES), folder),
    "database.json": lambda change, folder: read_database(change(OF_DATABASE), folder),
    "globals.sql": lambda change, folder: read_globals(change(GLOBALS), folder),
    "dump of MariaDB": lambda change, folder: read_mariadb(change(MARIADB), folder),
    "properties of MariaDB": lambda change, folder: read_of_mariadb(change(OF_MARIADB), folder),
    "answers of a child": lambda change, folder: read_answers(change(ANSWERS), folder),
}
