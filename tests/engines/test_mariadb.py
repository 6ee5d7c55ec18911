"""The mariadb_dump engine, its drills and restores, against a real server; and what can go wrong."""

import dataclasses
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from engines.at_repositories import questions
from engines.base import EngineProgress, EngineResult, RunEnded, SourceSpec, Verdict
from engines.mariadb import engine, lock_limit
from engines.restores import drilling, mariadb
from engines.restores.scratch import Scratch
from external.processes.programs import find_mariadb_program
from sources.availability.probes import ask_now
from sources.models import Source
from storage.places.location import Location, of_directory
from storage.points import manifests
from storage.points.store import StorageFailed, Store
from storage.restoring.base import Report, RestoreRefused, Wish
from tests.engines.dumps import dumps_in
from tests.engines.mariadb_peer import MariadbServer, mariadb_server
from tests.engines.peers import free_port, run, small_disk, task_for
from tests.engines.scratch_space import ACCOUNT
from tests.processes import below
from tests.programs import needs_mariadb_client, needs_mariadb_server
from tests.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.slow, needs_mariadb_client, needs_mariadb_server]

POINT = "20261121T065755Z"
ROWS = {"`article`": 3, "`empty`": 0, "`odd ``(na) me`": 2, "`old`": 1}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariadbServer]:
    """One for all that leave it alive."""
    with mariadb_server(tmp_path_factory.mktemp("certificate")) as found:
        yield found


def dump(source: SourceSpec, destination: Path, *how: Any, **fields: Any) -> EngineResult:
    destination.parent.mkdir(exist_ok=True)
    return run(task_for(source, destination, **fields), *how)


def contents(server: MariadbServer, database: str) -> dict[str, str]:
    """The contents of a database, table by table, and its views, routines, triggers and events."""

    def described(what: str, words: str, of: str) -> str:
        return server.sql(f"SELECT {words} FROM information_schema.{what}S WHERE {of}_SCHEMA = '{database}'")

    def table(name: str) -> str:
        quoted = f"`{name.replace('`', '``')}`"
        return server.sql(f"SELECT * FROM {quoted}; SHOW CREATE TABLE {quoted}", database)

    kinds = dict(line.split("\t") for line in server.sql("SHOW FULL TABLES", database).splitlines())
    return {name: table(name) for name, kind in kinds.items() if kind == "BASE TABLE"} | {
        "all": str(kinds),
        "known": server.sql("SELECT * FROM known", database),
        "triggers": described("TRIGGER", "TRIGGER_NAME, ACTION_STATEMENT, DEFINER", "TRIGGER"),
        "routines": described("ROUTINE", "ROUTINE_NAME, ROUTINE_DEFINITION, DEFINER", "ROUTINE"),
        "events": described("EVENT", "EVENT_NAME, EVENT_DEFINITION, DEFINER", "EVENT"),
        "collation": server.sql("SELECT @@collation_database", database),
    }


