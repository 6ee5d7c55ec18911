"""The zoo: databases of MariaDB are backed up, drilled and restored under a new name; what differs was named."""

import dataclasses
import re
import threading
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import pytest

from engines.base import EngineResult, SourceSpec
from engines.mariadb.catalogue import MariadbCatalogue
from engines.restores import drilling, mariadb
from engines.restores.drilling import DrillResult
from engines.restores.maria.at_source import AtSource
from engines.restores.scratch import Scratch
from engines.restores.terms import Terms
from storage.places.location import of_directory
from storage.points.store import Store
from storage.restoring.base import Report, RestoreRefused, Wish
from tests.engines.mariadb_peer import MariadbServer, mariadb_server
from tests.engines.peers import back_up
from tests.engines.scratch_space import ACCOUNT
from tests.programs import needs_mariadb_client, needs_mariadb_server

pytestmark = [pytest.mark.slow, needs_mariadb_client, needs_mariadb_server]

ANIMALS = Path(__file__).with_name("mariadb_zoo")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariadbServer]:
    with mariadb_server(tmp_path_factory.mktemp("keys")) as running:
        yield running


@dataclasses.dataclass
class MariadbAnimal:
    """A database made by a file of SQL."""

    name: str
    server: MariadbServer
    folder: Path

    @cached_property
    def text(self) -> str:
        return (ANIMALS / f"{self.name}.sql").read_text()

    def make(self) -> None:
        how = "".join(re.findall(r"^-- database: (.*)$", self.text, re.MULTILINE))
        self.server.sql(f"SET NAMES utf8mb4; DROP DATABASE IF EXISTS {self.name}; CREATE DATABASE {self.name} {how}")
        self.server.sql(self.text, self.name)

    def said(self, word: str) -> set[str]:
        """The contents of a comment: objects that a restore has to name, or of which a backup has to warn."""
        return set(re.findall(rf"^-- {word}: (.*)$", self.text, re.MULTILINE))

    def source(self, user: str = "backup", secret: str | None = "") -> SourceSpec:
        given = {"secret": secret} if secret != "" else {}
        return self.server.source(path=self.name, options={"user": user}, **given)

    def back_up(self) -> EngineResult:
        (self.folder / "repository").mkdir()
        return back_up(self.source(), self.folder / "repository/copy")

    @property
    def store(self) -> Store:
        return Store(of_directory(self.folder / "repository"), threading.Event())

    def drill(self, scratch: Path) -> DrillResult:
        where = Scratch(str(scratch / "drills"), 0, account=ACCOUNT)
        return drilling.drill(self.store, "copy", where, source_kind="mariadb")

    def restore(
        self, point: str, target: str, source: SourceSpec | None = None, *, dry_run: bool = False, trusted: bool = False
    ) -> Report:
        wish = Wish("copy", point, Path(target), dry_run=dry_run)
        through_a_link = self.folder / "var"  # as to a larger disk
        if not through_a_link.is_symlink():
            through_a_link.symlink_to(self.folder)
        how = {"terms": Terms(trusted=trusted)}
        cache = through_a_link / "trees"
        return mariadb.create(wish, self.store, source or self.source(), cache, lambda step: None, **how)


