"""Empties the database after a test that commits, by deleting the few rows that there are.

Django truncates every table and makes the rows of its own anew: 200 ms, where deleting takes five. Content types and
permissions are the same for all tests and stay.
"""

import threading
from functools import cache
from itertools import compress

from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.db import connection, transaction

from audit.models import AuditEntry
from jobs.prepared_statements import execute
from tests.waiting import PATIENCE, eventually

KEPT = {ContentType._meta.db_table, Permission._meta.db_table}

LARGE = 512 * 1024
"""Bytes of a table that has to be made anew, since later tests would read past what is left in it."""

WORN = f"""
SELECT relname,
       reltuples >= 0 OR pg_relation_size(oid) + COALESCE(pg_relation_size(NULLIF(reltoastrelid, 0)), 0) > {LARGE}
  FROM pg_class
 WHERE relname = ANY(%(names)s) AND pg_table_is_visible(oid)
 ORDER BY relname
"""
AT_WORK = """
SELECT FROM pg_stat_activity
 WHERE datname = current_database() AND backend_type = 'client backend' AND state <> 'idle' AND pid <> pg_backend_pid()
"""


def empty_the_database() -> None:
    """A table that has become large, also by what was rolled back, and one of which PostgreSQL has counted the rows by
    now, is truncated: statements of later tests are planned as those on a new table.

    Raises: AssertionError if a test has left a transaction open.
    """
    for thread in threading.enumerate():
        if thread.name == "alerts":  # the round of a minute, which a test has begun, adds rows
            thread.join(PATIENCE)
    eventually(no_session_is_at_work)  # the server goes on with what a killed process gave it to do, and adds rows
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = '60s'")
        found = dict(execute(WORN, {"names": tables_of_models()}, prepare=True).fetchall())
        if worn := [name for name, is_worn in found.items() if is_worn]:
            cursor.execute(f"TRUNCATE {', '.join(worn)} CASCADE")
        has_rows = ", ".join(f"EXISTS (SELECT FROM {name})" for name in found)
        [rows] = execute(f"SELECT ARRAY[{has_rows}]", {}, prepare=True).fetchall()
        for name in compress(found, *rows):
            cursor.execute(f"DELETE FROM {name}")
        cursor.execute(f"DELETE FROM {AuditEntry._meta.db_table}")  # to which the deletions have added


@cache
def tables_of_models() -> list[str]:
    """All that are emptied, also where they are not there at present."""
    return sorted(set(connection.introspection.django_table_names()) - KEPT)


def no_session_is_at_work() -> bool:
    """True if every other session of this database is idle."""
    with connection.cursor() as cursor:
        cursor.execute(AT_WORK)
        return not cursor.rowcount
