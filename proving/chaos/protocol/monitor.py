"""The simulation's connection, which no actor sees: it asks who is blocked, moves the clock and reads rows."""

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from time import monotonic, sleep
from typing import Any

import psycopg

GONE_SECONDS = 30.0

SCHEMA = """
CREATE SCHEMA IF NOT EXISTS sim;
CREATE TABLE IF NOT EXISTS sim.clock (present timestamptz NOT NULL, started_at timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS sim.booking (record_id bigint NOT NULL, attempt int NOT NULL);
INSERT INTO sim.clock SELECT '2026-01-05 08:00Z', '2026-01-01Z' WHERE NOT EXISTS (SELECT FROM sim.clock);
"""

# Volatile functions have their own snapshot, so the present is that of the call, also after a wait for a lock. Stable
# ones have the statement's. A column's default is bound when its table is made, so these come before the migrations.
# The simulation ends lock waits itself, since the server's timeout runs by the machine's clock.
FUNCTIONS = """
CREATE OR REPLACE FUNCTION sim.linger() RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    readings CONSTANT int := COALESCE(NULLIF(current_setting('sim.linger_at', TRUE), ''), '0')::int;
BEGIN
    IF readings > 0 THEN
        PERFORM pg_catalog.set_config('sim.linger_at', (readings - 1)::text, FALSE);
    END IF;
    IF readings = 1 THEN
        PERFORM pg_advisory_lock_shared(7, pg_backend_pid());
        PERFORM pg_advisory_unlock_shared(7, pg_backend_pid());
    END IF;
END $$;
CREATE OR REPLACE FUNCTION sim.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql VOLATILE
    AS 'BEGIN PERFORM sim.linger(); RETURN (SELECT present FROM sim.clock); END';
CREATE OR REPLACE FUNCTION sim.set_config(name text, value text, is_local boolean) RETURNS text LANGUAGE sql
    AS 'SELECT CASE WHEN name = ''lock_timeout'' THEN value ELSE pg_catalog.set_config(name, value, is_local) END';
CREATE OR REPLACE FUNCTION sim.statement_timestamp() RETURNS timestamptz LANGUAGE plpgsql STABLE
    AS 'BEGIN RETURN (SELECT present FROM sim.clock); END';
CREATE OR REPLACE FUNCTION sim.pg_postmaster_start_time() RETURNS timestamptz LANGUAGE plpgsql STABLE
    AS 'BEGIN RETURN (SELECT started_at FROM sim.clock); END';
"""

# A statement may linger at a reading of a clock or a bucket, as on a slow server: between its snapshot and its writes.
LINGERING_TOKENS = """
CREATE OR REPLACE FUNCTION jobs_tokens(
    p_tokens double precision, p_tokens_at timestamptz, p_rate double precision, p_burst integer,
    p_present timestamptz)
RETURNS double precision LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM sim.linger();
    RETURN CASE WHEN p_rate IS NOT NULL THEN
        LEAST(COALESCE(p_burst, GREATEST(1, p_rate)),
              p_tokens + p_rate * GREATEST(0, extract(epoch FROM p_present - p_tokens_at)::double precision)) END;
END $$
"""

BLOCKING = "SELECT pid, pg_blocking_pids(pid) FROM unnest(%s::int[]) AS pid"
FREE = "SELECT id FROM jobs_backlogrecord WHERE id = ANY(%s) ORDER BY id FOR UPDATE SKIP LOCKED"
RECORDS = """
SELECT id, kind, queue, subject, status, attempt, leased_by_id, lease_token, lease_expires_at, exclusive_key,
       waiting_for, run_after, lane, cancel_requested_at IS NOT NULL, trigger_at, origin_id
  FROM jobs_backlogrecord
 ORDER BY id
"""
"""Sorted, since edits are chosen among them, and the physical order depends on what the server has cleaned up."""
ATTEMPTS = "SELECT record_id, number, worker_id, outcome FROM jobs_attempt"
TRIGGERS = """
SELECT t.trigger_at, t.events, t.emitted_at IS NOT NULL, s.next_trigger_at, s.event_count,
       (SELECT count(*)
          FROM jobs_backlogrecord b
         WHERE b.origin_id = t.schedule_id AND b.trigger_at = t.trigger_at)
  FROM schedules_trigger t
  JOIN schedules_schedule s ON s.origin_id = t.schedule_id
 WHERE t.skipped_for = ''
"""
BOOKINGS = "SELECT record_id, attempt FROM sim.booking"


class Monitor:
    """A connection in autocommit mode, for any thread. `conninfo`: that of the simulation's database."""

    def __init__(self, conninfo: str) -> None:
        self._connection = psycopg.connect(conninfo, autocommit=True, prepare_threshold=1)
        self.pid = self._connection.info.backend_pid
        self.execute("SET search_path = sim, pg_catalog, public")

    def close(self) -> None:
        self._connection.close()

    def prepare(self) -> None:
        """Make the functions that migrations and statements find first in the search path."""
        self.execute(SCHEMA)
        self.execute(FUNCTIONS)

    def execute(self, sql: str, values: Sequence[Any] | None = None) -> None:
        self._connection.execute(sql, values)

    def rows(self, sql: str, values: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql, values).fetchall()

    def all_rows(self, statements: Sequence[str]) -> list[list[tuple[Any, ...]]]:
        """The rows of each statement, in one round trip."""
        cursor = self._connection.execute(";".join(statements))
        found = [cursor.fetchall()]
        while cursor.nextset():
            found.append(cursor.fetchall())
        return found

    def set_clock(self, present: datetime) -> None:
        self.execute("UPDATE sim.clock SET present = %s", [present])

    def blocking(self, pids: list[int]) -> dict[int, list[int]]:
        """Backend → the backends that it waits for."""
        return dict(self.rows(BLOCKING, [pids]))

    def free(self, record_ids: list[int]) -> set[int]:
        """The ids of the records whose rows are not locked."""
        return {row[0] for row in self.rows(FREE, [record_ids])}

    def end_backend(self, pid: int) -> None:
        """Cut a connection, even if its backend is held, and wait until its locks are gone."""
        self.rows("SELECT pg_terminate_backend(%s)", [pid])
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
        until = monotonic() + GONE_SECONDS
        while self.rows("SELECT FROM pg_stat_activity WHERE pid = %s", [pid]):
            if monotonic() > until:
                raise RuntimeError(f"backend {pid} does not end")
            sleep(0.0005)

    def shut_gate(self, pid: int) -> None:
        """Let the next statement of this backend linger where it was told to."""
        self.rows("SELECT pg_advisory_lock(7, %s)", [pid])

    def open_gate(self, pid: int) -> None:
        self.rows("SELECT pg_advisory_unlock(7, %s)", [pid])

    def cancel(self, pid: int) -> None:
        """End the statement in which this backend is blocked."""
        self.rows("SELECT pg_cancel_backend(%s)", [pid])