MADE_WITH = "DEFINER, SQL_MODE, CHARACTER_SET_CLIENT, COLLATION_CONNECTION, DATABASE_COLLATION"
LISTED = {
    "VIEW": "TABLE_NAME, VIEW_DEFINITION, DEFINER, SECURITY_TYPE, CHECK_OPTION, CHARACTER_SET_CLIENT, "
    "COLLATION_CONNECTION",
    "TRIGGER": "TRIGGER_NAME, ACTION_STATEMENT, ACTION_TIMING, EVENT_MANIPULATION, EVENT_OBJECT_TABLE, ACTION_ORDER, "
    f"{MADE_WITH}",
    "ROUTINE": "ROUTINE_NAME, LOWER(ROUTINE_TYPE), ROUTINE_DEFINITION, DTD_IDENTIFIER, IS_DETERMINISTIC, "
    f"SQL_DATA_ACCESS, SECURITY_TYPE, ROUTINE_COMMENT, {MADE_WITH}",
    "EVENT": "EVENT_NAME, EVENT_DEFINITION, TIME_ZONE, EVENT_TYPE, EXECUTE_AT, INTERVAL_VALUE, INTERVAL_FIELD, STARTS, "
    f"ENDS, STATUS, ON_COMPLETION, EVENT_COMMENT, {MADE_WITH}",
    "SCHEMATA": "'', DEFAULT_CHARACTER_SET_NAME, DEFAULT_COLLATION_NAME, SCHEMA_COMMENT",
}
"""The objects of each kind that a server lists, the name first."""
SCHEMA_OF = {"VIEW": "TABLE_SCHEMA", "SCHEMATA": "SCHEMA_NAME"}


def described(server: MariadbServer, database: str) -> dict[str, str]:
    """Each object as its server lists it, and the rows of each table, with all its history."""

    def asked(sql: str) -> list[str]:
        return server.sql(f"SET NAMES utf8mb4; SET time_zone = '+00:00'; {sql}", database).splitlines()

    found = {}
    for line in asked("SHOW FULL TABLES"):
        name, kind = line.rsplit("\t", 1)
        if kind == "VIEW":
            continue
        quoted = f"`{name.replace('`', '``')}`"
        text = "\n".join(asked(f"SHOW CREATE TABLE {quoted}"))
        history = " FOR SYSTEM_TIME ALL" if "WITH SYSTEM VERSIONING" in text else ""
        rows = sorted(asked(f"SELECT * FROM {quoted}{history}"))
        word = "sequence" if kind == "SEQUENCE" else "table"
        found[f"{word} {name}"] = f"{text}{rows}".replace(f"`{database}`.", "`DATABASE`.")
    for kind, columns in LISTED.items():
        table, schema = kind if kind == "SCHEMATA" else f"{kind}S", SCHEMA_OF.get(kind, f"{kind}_SCHEMA")
        hexadecimal = ", ".join(f"HEX(CONCAT({each}))" for each in columns.split(", "))
        for line in asked(f"SELECT {hexadecimal} FROM information_schema.{table} WHERE {schema} = DATABASE()"):
            name, *facts = (bytes.fromhex(each) if each != "NULL" else None for each in line.split("\t"))
            texts = [each.decode().replace(f"`{database}`.", "`DATABASE`.") for each in facts if each is not None]
            word = texts[0] if kind == "ROUTINE" else kind.lower()
            found[f"{word} {(name or b'').decode()}"] = str(texts)
    return found


def differing(before: dict[str, str], after: dict[str, str]) -> dict[str, tuple[str | None, str | None]]:
    return {
        each: (before.get(each), after.get(each))
        for each in before.keys() | after.keys()
        if before.get(each) != after.get(each)
    }


def named_in(report: Report) -> set[str]:
    return {each.partition(": ")[0] for each in report.failed}


@pytest.mark.parametrize("name", sorted(file.stem for file in ANIMALS.glob("*.sql")))
def test_what_differs_was_named(name: str, server: MariadbServer, scratch: Path, tmp_path: Path) -> None:
    animal = MariadbAnimal(name, server, tmp_path)
    animal.make()
    result = animal.back_up()
    assert result.snapshot, result.error
    assert [each for each in animal.said("warned") if each not in "\n".join(result.warnings)] == []
    drilled = animal.drill(scratch)
    assert drilled.error == "", drilled
    server.sql(f"DROP DATABASE IF EXISTS `back%{name}`")
    report = animal.restore(result.snapshot, f"back%{name}")
    assert named_in(report) == animal.said("named"), report.failed
    found = differing(described(server, name), described(server, f"back%{name}"))
    assert found.keys() == animal.said("named") | animal.said("warned"), found
    assert "backupsched_" not in server.sql("SELECT User FROM mysql.user")


