"""SQL of a dump, before a server runs it and when it is shown."""

from io import BytesIO

import pytest

from engines.restores import playing
from engines.restores.pg.failures import StatementFailure, is_harmless, to_be_tried

SETTING = b"SET transaction_timeout = 0;\n"
VERSION = b"ALTER TABLE ONLY public.a ALTER COLUMN n SET (pg_attver=26498184);\n"
KEPT = b"ALTER TABLE ONLY public.a ALTER COLUMN n SET (n_distinct=5);\n"
AMONG = [
    b"pg_attver=1, n_distinct=5",
    b"n_distinct=5, pg_attver=1",
    b"n_distinct=5, pg_attver=1, n_distinct_inherited=-1",
]
ROWS = b"COPY public.a (n) FROM stdin;\n" + SETTING + VERSION + b"\\.\n"


def test_settings_that_other_versions_do_not_know_are_left_out_and_no_row_is() -> None:
    sql = SETTING + VERSION + KEPT + ROWS + VERSION
    assert b"".join(playing.without_unknown(BytesIO(sql))) == KEPT + ROWS


@pytest.mark.parametrize("options", AMONG)
def test_what_a_user_has_set_beside_them_stays(options: bytes) -> None:
    line = KEPT.replace(b"n_distinct=5", options)
    [kept] = playing.without_unknown(BytesIO(line))
    assert kept in (KEPT, KEPT.replace(b"=5", b"=5, n_distinct_inherited=-1"))
    failure = StatementFailure("TABLE public.a", statement=line.decode())
    assert (is_harmless(failure), to_be_tried(failure).statement.encode()) == (False, kept)


@pytest.mark.parametrize(("statement", "harmless"), [(SETTING, True), (VERSION, True), (KEPT, False)])
def test_only_these_are_harmless(statement: bytes, harmless: bool) -> None:
    assert is_harmless(StatementFailure("the session", statement=statement.decode())) is harmless


def test_what_failed_is_shown_without_its_literals() -> None:
    mapping = "CREATE USER MAPPING FOR x SERVER y OPTIONS (password 'hun''ter', role 'z')"
    assert str(StatementFailure("USER MAPPING x", statement=mapping, state="42704")) == (
        "USER MAPPING x: 42704 undefined object: CREATE USER MAPPING FOR x SERVER y OPTIONS (password '…', role '…')"
    )
    function = "CREATE FUNCTION f() RETURNS text LANGUAGE sql AS $_$SELECT 'hunter'$_$;"
    assert "hunter" not in str(StatementFailure("FUNCTION f()", statement=function))
