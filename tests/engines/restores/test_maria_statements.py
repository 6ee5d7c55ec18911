"""Statements of a dump that are made again with the source's account, and the text of a dump under another name."""

from io import BytesIO

import pytest

from engines.imap.answers import FLAGS
from engines.mariadb.catalogue import MariadbCatalogue
from engines.mariadb.reading import INSERT, PIECE, read
from engines.restores.maria.database_names import HEADER, lines_of
from engines.restores.maria.statements import SETTING, statements_at
from engines.restores.pg.scripts import object_of
from engines.restores.playing import without_counter

BY = b"DEFINER=`root`@`localhost`"


@pytest.mark.parametrize(
    ("text", "definition"),
    [
        (b"CREATE " + BY + b" PROCEDURE `a`() SELECT 1", "procedure"),
        (b"CREATE " + BY + b" FUNCTION `a``b`(x INT) RETURNS INT RETURN 1", "function"),
        (
            b"/*!50003 CREATE*/ /*!50017 "
            + BY
            + b"*/ /*!50003 TRIGGER t BEFORE INSERT ON x FOR EACH ROW SET @a = 1 */",
            "trigger",
        ),
        (
            b"/*!50001 CREATE ALGORITHM=UNDEFINED */\n/*!50013 "
            + BY
            + b" SQL SECURITY DEFINER */\n/*!50001 VIEW `v` AS select 1 */",
            "view",
        ),
        (
            b"/*!50106 CREATE*/ /*!50117 " + BY + b"*/ /*!50106 EVENT `e` ON SCHEDULE EVERY 1 DAY DO SELECT 1 */",
            "event",
        ),
        (b"CREATE DEFINER=keeper PACKAGE BODY tools AS END", "package body"),
        (b"CREATE PROCEDURE `a`() SELECT 1", ""),
        (b"CREATE " + BY + b" PROCEDURE other.`a`() SELECT 1", ""),
        (b"CREATE " + BY + b" PROCEDURE `other` . `a`() SELECT 1", ""),
        (b"CREATE " + BY + b" /* x */ PROCEDURE `a`() SELECT 1", ""),
        (b"CREATE /*!999999 " + BY + b" PROCEDURE a() */ USER evil", ""),
        (b"CREATE " + BY + b" FUNCTION `a` RETURNS INT SONAME 'x.so'", ""),
        (b"CREATE " + BY + b" TABLE t (n INT)", ""),
        (b"GRANT ALL ON *.* TO x", ""),
    ],
)
def test_only_definitions_in_the_new_database_are_made_again(text: bytes, definition: str) -> None:
    dump = b"-- a dump\nDELIMITER ;;\n" + text + b" ;;\nDELIMITER ;\n"
    [found] = statements_at(BytesIO(dump), [3]).values()
    assert (found.definition, found.text) == (definition, text)


def test_rows_are_not_kept_and_settings_are_those_of_the_statement() -> None:
    dump = b"SET sql_mode = 'ANSI';\nINSERT INTO `t` VALUES\n(1,'secret');\nCREATE TABLE `t``2` (\n  `n` int\n);\n"
    rows, table = statements_at(BytesIO(dump), [2, 4]).values()
    assert (rows.what, rows.text) == ("rows of table t", b"")
    assert (table.what, table.settings, table.text) == (
        "table t`2",
        {"sql_mode": "ANSI"},
        b"CREATE TABLE `t``2` (\n  `n` int\n)",
    )


def test_what_names_the_old_database_means_the_new_one_and_texts_of_people_stay() -> None:
    old = b"-- Host: localhost    Database: a`b\n"
    dump = old + (
        b"CREATE TABLE `t` (\n  `n` int(11) DEFAULT nextval(`a``b`.`s`),\n"
        b"  `c` text COMMENT 'nextval(`a``b`.`s`)'\n);\n"
        b"LOCK TABLES `t` WRITE;\nINSERT INTO `t` VALUES\n(1,' DEFAULT nextval(`a``b`.`s`)');\n"
        b"/*!50001 VIEW `v` AS select `a``b`.`t`.`n` AS `a``b`,"
        b"'`a``b`.`t`.`n`' AS `x`,`a``b`.`f`() from (`t` `a``b`) */;\n"
        b"CREATE PROCEDURE p() SELECT * FROM `a``b`.`t`;\n"
    )
    expected = (
        dump.replace(b" int(11) DEFAULT nextval(`a``b`.", b" int(11) DEFAULT nextval(")
        .replace(b"LOCK TABLES `t` WRITE;", b"")
        .replace(b"select `a``b`.`t`.", b"select `t`.")
        .replace(b",`a``b`.`f`()", b",`f`()")
    )
    assert b"".join(lines_of(BytesIO(dump))) == expected


def test_no_text_of_a_server_or_a_dump_is_tried_without_end() -> None:
    assert INSERT.match(b"INSERT INTO `t` (" + b"a" * 60 + b"!) VALUES") is None
    assert INSERT.match(b"INSERT INTO `t` (`a``b`, c, `d`) VALUES (1)")
    assert without_counter(b"ALTER TABLE ONLY t ALTER COLUMN c SET (pg_attver=" + b"1" * 100_000) != b""
    assert object_of(b"-- Name: " + b"; Type: " * 5_000 + b"\n") == ""
    header = b"-- Data for Name: a; Type: b; Type: TABLE DATA; Schema: public; Owner: x\n"
    assert object_of(header) == "TABLE DATA public.a; Type: b"
    assert SETTING.match(b"SET sql_mode=" + b" " * 100_000) is None
    assert HEADER.fullmatch(b"-- Host: x" + b"    Database: a" * 60_000) is None
    assert FLAGS.search(b"1 (" + b"FLAGS ( " * 60_000) is None
    apostrophes = b"INSERT INTO `t` VALUES ('" + b"\\'" * PIECE + b"'),('\\\\');\n"
    assert read(BytesIO(apostrophes + b"-- Dump completed")).rows == {"`t`": 2}
    for like, name, is_it in (
        (r"a\_b%", "a_bc", True), (r"a\_b%", "axbc", False), ("a%b", "ab", True), ("a%b", "abcb", True),
        ("a%b%c", "axbxbxc", True), ("a%b_%c", "abc", False), ("ab%b", "ab", False), ("abc", "abc", True),
        ("%a" * 32 + "b", "a" * 64, False),
    ):  # fmt: skip
        server = MariadbCatalogue(name, grants=[f"GRANT SELECT ON `{like}`.* TO `x`@`y`"])
        assert ("tables" in server.lacking) is not is_it, like