@pytest.fixture
def objects(server: MariadbServer, tmp_path: Path) -> tuple[MariadbAnimal, str]:
    """A database with views, triggers, routines and events, and the point of its backup."""
    animal = MariadbAnimal("objects", server, tmp_path)
    animal.make()
    return animal, animal.back_up().snapshot


def test_an_account_without_some_rights_restores_what_they_allow_and_names_the_rest(
    server: MariadbServer, objects: tuple[MariadbAnimal, str]
) -> None:
    animal, point = objects
    server.sql("""
        CREATE OR REPLACE USER lesser@'%' IDENTIFIED BY 'lesser'; GRANT CREATE USER ON *.* TO lesser@'%';
        GRANT SELECT ON mysql.* TO lesser@'%'; GRANT ALL ON `less%`.* TO lesser@'%' WITH GRANT OPTION;
        CREATE OR REPLACE USER least@'%' IDENTIFIED BY 'least'; GRANT ALL ON `least`.* TO least@'%';
        GRANT SELECT ON objects.* TO least@'%';
        CREATE OR REPLACE ROLE able; GRANT ALL ON *.* TO able WITH GRANT OPTION;
        CREATE OR REPLACE USER by_role@'%' IDENTIFIED BY 'by_role'; GRANT able TO by_role@'%';
        SET DEFAULT ROLE able FOR by_role@'%';
        DROP DATABASE IF EXISTS less; DROP DATABASE IF EXISTS least;
    """)
    foreseen = animal.restore(point, "less", animal.source("lesser", "lesser"), dry_run=True)
    assert foreseen.failed == ["the objects of root@localhost: the account lacks the right SET USER"]
    with pytest.raises(RestoreRefused, match="the account lesser@% may not create the database 'other'"):
        animal.restore(point, "other", animal.source("lesser", "lesser"), dry_run=True)
    assert not {"less", "other"} & {*server.sql("SHOW DATABASES").split()}
    assert animal.restore(point, "by_role", animal.source("by_role", "by_role"), dry_run=True).failed == []
    report = animal.restore(point, "less", animal.source("lesser", "lesser"))
    differs = differing(described(server, "objects"), described(server, "less")).keys()
    assert differs == named_in(report) == {
        "view a_over_view", "view b_over_function", "view odd `view", "trigger noted", "trigger second`one",
        "procedure tidy", "procedure of_oracle", "event nightly", "event asleep", "package tools", "package body tools",
        "function next_of", "function product",
    }, report.failed  # fmt: skip
    assert "trigger noted: error 1227: " in "".join(report.failed), report.failed
    file = Path(re.findall(r"\S+\.sql", report.elsewhere)[0])
    for _ in range(2):
        server.sql(file.read_text(), "less", "--force")
    assert differing(described(server, "objects"), described(server, "less")) == {}, "its statements are all it takes"
    for dry_run in (True, False):
        with pytest.raises(RestoreRefused, match="the dump would run with all rights of least@% at "):
            animal.restore(point, "least", animal.source("least", "least"), dry_run=dry_run)
    with pytest.raises(RestoreRefused, match=r"error 1227 at line \d+ of the dump, and nothing was kept"):
        animal.restore(point, "least", animal.source("least", "least"), trusted=True)
    assert "backupsched_" not in server.sql("SELECT User FROM mysql.user; SHOW DATABASES")


