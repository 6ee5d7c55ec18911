"""Plans of the statements that claim."""

import re

import psycopg
import pytest
from django.db import connection
from psycopg._queries import PostgresQuery

from jobs.models import BacklogRecord
from jobs.states import Status, WaitingFor

CROWD = f"""
INSERT INTO jobs_backlogrecord
       (kind, queue, subject, payload, status, waiting_for, finished_at, run_after, closes_at, priority, rank_day,
        tried_at, expected_seconds, failures, last_error, attempt, lane)
SELECT 'test', CASE WHEN n / 8 % 2 = 0 THEN 'default' ELSE 'backups' END, n::text, '{{}}', status,
       CASE WHEN status = {Status.WAITING} THEN {WaitingFor.BACKOFF} END,
       CASE WHEN status = {Status.SUCCEEDED} THEN now() END,
       now(), CASE WHEN n % 2 = 0 THEN now() + interval '8 hours' END, n % 3,
       CASE WHEN n % 7 > 0 THEN current_date - n % 40 END,
       CASE WHEN n % 3 > 0 THEN now() - n * interval '1 second' END,
       CASE WHEN n % 11 > 0 THEN n % 1000 END, 0, '', 0, CASE WHEN n % 5 = 0 THEN n % 3 ELSE 0 END
  FROM generate_series(1, 32000) AS n,
       LATERAL (SELECT (ARRAY[1, 1, 1, 1, 1, 0, 3, 3])[n % 8 + 1] AS status) AS statuses
"""


@pytest.fixture
def crowded(db):
    """20,000 ready records of two queues and three lanes, and more that wait or are done."""
    with connection.cursor() as cursor:
        # Without the pages that rolled back tests have left: with them another plan may be the cheapest.
        cursor.execute("CLUSTER jobs_backlogrecord USING jobs_backlogrecord_pkey")
        cursor.execute(CROWD)
        cursor.execute("ANALYZE jobs_backlogrecord")
    assert BacklogRecord.objects.ready().count() == 20_000


def plans_of_the_prepared(sql: str, values: dict, cache_mode: str) -> str:
    """The plan of `sql`, as `psycopg` prepares it, with `plan_cache_mode` (a forced custom or generic plan)."""
    raw: psycopg.Connection = connection.connection
    query = PostgresQuery(psycopg.adapt.Transformer(raw))
    query.convert(sql, values)
    literals = ", ".join(psycopg.sql.Literal(values[name]).as_string(raw) for name in names_in_order(sql))
    with raw.cursor() as cursor:
        cursor.execute(f"SET plan_cache_mode = {cache_mode}")
        cursor.execute(b"PREPARE claim AS " + query.query)
        try:
            cursor.execute(f"EXPLAIN EXECUTE claim ({literals})")
            return "\n".join(row[0] for row in cursor.fetchall())
        finally:
            cursor.execute("DEALLOCATE claim")
            cursor.execute("RESET plan_cache_mode")


def names_in_order(sql: str) -> list[str]:
    """The names of the parameters by the number that psycopg gives them: each at its first appearance."""
    return list(dict.fromkeys(re.findall(r"%\((\w+)\)s", sql)))


CACHE_MODES = ("force_custom_plan", "force_generic_plan")
