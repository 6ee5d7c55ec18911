"""A period's start: every due assignment is put on the backlog. Next to it a COPY of the same rows.

Both write into an empty table with the same indexes, constraints and foreign keys, in one transaction each, on a
connection like a worker's. The rows that the emission reads are in memory.
"""

import time
from typing import NamedTuple

from django.db import connection, transaction

from jobs import tick
from jobs.models import BacklogRecord
from jobs.prepared_statements import prepare_in_this_thread
from proving.bench.fleets.statements import counted

TABLE = "jobs_backlogrecord"
COPY_OUT, COPY_IN = (f"COPY {TABLE} {where} (FORMAT binary)" for where in ("TO STDOUT", "FROM STDIN"))
READ_BY_THE_EMISSION = ("sources_assignment", "sources_source", "sources_policy", "schedules_schedule", "jobs_origin")


class EmissionFigures(NamedTuple):
    """`statements`: the number that was sent, one for a COPY."""

    records: int
    seconds: float
    statements: int


def emit() -> EmissionFigures:
    """Tick once, as a worker does. Raises: RuntimeError if not everything was emitted."""
    prepare_in_this_thread()
    _warm()
    began = time.perf_counter()
    with counted() as sent:
        ticked = tick.tick()
    seconds = time.perf_counter() - began
    _check(ticked.emitted)
    return EmissionFigures(ticked.emitted, seconds, len(sent))


def copy() -> EmissionFigures:
    """Emit, read the rows back, empty the table, and COPY them in again, which is timed."""
    records = emit().records
    with connection.cursor() as cursor, cursor.cursor.copy(COPY_OUT) as out:
        rows = [bytes(block) for block in out]
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {TABLE} CASCADE")
        cursor.execute("CHECKPOINT")
    whole = b"".join(rows)
    began = time.perf_counter()
    with transaction.atomic(), connection.cursor() as cursor, cursor.cursor.copy(COPY_IN) as into:
        into.write(whole)
    seconds = time.perf_counter() - began
    if BacklogRecord.objects.count() != records:
        raise RuntimeError(f"the COPY did not bring back {records} records")
    return EmissionFigures(records, seconds, 1)


def _warm() -> None:
    """Read the tables: a copied database begins with nothing in the server's memory, unlike one in use."""
    with connection.cursor() as cursor:
        for table in READ_BY_THE_EMISSION:
            cursor.execute(f"SELECT count(*), count(t::text) FROM {table} AS t")


def _check(emitted: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM sources_assignment")
        assignments = cursor.fetchone()[0]
    if emitted != assignments:
        raise RuntimeError(f"{emitted} of {assignments} due assignments were emitted")