def test_a_disk_without_room_is_seen_before_the_dump_is_fetched_or_its_size_is_named(
    server: MariadbServer, objects: tuple[MariadbAnimal, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    animal, _ = objects
    (animal.folder / "repository").rename(tmp_path / "before")
    monkeypatch.setattr(MariadbCatalogue, "needs", {"bytes": 2**60})
    point = animal.back_up().snapshot
    for dry_run in (True, False):
        with pytest.raises(
            RestoreRefused, match=r"the database had [\d,]{17,} bytes, and the disk of .* free: make room there"
        ):
            animal.restore(point, "large", dry_run=dry_run)
    assert "large" not in server.sql("SHOW DATABASES").split()
    monkeypatch.setattr("socket.gethostname", lambda: "another-host")
    [said] = [each for each in animal.restore(point, "large", dry_run=True).not_set if "bytes" in each]
    assert said.endswith("cannot be seen from here")


def test_events_are_not_made_while_the_server_would_run_them(
    server: MariadbServer, objects: tuple[MariadbAnimal, str]
) -> None:
    animal, point = objects
    server.sql("SET GLOBAL event_scheduler = ON; DROP DATABASE IF EXISTS running")
    try:
        foreseen = animal.restore(point, "running", dry_run=True)
        assert named_in(foreseen) == {"event nightly", "event asleep"}, foreseen.failed
        report = animal.restore(point, "running")
        assert named_in(report) == {"event nightly", "event asleep"}, report.failed
    finally:
        server.sql("SET GLOBAL event_scheduler = OFF")


HOSTILE = r"""-- Host: localhost    Database: objects
USE elsewhere;
DROP TABLE elsewhere.precious;
USE nowhere;
DROP TABLE precious;
DROP TABLE xostile.precious;
GRANT ALL ON *.* TO 'backup'@'%';
CREATE USER evil@'%';
CREATE TABLE `t` (
  `n` int
);
INSERT INTO `t` VALUES (1);
INSERT INTO elsewhere.precious VALUES (2);
SELECT 1 INTO OUTFILE '/tmp/of_a_hostile_dump';
DELIMITER ;;
CREATE DEFINER=`root`@`localhost` PROCEDURE `a`() SELECT 1; DROP TABLE elsewhere.precious;;
/*!50003 CREATE*/ /*!50017 DEFINER=`r`@`r`*/ /*!999999 PROCEDURE `b`() */ /*!50003 TABLE elsewhere.b (n INT)*/;;
CREATE DEFINER=`root`@`localhost` PROCEDURE elsewhere.`c`() SELECT 1;;
CREATE DEFINER=`root`@`localhost` TRIGGER `d` BEFORE INSERT ON elsewhere.precious FOR EACH ROW SET @a = 1;;
CREATE FUNCTION `e` RETURNS INT SONAME 'ha_connect.so';;
CREATE DEFINER=`root`@`localhost` PROCEDURE `sound`() DROP TABLE elsewhere.precious;;
DELIMITER ;
CALL `sound`();
-- Dump completed on 2026-11-23
"""


def test_a_hostile_dump_reaches_nothing_but_its_own_database(server: MariadbServer, tmp_path: Path) -> None:
    ours = "SHOW GRANTS FOR 'backup'@'%'; SELECT User FROM mysql.user; SELECT name FROM mysql.func"
    server.sql("CREATE OR REPLACE DATABASE elsewhere; CREATE TABLE elsewhere.precious AS SELECT 1 AS n")
    server.sql("CREATE OR REPLACE DATABASE xostile; CREATE TABLE xostile.precious AS SELECT 1 AS n")
    before = server.sql(ours)
    (tmp_path / "dump").mkdir()
    (tmp_path / "dump/database.sql").write_text(HOSTILE)
    source = MariadbAnimal("objects", server, tmp_path).source()
    at_source = AtSource(source, Store(of_directory(tmp_path), threading.Event()))
    report = Report("point", "")
    loaded = mariadb._fill(at_source, "_ostile", tmp_path / "dump", report, "-")
    assert loaded.tables == {"`t`": 1}
    assert described(server, "elsewhere").keys() == {"table precious", "schemata "}
    assert server.sql("SELECT * FROM elsewhere.precious; SELECT * FROM xostile.precious") == "1\n1\n"
    assert server.sql(ours) == before
    assert described(server, "_ostile").keys() == {"table t", "procedure sound", "schemata "}
    assert not Path("/tmp/of_a_hostile_dump").exists()
