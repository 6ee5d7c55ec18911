"""The text of a dump of MariaDB: counted, refused, and loaded where it reaches nothing of this host."""

import threading
from io import BytesIO
from pathlib import Path

import pytest

from engines.base import RunEnded, SourceSpec, Verdict
from engines.limits import Space
from engines.mariadb import reading, verdicts
from engines.restores import mariadb
from engines.restores.scratch import Scratch
from external.processes.runner import EndReason, ProgramEnd
from storage.places.location import of_directory
from storage.points.store import Store
from tests.engines.peers import task_for
from tests.engines.scratch_space import ACCOUNT
from tests.programs import needs_mariadb_client, needs_mariadb_server

HOSTILE = r"""
\! touch {folder}/shell;
system touch {folder}/system;
CREATE TABLE `t` (
  `n` int
);
INSERT INTO `t` VALUES
(1),
(2);
LOAD DATA LOCAL INFILE '/etc/hostname' INTO TABLE t;
LOAD DATA INFILE '/etc/hostname' INTO TABLE t;
SELECT 1 INTO OUTFILE '{folder}/outfile';
SELECT LOAD_FILE('/etc/hostname') IS NULL;
INSTALL SONAME 'ha_connect';
CREATE FUNCTION sys_exec RETURNS INT SONAME 'lib_mysqludf_sys.so';
SET GLOBAL event_scheduler = ON;
SET GLOBAL general_log_file = '{folder}/log.php';
CREATE DEFINER=`root`@`localhost` PROCEDURE `raise`() GRANT ALL ON *.* TO backupsched_drill@localhost;
CALL `raise`();
CREATE TABLE `elsewhere` (n INT) ENGINE=InnoDB DATA DIRECTORY='{folder}';
-- Dump completed on 2026-11-23
"""


@needs_mariadb_client
@needs_mariadb_server
@pytest.mark.slow
def test_a_hostile_dump_reaches_nothing_of_this_host(scratch: Path, tmp_path: Path) -> None:
    open_folder, files, work = scratch / "open", scratch / "files", scratch / "work"
    for each in (open_folder, files, work):
        each.mkdir()
    open_folder.chmod(0o777)
    work.chmod(0o711)
    (files / "database.sql").write_text(HOSTILE.format(folder=open_folder))
    store = Store(of_directory(tmp_path), threading.Event())
    where = Scratch(str(work), 0, account=ACCOUNT)
    found = mariadb.drill(files, work, where, Space(None, 0), store)
    assert list(open_folder.iterdir()) == []
    assert found.tables == {"`t`": 2}
    messages = "\n".join([*found.notes, *found.wrong])
    for number in (1045, 1227):
        assert f"error {number}: " in messages, messages


INSERTED = b"INSERT INTO `t` VALUES (1,'a;(\\'\n'),(2,_binary '\\\\');\n"


@pytest.mark.parametrize(
    ("dump", "rows", "is_whole"),
    [
        (b"", {}, False),
        (b"CREATE TABLE `t` (\n  `n` int\n);\n-- Dump completed on 2026-11-23\n", {"`t`": 0}, True),
        (b"CREATE TABLE `t` (\n  `n` int\n);\n-- Dump completed on 2026-11-23\n\n", {"`t`": 0}, True),
        (b"CREATE TABLE `t` (\n-- Dump completed\n  `n` int\n", {"`t`": 0}, False),
        (INSERTED, {"`t`": 2}, False),
        (
            b"DELIMITER ;;\nCREATE PROCEDURE p()\nINSERT INTO `t` VALUES (1);;\nDELIMITER ;\n" + INSERTED,
            {"`t`": 2},
            False,
        ),
        (b"INSERT INTO `t` VALUES\n(1,'x'),\n(2,NULL),\n(3,0xFF);\nINSERT INTO `t` VALUES\n(4);\n", {"`t`": 4}, False),
        (b"INSERT INTO `a``(b` (`n`, `m)`) VALUES (1,2),(3,4);\n", {"`a``(b`": 2}, False),
        (b"INSERT INTO `t` VALUES (1,'" + b"x(" * 40 + b"\\'" + b"'),(2,'');\n-- Dump completed", {"`t`": 2}, True),
    ],
)
@pytest.mark.parametrize("piece", [64, reading.PIECE])
def test_a_dump_is_counted_however_long_its_lines_are(
    dump: bytes, rows: dict[str, int], is_whole: bool, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "PIECE", piece)
    found = reading.read(BytesIO(dump))
    assert (found.rows, found.is_whole) == (rows, is_whole)


def test_a_connection_that_is_lost_without_a_word_is_no_fault_of_the_source(tmp_path: Path) -> None:
    task = task_for(SourceSpec("shop", "mariadb", "127.0.0.1", None, "shop", {"user": "backup"}, None, ""), tmp_path)
    ended = ProgramEnd(EndReason.EXITED, 2, ("Warning: mariadb-dump: unknown variable 'loose-ssl-mode=PREFERRED'",))
    with pytest.raises(RunEnded) as found:
        verdicts.judge_dump(ended, task)
    assert (found.value.verdict, "does not answer" in str(found.value)) == (Verdict.UNAVAILABLE, True)
