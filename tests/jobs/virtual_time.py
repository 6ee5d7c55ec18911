"""Virtual time for whole years: the clock of Python and that of the database, set by hand and standing still.

The code under test runs unchanged. PostgreSQL's own clock functions are shadowed by some of the same names in a schema
that stands before `pg_catalog` in the search path of this connection; freezegun does the same to Python's.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import freezegun
from django.db import connection

FUNCTIONS = ("clock_timestamp", "statement_timestamp", "now")
"""All that the project's SQL asks for the time."""

SHADOW = """
CREATE OR REPLACE FUNCTION virtual_time.{name}() RETURNS timestamptz LANGUAGE sql STABLE
AS $$ SELECT current_setting('virtual_time.now')::timestamptz $$
"""


class VirtualTime:
    """The present instant of the test; `go_to` another."""

    def __init__(self, frozen: freezegun.api.FrozenDateTimeFactory) -> None:
        self._frozen = frozen

    def go_to(self, instant: datetime) -> None:
        self._frozen.move_to(instant)
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('virtual_time.now', %s, false)", [instant.isoformat()])


@contextmanager
def virtual_time(start: datetime) -> Iterator[VirtualTime]:
    """Both clocks stand at `start` until they are moved; that of the database for this connection only.

    For tests with real transactions: a year within one would leave every version of every row to be passed over.
    """
    with connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA virtual_time")
        for name in FUNCTIONS:
            cursor.execute(SHADOW.format(name=name))
        cursor.execute("SET search_path = virtual_time, pg_catalog, public")
    try:
        with freezegun.freeze_time(start, real_asyncio=True) as frozen:
            time = VirtualTime(frozen)
            time.go_to(start)
            yield time
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SET search_path TO DEFAULT")
            cursor.execute("DROP SCHEMA virtual_time CASCADE")