def test_a_dump_is_drilled_and_comes_back_under_a_new_name_table_by_table(
    server: MariadbServer, tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, copy = server.source(), tmp_path / "repository/copy"
    found = questions.look(source, PATIENCE, threading.Event())
    assert found.startswith("mariadb-dump may read the database shop; not of the same moment"), found
    for address, port in ((server.address, server.port), (str(server.socket), None)):
        asked = ask_now(Source(kind="mariadb", address=address, port=port, path="shop"), PATIENCE)
        assert (asked.present, asked.text.endswith(" answered")) == (True, True), asked.text
    result = dump(source, copy)
    assert result.verdict is Verdict.WARNINGS, result.error
    assert (result.tables, result.rows) == (len(ROWS), sum(ROWS.values()))
    assert [each.partition(": ")[2][:12] for each in result.warnings] == ["old (MyISAM)", "the server l"]
    files = copy / "files" / POINT
    assert sorted(os.listdir(files)) == ["database.json", "database.sql", "globals.sql"]
    assert "CREATE USER `backup`@`%` IDENTIFIED BY PASSWORD" in (files / "globals.sql").read_text()
    header = manifests.read_header(copy / f"manifests/{POINT}.jsonl.gz")
    assert (header.engine, "MariaDB" in header.engine_version) == ("mariadb_dump", True)
    remote = dump(source, tmp_path / "remote/copy", location=Location(str(tmp_path / "remote"), "remote"))
    assert (remote.verdict, remote.files) == (Verdict.WARNINGS, 3), remote.error
    store = Store(of_directory(copy.parent), threading.Event())
    where = Scratch(str(scratch / "drills"), 0, account=ACCOUNT)
    drilled = drilling.drill(store, "copy", where, source_kind="mariadb")
    assert (drilled.error, drilled.notes, drilled.tables) == ("", [], ROWS)
    assert list((scratch / "drills").iterdir()) == []

    def restore(name: str) -> Report:
        wish = Wish("copy", POINT, Path(name))
        return mariadb.create(wish, store, source, tmp_path / "trees", lambda step: None)

    back = restore("shop2")
    assert (back.failed, back.not_set) == ([], [mariadb.NO_RIGHTS])
    assert contents(server, "shop2") == contents(server, "shop")
    assert "backupsched_" not in server.sql("SELECT User FROM mysql.user")
    with pytest.raises(RestoreRefused, match="there is a database 'shop2'"):
        restore("shop2")
    server.sql(f"CREATE TABLE {mariadb.UNFINISHED} (n INT); DROP TABLE article", "shop2")
    restore("shop2")
    assert contents(server, "shop2") == contents(server, "shop"), "what an interrupted one left is made anew"
    load = mariadb.AtSource.load

    def overtaken(self: Any, *given: Any, **how: Any) -> Any:
        monkeypatch.undo()
        restore("shop3")
        return load(self, *given, **how)

    monkeypatch.setattr(mariadb.AtSource, "load", overtaken)
    with pytest.raises(StorageFailed, match="another restore made the database 'shop3'"):
        restore("shop3")
    assert contents(server, "shop3") == contents(server, "shop")

    def is_away_after_it(self: Any, *given: Any, **how: Any) -> Any:
        try:
            return load(self, *given, **how)
        finally:
            self.source = dataclasses.replace(source, port=free_port(source.address))

    monkeypatch.setattr(mariadb.AtSource, "load", is_away_after_it)
    with pytest.raises(StorageFailed, match="Can't connect"):
        restore("shop4")
    monkeypatch.undo()
    assert restore("shop4").failed == [], "what that one left goes first, with its account"
    assert "backupsched_" not in server.sql("SELECT User FROM mysql.user")


def test_what_can_go_wrong_leaves_no_point_and_says_what(server: MariadbServer, tmp_path: Path) -> None:
    source, copy = server.source(), tmp_path / "repository/copy"

    def failed(expected: Verdict, words: str, of: SourceSpec = source, *how: Any, **fields: Any) -> None:
        result = dump(of, copy, *how, **fields)
        assert (result.verdict, words in result.error) == (expected, True), (result.verdict, result.error)
        assert PASSWORD_OF not in result.error
        assert dumps_in(copy) == []

    PASSWORD_OF = str(source.secret)
    failed(Verdict.SOURCE_FAILED, "refused the credentials", dataclasses.replace(source, secret="wrong"))
    failed(Verdict.SOURCE_FAILED, "there is no database 'none'", dataclasses.replace(source, path="none"))
    nowhere = dataclasses.replace(source, port=free_port(source.address))
    failed(Verdict.UNAVAILABLE, "does not answer", nowhere)
    verified = dataclasses.replace(source, options=source.options | {"sslmode": "verify-full"})
    failed(Verdict.SOURCE_FAILED, "no encrypted connection was made", verified)

    def kill(_: EngineProgress) -> None:
        for each in below(part="mariadb-dump"):
            assert "--defaults-file=/dev/fd/" in each.cmdline()[1]
            assert PASSWORD_OF not in " ".join([*each.cmdline(), *each.environ().values()])
            each.kill()

    stop = threading.Event()
    with server.locked("shop.empty"):
        failed(Verdict.SOURCE_FAILED, "nothing moved for 5 s", stall_timeout=5.0)  # what it left goes in that time
        failed(Verdict.SOURCE_FAILED, "ended by signal 9 from outside", source, kill)
        failed(Verdict.STOPPED, "stopped", source, lambda _: stop.set(), stop)
    server.sql("CREATE TABLE shop.backupsched_unfinished (n INT)")
    failed(Verdict.NOT_FOR_NOW, "a restore makes this database")
    server.sql("DROP TABLE shop.backupsched_unfinished")
    server.sql("CREATE TABLE shop.large AS SELECT seq, REPEAT('x', 1000) FROM mysql.seq_1_to_20000")
    try:
        with small_disk(tmp_path / "disk", 2**22) as disk:
            full = dump(source, disk / "copy")
            assert (full.verdict, dumps_in(disk / "copy")) == (Verdict.REPOSITORY_FAILED, []), full.error
    finally:
        server.sql("DROP TABLE shop.large")
    server.sql("CREATE USER plain@'%'; GRANT SELECT, SHOW VIEW, TRIGGER, EVENT ON shop.* TO plain@'%'")
    plain = dump(dataclasses.replace(source, options={"user": "plain"}, secret=None), copy)
    assert "procedures and functions that the account may not see are not kept" in plain.warnings[0]
    assert "users, roles and grants of the server were not kept" in plain.warnings[2]
    assert "SELECT command denied" in plain.warnings[2]
    assert sorted(os.listdir(copy / "files" / POINT)) == ["database.json", "database.sql"]


@pytest.mark.parametrize("by", ["LOCK TABLES", "a change that waits itself", "nothing"])
def test_a_dump_that_waits_for_a_lock_is_put_off_and_holds_up_no_application(
    by: str, server: MariadbServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_limit, "LOCK_WAIT", 1.0)
    monkeypatch.setattr(lock_limit, "ASK_EVERY", 0.2)
    server.sql("CREATE OR REPLACE DATABASE busy; CREATE TABLE busy.a AS SELECT 1 AS n; CREATE TABLE busy.b LIKE busy.a")
    changed = list[int]()

    def change_what_is_dumped(_: EngineProgress) -> None:
        if not changed and "Waiting for table metadata lock\tSELECT " in server.sql("SHOW PROCESSLIST"):
            server.sql("ALTER TABLE busy.a ADD COLUMN more INT; SELECT * FROM busy.a")
            changed.append(1)

    with ExitStack() as stack:
        if by == "LOCK TABLES":
            stack.enter_context(server.locked("busy.b"))
        elif by != "nothing":
            reading = stack.enter_context(server.session("BEGIN; SELECT COUNT(*) FROM busy.b;"))
            assert reading.readline() == b"0\n"
            stack.enter_context(server.session("ALTER TABLE busy.b ADD COLUMN more INT;"))
            eventually(lambda: "Waiting for table metadata lock" in server.sql("SHOW PROCESSLIST"))
        result = dump(server.source(path="busy"), tmp_path / "repository/copy", change_what_is_dumped)
    if by == "nothing":
        assert result.verdict in (Verdict.SUCCEEDED, Verdict.WARNINGS), result
        return
    assert (result.verdict, "a table stayed locked for 1 s" in result.error) == (Verdict.NOT_FOR_NOW, True), result
    assert dumps_in(tmp_path / "repository/copy") == []
    assert changed, "a table that was dumped already is free"


LAME = """
CREATE DATABASE lame;
USE lame;
CREATE TABLE plain (n INT PRIMARY KEY, words TEXT);
INSERT INTO plain VALUES (1, 'a'), (2, 'b');
CREATE FUNCTION next_of(x INT) RETURNS INT DETERMINISTIC RETURN x + 1;
CREATE VIEW over_function AS SELECT next_of(n) AS m FROM plain;
CREATE TABLE gone (n INT);
CREATE VIEW dead AS SELECT n FROM gone;
DROP TABLE gone;
CREATE
 TRIGGER `numbered` BEFORE INSERT ON plain FOR EACH ROW SET NEW.words = 't';
CREATE EVENT nightly ON SCHEDULE EVERY 1 DAY DO SELECT 1;
CREATE SEQUENCE numbers START WITH 5;
CREATE TABLE history (n INT PRIMARY KEY) WITH SYSTEM VERSIONING;
INSERT INTO history VALUES (1);
UPDATE history SET n = 2;
UPDATE history SET n = 3;
CREATE USER lame@'%';
GRANT SELECT, SHOW VIEW ON lame.* TO lame@'%';
"""


def test_what_an_account_may_not_see_and_what_is_dead_is_named_and_the_rest_is_kept(
    server: MariadbServer, tmp_path: Path, scratch: Path
) -> None:
    server.sql(LAME)
    lame = server.source(path="lame", options={"user": "lame"}, secret=None)
    first = dump(lame, tmp_path / "repository/first")
    assert first.verdict is Verdict.WARNINGS, first.error
    said = "\n".join(first.warnings)
    for part in (
        "so triggers, events are not kept: GRANT TRIGGER, EVENT ON `lame`.* TO 'lame'@'%'",
        "View 'lame.dead'",
        "denied to user 'lame'@'%' for routine 'lame.next_of'",
        "not in the dump: view dead, view over_function",
        "procedures and functions that the account may not see",
    ):
        assert part in said, said
    with pytest.raises(RunEnded) as asked:
        questions.look(lame, PATIENCE, threading.Event())
    server.sql(str(asked.value).partition(" are not kept: ")[2])
    server.sql("GRANT EXECUTE ON lame.* TO lame@'%'; GRANT SELECT ON mysql.* TO lame@'%'")
    found = questions.look(lame, PATIENCE, threading.Event())
    assert ("View 'lame.dead'" in found, "not kept" in found) == (True, False), found
    second = dump(lame, tmp_path / "repository/copy")
    assert [each for each in second.warnings if "'lame.dead'" not in each and "looks up no names" not in each] == []
    text = (tmp_path / "repository/copy/files" / POINT / "database.sql").read_text()
    assert "VIEW `dead` AS select `lame`.`gone`.`n`" in text, "also the text of what is dead is kept"
    store = Store(of_directory(tmp_path / "repository"), threading.Event())
    where = Scratch(str(scratch / "drills"), 0, account=ACCOUNT)
    drilled = drilling.drill(store, "copy", where, source_kind="mariadb")
    assert (drilled.error, drilled.tables) == ("", {"`plain`": 2, "`history`": 3})


def test_a_dump_that_is_cut_off_is_refused(
    server: MariadbServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cutting = tmp_path / "mariadb-dump"
    program = find_mariadb_program("mariadb-dump")
    cutting.write_text(f"""#!/bin/bash
{program} "$@" || exit
for each in "$@"; do case "$each" in --result-file=*) truncate --size=-40 "${{each#*=}}" ;; esac; done
""")
    cutting.chmod(0o755)
    for mode in ("require", "verify-full"):
        options = {"user": "backup", "sslmode": mode, "sslrootcert": str(server.certificate)}
        encrypted = dump(server.source(options=options), tmp_path / f"repository/{mode}")
        assert encrypted.verdict is Verdict.WARNINGS, encrypted.error
    with monkeypatch.context() as patch:
        found_as = {"mariadb-dump": str(cutting), "mariadb": find_mariadb_program("mariadb")}
        patch.setattr(engine, "find_mariadb_program", found_as.__getitem__)
        cut = dump(server.source(), tmp_path / "repository/copy")
    assert (cut.verdict, "the dump is cut off" in cut.error) == (Verdict.REPOSITORY_FAILED, True), cut.error
    assert dumps_in(tmp_path / "repository/copy") == []


def test_a_server_that_is_killed_in_the_middle_is_unavailable(tmp_path: Path) -> None:
    """One of its own: another process of the tests may be given the others after this one."""
    (tmp_path / "certificate").mkdir()
    copy = tmp_path / "repository/copy"
    with mariadb_server(tmp_path / "certificate") as server, server.locked("shop.empty"):
        found = dump(server.source(), copy, lambda seen: seen.bytes_done and server.process.kill())
    assert (found.verdict, "does not answer" in found.error) == (Verdict.UNAVAILABLE, True), found.error
    assert dumps_in(copy) == []
