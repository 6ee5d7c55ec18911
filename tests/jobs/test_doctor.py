"""The doctor: every finding made for real, the system in order, and the command."""

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings as project
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django_q.models import Schedule as PeriodicTask

from jobs import checks, doctor
from jobs.clock import database_clock
from jobs.doctor import claim_head, clocks, connections, horizon, server
from jobs.doctor.asking import COUNT_TO
from jobs.doctor.finding import Finding, Severity, listed, ok, problem, span, warning
from jobs.doctor.rendering import report
from jobs.handlers import Kind, Registry, Run
from jobs.models import BacklogRecord, PausedQueue, Sweep, Worker
from jobs.outcomes import Outcome, Succeeded
from jobs.states import Status, WaitingFor
from tests.factories import make_record, make_worker
from tests.jobs.worker_processes import database_url
from tests.threads import another_connection

OK, WARNING, PROBLEM = Severity.OK, Severity.WARNING, Severity.PROBLEM
LEASE = timedelta(seconds=60)


def succeed(run: Run) -> Outcome:
    return Succeeded()


async def succeed_async(run: Run) -> Outcome:
    return Succeeded()


@pytest.fixture(autouse=True)
def own_registry(monkeypatch) -> Registry:
    """Knows the kind `test`, whose records are run in the queue default."""
    registry = Registry()
    registry.add(Kind("test", home_queue="default"))
    registry.handler("test", queue="default")(succeed)
    monkeypatch.setattr(checks, "registry", registry)
    return registry


def finding(name: str, now: datetime | None = None) -> Finding:
    """What the doctor finds under that name."""
    [found] = doctor.examine(skip=set(doctor.NAMES) - {name}, now=now)
    assert found.name == name
    return found


def run(sql: str, *values: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql, values or None)


def in_time(**fields: float) -> datetime:
    """So much after now, as the database has it."""
    return database_clock() + timedelta(**fields)


def serve(**queues: int) -> Worker:
    return make_worker(queues=queues, heartbeat_at=database_clock())


@pytest.mark.django_db
class TestASystemInOrder:
    @pytest.fixture(autouse=True)
    def in_order(self, capsys):
        with another_connection() as other:  # what other tests have rolled back lies dead before the first record
            other.autocommit = True
            other.execute("VACUUM jobs_backlogrecord")
            other.autocommit = False
        call_command("install_schedules")
        serve(default=4)
        make_record(run_after=database_clock())

    def test_every_finding_is_ok_but_the_test_servers_own_durability(self):
        found = doctor.examine()
        assert [one.name for one in found] == list(doctor.NAMES)
        assert [one for one in found if one.severity is not OK and one.name != "durability"] == []
        assert [one for one in found if one.severity is OK and one.do] == []

    def test_nothing_that_it_sets_outlives_it(self):
        doctor.examine()
        with connection.cursor() as cursor:
            cursor.execute("SELECT current_setting('statement_timeout'), current_setting('enable_sort')")
            assert cursor.fetchone() == ("0", "on")
        make_record()

    def test_an_examination_cannot_write(self, monkeypatch):
        def meddle(cursor: Any, now: datetime) -> Finding:
            cursor.execute("DELETE FROM jobs_backlogrecord")
            return ok("version", "")

        monkeypatch.setitem(doctor.EXAMINATIONS, "version", meddle)
        found = finding("version")
        assert found.severity is WARNING
        assert "read-only" in found.what
        assert BacklogRecord.objects.count() == 1

    def test_what_takes_too_long_is_cut_short_and_said(self, monkeypatch):
        monkeypatch.setattr(doctor, "STATEMENT_SECONDS", 0.2)
        with another_connection() as other:
            other.execute("LOCK TABLE jobs_pausedqueue IN ACCESS EXCLUSIVE MODE")
            found = finding("paused_queues")
        assert found.severity is WARNING
        assert "statement timeout" in found.what


@pytest.mark.django_db
class TestSettings:
    def test_a_dangerous_setting_of_django_q2_is_a_warning(self, settings):
        settings.Q_CLUSTER = {**project.Q_CLUSTER, "catch_up": True}
        found = finding("settings")
        assert (found.severity, found.numbers["ids"]) == (WARNING, ["jobs.W016"])
        assert "'catch_up'" in found.do

    def test_a_kind_that_nobody_can_run_is_a_problem(self, own_registry):
        own_registry.add(Kind("other", home_queue="nowhere"))
        assert finding("settings").severity is PROBLEM

    def test_settings_that_cannot_work_end_it_there_even_when_skipped(self, settings):
        settings.JOBS = {"LEASE_SECONDS": "soon"}
        for skip in ((), ("settings",)):
            [found] = doctor.examine(skip=skip)
            assert (found.name, found.severity) == ("settings", PROBLEM)


@pytest.mark.django_db
class TestTheServer:
    def test_an_old_postgresql_is_a_problem(self):
        assert server._version("13.9", 130_009).severity is PROBLEM
        assert server._version("14.0", 140_000).severity is OK

    def test_its_version_is_named(self):
        assert finding("version").numbers["server_version_num"] == connection.pg_version

    @pytest.mark.parametrize(
        ("fsync", "full_page_writes", "synchronous_commit", "severity"),
        [
            ("on", "on", "on", OK),
            ("on", "on", "off", WARNING),
            ("off", "on", "on", PROBLEM),
            ("on", "off", "on", PROBLEM),
        ],
    )
    def test_what_a_crash_loses_is_said(self, fsync, full_page_writes, synchronous_commit, severity):
        found = server._durability(
            {"fsync": fsync, "full_page_writes": full_page_writes, "synchronous_commit": synchronous_commit}
        )
        assert found.severity is severity

    def test_the_durability_is_that_of_this_session(self):
        for value in ("on", "off"):
            run(f"SET LOCAL synchronous_commit = {value}")
            assert finding("durability").numbers["synchronous_commit"] == value

    @pytest.mark.parametrize("level", ["repeatable read", "serializable"])
    def test_an_isolation_under_which_throttles_do_not_hold_is_a_problem(self, level):
        run(f"SET LOCAL default_transaction_isolation = '{level}'")
        found = finding("isolation")
        assert found.severity is PROBLEM
        assert level in found.what

    def test_a_direct_connection_is_ok(self):
        assert finding("pooler") == ok("pooler", "connections are direct", pooled=False)

    @pytest.mark.parametrize(("listens", "severity"), [(True, WARNING), (False, OK)])
    def test_a_pooler_is_known_by_its_made_up_process_id(self, listens, severity):
        found = server._pooler(1, 2, listens=listens)
        assert (found.severity, found.numbers["pooled"]) == (severity, True)


@pytest.mark.django_db
class TestTheTables:
    def test_a_missing_migration_is_a_problem(self):
        last = MigrationRecorder.Migration.objects.filter(app="jobs").latest("name")
        last.delete()
        found = finding("migrations")
        assert (found.severity, found.numbers["missing"]) == (PROBLEM, [f"jobs {last.name}"])

    def test_a_missing_table_is_said_and_not_raised(self):
        run("DROP TABLE jobs_pausedqueue")
        found = finding("paused_queues")
        assert found.severity is WARNING
        assert "jobs_pausedqueue" in found.what

    @pytest.mark.parametrize(
        ("broken", "name"),
        [
            ("DROP INDEX backlog_claim_order", "backlog_claim_order"),
            ("DROP INDEX one_unfinished_record_per_subject", "one_unfinished_record_per_subject"),
            ("DROP INDEX schedule_due", "schedule_due"),
            ("DROP INDEX worker_alive", "worker_alive"),
            ("ALTER TABLE jobs_backlogrecord DROP CONSTRAINT running_iff_leased", "running_iff_leased"),
            (
                "DROP INDEX backlog_claim_order;"
                "CREATE INDEX backlog_claim_order ON jobs_backlogrecord (queue, lane, priority DESC, rank_day, tried_at"
                " NULLS FIRST, expected_seconds NULLS FIRST, id) WHERE status = 1",
                "backlog_claim_order",
            ),
            (
                "DROP INDEX one_unfinished_record_per_subject;"
                "CREATE INDEX one_unfinished_record_per_subject ON jobs_backlogrecord (kind, subject)"
                " WHERE status IN (0, 1, 2)",
                "one_unfinished_record_per_subject",
            ),
            (
                "DROP INDEX backlog_waiting_until;CREATE INDEX backlog_waiting_until ON jobs_backlogrecord (run_after)",
                "backlog_waiting_until",
            ),
        ],
    )
    def test_what_a_model_declares_and_the_database_lacks_is_a_problem_with_the_sql_for_it(self, broken, name):
        run(broken)
        found = finding("schema")
        assert (found.severity, found.numbers["names"]) == (PROBLEM, [name])
        assert found.do.count("INDEX") == found.do.count("INDEX CONCURRENTLY")  # workers go on
        run(found.do.replace("CONCURRENTLY ", ""))
        assert finding("schema").severity is OK

    def test_a_missing_primary_key_is_a_problem_with_the_sql_for_it(self):
        run("ALTER TABLE jobs_attempt DROP CONSTRAINT jobs_attempt_pkey CASCADE")
        found = finding("schema")
        assert (found.severity, found.numbers["names"]) == (PROBLEM, ["the primary key"])
        run(found.do)
        assert finding("schema").severity is OK

    @pytest.mark.parametrize(
        ("broken", "name", "number"),
        [
            ("DROP VIEW jobs_attempt_entry", "jobs_attempt_entry", "0012"),
            ("DROP FUNCTION jobs_claim_beside_throttles", "jobs_claim_beside_throttles", "0013"),
        ],
    )
    def test_a_missing_view_or_function_is_a_problem_with_the_migration_that_makes_it(self, broken, name, number):
        run(broken)
        found = finding("schema")
        assert (found.severity, found.numbers["names"]) == (PROBLEM, [name])
        assert f"sqlmigrate jobs {number} " in found.do

    def test_an_invalid_index_is_a_problem(self):
        run("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'backlog_claim_order'::regclass")
        found = finding("schema")
        assert found.severity is PROBLEM
        assert found.do == "REINDEX INDEX CONCURRENTLY backlog_claim_order;"

    def test_a_constraint_that_was_never_validated_is_a_problem_with_the_sql_for_it(self):
        run(
            "ALTER TABLE jobs_backlogrecord DROP CONSTRAINT failed_at_iff_failures;"
            "ALTER TABLE jobs_backlogrecord ADD CONSTRAINT failed_at_iff_failures CHECK (failures >= 0) NOT VALID"
        )
        found = finding("schema")
        assert (found.severity, found.numbers["names"]) == (PROBLEM, ["failed_at_iff_failures"])
        run(found.do)
        assert finding("schema").severity is OK

    @pytest.mark.parametrize(
        "broken", ["RESET (fillfactor)", "SET (fillfactor = 100)", "SET (autovacuum_vacuum_scale_factor = 0.2)"]
    )
    def test_a_lost_table_setting_is_a_warning_with_the_sql_for_it(self, broken):
        run(f"ALTER TABLE jobs_backlogrecord {broken}")
        found = finding("table_settings")
        assert found.severity is WARNING
        run(found.do)
        assert finding("table_settings").severity is OK

    def test_a_stricter_table_setting_is_ok(self):
        run("ALTER TABLE jobs_backlogrecord SET (autovacuum_vacuum_scale_factor = 0.01, fillfactor = 70)")
        assert finding("table_settings").severity is OK

    @pytest.mark.parametrize("table", ["jobs_backlogrecord", "jobs_attempt"])
    @pytest.mark.parametrize("off", ["false", "off"])
    def test_a_table_without_autovacuum_is_a_problem_with_the_sql_for_it(self, table, off):
        run(f"ALTER TABLE {table} SET (autovacuum_enabled = {off})")
        found = finding("table_settings")
        assert (found.severity, found.numbers["tables"]) == (PROBLEM, [table])
        run(found.do)
        assert finding("table_settings").severity is OK

    def test_a_server_that_counts_no_dead_rows_is_a_problem(self):
        run("SET LOCAL track_counts = off")
        found = finding("table_settings")
        assert found.severity is PROBLEM
        assert "track_counts = on" in found.do


@pytest.mark.django_db
class TestTheHorizon:
    @pytest.mark.parametrize(
        ("minutes", "severity"), [(1, OK), (4.9, OK), (5.1, WARNING), (59, WARNING), (61, PROBLEM)]
    )
    def test_a_snapshot_that_somebody_keeps_is_named_with_its_holder(self, minutes, severity):
        with another_connection() as other:
            other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            other.execute("SET application_name = 'a forgotten report'")
            other.execute("SELECT 1 AS   once")
            found = finding("horizon", now=in_time(minutes=minutes))
            pid = other.info.backend_pid
        assert found.severity is severity
        if severity is not OK:
            assert f"pg_terminate_backend({pid})" in found.do
            for fact in (f"pid {pid}", "idle in transaction", "a forgotten report", "SELECT 1 AS once"):
                assert fact in found.what

    def test_an_open_transaction_that_wrote_pins_it_too(self):
        with another_connection() as other:
            other.execute("INSERT INTO jobs_pausedqueue (name, reason) VALUES ('elsewhere', '')")
            assert finding("horizon", now=in_time(minutes=6)).severity is WARNING

    def test_an_open_transaction_without_a_snapshot_pins_nothing(self):
        with another_connection() as other:
            other.execute("SELECT 1")
            assert finding("horizon", now=in_time(hours=2)).severity is OK

    @pytest.mark.parametrize(("transactions", "severity"), [(99_999, OK), (100_000, WARNING), (1_000_000, PROBLEM)])
    @pytest.mark.parametrize(
        ("kind", "do"),
        [
            ("prepared transaction", "ROLLBACK PREPARED 'it''s'"),
            ("replication slot", "pg_drop_replication_slot('it''s')"),
        ],
    )
    def test_what_has_no_age_in_seconds_counts_by_transactions(self, kind, do, transactions, severity):
        holder = dict.fromkeys(horizon.NAMES, "") | {"kind": kind, "holder": "it's", "seconds": None}
        found = horizon._judged([holder | {"transactions": transactions}])
        assert found.severity is severity
        assert severity is OK or (do in found.do and f"{transactions:,} transactions" in found.what)

    def test_the_do_is_for_the_one_that_makes_it_a_problem(self):
        young = dict.fromkeys(horizon.NAMES, "") | {"kind": "session", "holder": "pid 7", "seconds": 400.0}
        old = young | {"holder": "pid 8", "seconds": 4000.0, "transactions": 5}
        found = horizon._judged([young | {"transactions": 9}, old])
        assert found.severity is PROBLEM
        assert "pg_terminate_backend(8)" in found.do


def ready_rows(count: int) -> None:
    """As many as it takes to be measured; the database makes them in a moment."""
    run(
        "INSERT INTO jobs_backlogrecord"
        " (kind, queue, subject, payload, status, run_after, priority, failures, last_error, attempt, lane)"
        " SELECT 'test', 'default', number::text, '{}', 1, now(), 0, 0, '', 0, 0"
        "   FROM generate_series(1, %s) AS number",
        count,
    )


def finish_the_first(count: int) -> None:
    first = BacklogRecord.objects.ready().in_claim_order().values("pk")[:count]
    BacklogRecord.objects.filter(pk__in=first).update(status=Status.SUCCEEDED, finished_at=database_clock())


@pytest.mark.django_db(transaction=True)
class TestTheHeadOfTheClaimIndex:
    @pytest.fixture(autouse=True)
    def small_thresholds(self, monkeypatch):
        monkeypatch.setattr(claim_head, "WARN_BUFFERS", 40)
        monkeypatch.setattr(claim_head, "PROBLEM_BUFFERS", 10_000)

    def test_dead_rows_that_a_snapshot_keeps_are_measured(self):
        ready_rows(21_000)
        with another_connection() as other:
            other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            other.execute("SELECT 1")
            before = finding("claim_head")
            finish_the_first(20_000)
            kept = finding("claim_head")
        assert before.severity is OK
        assert kept.severity is WARNING
        [head] = kept.numbers["heads"]
        assert (head["queue"], head["rows"]) == ("default", claim_head.BATCH)
        assert head["in_vain"] >= 40
        assert "queue default" in kept.what
        run("VACUUM jobs_backlogrecord")
        removed = finding("claim_head")
        assert removed.severity is OK
        assert removed.numbers["last_vacuum"]

    def test_records_whose_window_has_closed_are_not_taken_for_dead(self):
        ready_rows(3000)
        BacklogRecord.objects.update(closes_at=in_time(hours=-1))
        run("VACUUM jobs_backlogrecord")
        assert finding("claim_head").severity is OK

    def test_a_table_too_small_for_an_index_is_not_taken_for_one_without(self):
        ready_rows(30)
        run("ANALYZE jobs_backlogrecord")
        assert "Sort" in BacklogRecord.objects.ready().filter(queue="default", lane=0).in_claim_order().explain()
        assert finding("claim_head").severity is OK

    def test_each_queue_and_lane_is_measured(self):
        for queue, lane in (("default", 0), ("default", 3), ("backups", 0)):
            make_record(queue=queue, lane=lane)
        make_record(Status.WAITING, queue="elsewhere")
        heads = finding("claim_head").numbers["heads"]
        assert [(head["queue"], head["lane"]) for head in heads] == [("backups", 0), ("default", 0), ("default", 3)]

    def test_a_claim_that_cannot_be_looked_at_in_time_is_a_problem(self, monkeypatch):
        monkeypatch.setattr(doctor, "STATEMENT_SECONDS", 0.2)
        with another_connection() as other:
            other.execute("LOCK TABLE jobs_backlogrecord IN ACCESS EXCLUSIVE MODE")
            assert finding("claim_head").severity is PROBLEM

    @pytest.mark.parametrize(("in_vain", "severity"), [(39, OK), (40, WARNING), (9_999, WARNING), (10_000, PROBLEM)])
    def test_the_worst_head_decides(self, in_vain, severity):
        head = {"queue": "a", "lane": 0, "rows": 100, "buffers": 120, "milliseconds": 1.0, "sorts": False, "in_vain": 0}
        worse = head | {"queue": "b", "lane": 7, "in_vain": in_vain}
        found = claim_head._judged([head, worse], "never vacuumed", {})
        assert found.severity is severity
        assert severity is OK or "queue b lane 7" in found.what

    def test_a_problem_is_named_before_the_warnings_beside_it(self):
        head = {"queue": "a", "lane": 0, "rows": 100, "buffers": 120, "milliseconds": 1.0, "sorts": False}
        found = claim_head._judged([head | {"in_vain": 50}, head | {"queue": "b", "in_vain": 10_000}], "", {})
        assert found.severity is PROBLEM
        assert found.what.index("queue b") < found.what.index("queue a")


@pytest.mark.django_db
def test_a_claim_index_in_another_order_is_a_problem():
    run("DROP INDEX backlog_claim_order; CREATE INDEX backlog_claim_order ON jobs_backlogrecord (queue, lane, id)")
    make_record()
    found = finding("claim_head")
    assert found.severity is PROBLEM
    assert "sorts" in found.what


@pytest.mark.django_db
class TestClocks:
    @pytest.mark.parametrize(("seconds", "severity"), [(-60, WARNING), (-4, OK), (0, OK), (4, OK), (6, WARNING)])
    def test_this_machines_clock_is_compared_with_the_databases(self, monkeypatch, seconds, severity):
        monkeypatch.setattr(clocks, "host_clock", lambda: datetime.now(UTC) + timedelta(seconds=seconds))
        found = finding("clocks")
        assert found.severity is severity
        assert abs(found.numbers["this_machine"] - seconds) < 1

    @pytest.mark.parametrize(("skew", "severity"), [(None, OK), (4.0, OK), (5.5, WARNING), (-7.0, WARNING)])
    def test_a_living_workers_clock_is_what_its_heartbeat_wrote(self, skew, severity):
        worker = serve(default=1)
        Worker.objects.update(clock_skew=skew)
        found = finding("clocks")
        assert found.severity is severity
        assert (worker.name in found.what) == (severity is WARNING)

    def test_the_clock_of_a_dead_worker_does_not_matter(self):
        serve(default=1)
        Worker.objects.update(clock_skew=100.0)
        assert finding("clocks", now=in_time(seconds=61)).severity is OK


@pytest.mark.django_db
class TestConnections:
    def test_a_unit_of_a_sync_handler_needs_one_and_async_handlers_share_one(self, own_registry):
        own_registry.handler("test", queue="availability")(succeed_async)
        assert connections.needed({"default": 16}) == 4 + 16
        assert connections.needed({"availability": 200}) == 4 + 1
        assert connections.needed({"availability": 200, "default": 16, "unhandled": 9}) == 4 + 1 + 16

    def test_workers_that_may_need_more_than_there_are_is_a_problem(self):
        assert finding("connections").severity is OK
        serve(default=100_000)
        found = finding("connections")
        assert found.severity is PROBLEM
        assert found.numbers["workers_may_need"] == 100_004

    def test_a_worker_that_is_gone_needs_none(self):
        serve(default=100_000)
        assert finding("connections", now=in_time(seconds=61)).numbers["workers_may_need"] == 0

    def test_the_limit_of_the_role_counts_when_it_is_tighter(self):
        run("ALTER ROLE CURRENT_USER CONNECTION LIMIT 20")
        serve(default=16)
        found = finding("connections")
        assert (found.severity, found.numbers["allowed"]) == (PROBLEM, 20)
        assert "role" in found.what

    def test_a_connection_of_another_program_is_not_there_for_us(self):
        before = finding("connections").numbers["at_most"]
        with ExitStack() as stack:
            for _ in range(10):
                other = stack.enter_context(another_connection())
                other.execute("SET application_name = 'something else'")
            run("SELECT pg_stat_clear_snapshot()")  # within one transaction the statistics stand still
            # the tests beside this one open and close some of their own
            assert before + 5 <= finding("connections").numbers["at_most"] <= before + 15

    @pytest.mark.parametrize(
        ("workers", "ours", "severity"),
        [(68, 1, OK), (69, 1, WARNING), (88, 1, WARNING), (89, 1, PROBLEM), (0, 81, WARNING), (0, 101, PROBLEM)],
    )
    def test_what_is_open_or_may_be_needed_is_set_against_what_is_allowed(self, workers, ours, severity):
        assert connections._judged("max_connections", 100, ours, ours, workers).severity is severity

    @pytest.mark.parametrize(
        ("pool", "severity"),
        [(True, PROBLEM), ({"min_size": 19}, PROBLEM), ({"max_size": 19}, PROBLEM), ({"max_size": 20}, OK), (None, OK)],
    )
    def test_a_pool_smaller_than_a_worker_is_a_problem(self, pool, severity):
        found = connections._too_small(pool, 20)
        assert (found.severity if found else OK) is severity


@pytest.mark.django_db
class TestWorkers:
    def test_none_alive_is_a_warning_while_nothing_is_ready(self):
        make_record(Status.WAITING)
        assert finding("workers").severity is WARNING

    def test_none_alive_is_a_problem_when_records_are_ready(self):
        make_record()
        make_worker(heartbeat_at=in_time(seconds=-61))
        make_worker(heartbeat_at=database_clock(), stopped_at=database_clock())
        found = finding("workers")
        assert (found.severity, found.numbers) == (PROBLEM, {"alive": 0, "ready": 1})

    def test_a_heartbeat_within_the_last_lease_is_alive(self):
        make_worker(heartbeat_at=in_time(seconds=-55))
        make_record()
        assert finding("workers").numbers == {"alive": 1}

    @pytest.mark.parametrize(("seconds", "severity"), [(55, OK), (65, WARNING), (86_000, WARNING), (86_500, OK)])
    def test_a_worker_that_fell_silent_within_the_last_day_is_named(self, seconds, severity):
        worker = make_worker(heartbeat_at=in_time(seconds=-seconds))
        found = finding("silent_workers")
        assert found.severity is severity
        assert (worker.name in found.numbers["silent"]) == (severity is WARNING)

    def test_a_worker_that_signed_off_is_not_silent(self):
        make_worker(heartbeat_at=in_time(hours=-1), stopped_at=in_time(hours=-1))
        assert finding("silent_workers").severity is OK

    @pytest.mark.parametrize(("leases", "severity"), [(0.9, OK), (1.9, OK), (2.1, PROBLEM)])
    def test_a_lease_that_expired_two_leases_ago_is_a_problem(self, leases, severity):
        now = in_time(days=1)  # the server has long been up
        make_record(Status.RUNNING, lease_expires_at=now - leases * LEASE)
        found = finding("expired_leases", now=now)
        assert (found.severity, found.numbers["expired"]) == (severity, int(severity is PROBLEM))

    def test_nothing_has_to_be_rescued_just_after_a_start_of_the_server(self):
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_postmaster_start_time()")
            started_at: datetime = cursor.fetchone()[0]
        make_record(Status.RUNNING, lease_expires_at=started_at - 10 * LEASE)
        assert finding("expired_leases", now=started_at + 1.9 * LEASE).severity is OK
        assert finding("expired_leases", now=started_at + 2.1 * LEASE).severity is PROBLEM


@pytest.mark.django_db
class TestQueues:
    @pytest.mark.parametrize("status", [Status.READY, Status.WAITING, Status.RUNNING])
    def test_a_queue_that_no_living_worker_serves_is_a_problem(self, status):
        serve(availability=1)
        make_record(status, queue="backups", worker=make_worker(queues={"backups": 1}, heartbeat_at=in_time(hours=-1)))
        found = finding("unserved_queues")
        assert found.severity is PROBLEM
        assert found.numbers["unserved"] == {"backups": int(status == Status.READY)}
        assert "serves backups" in found.do

    def test_a_queue_that_no_settings_know_is_named_as_such(self):
        serve(default=1)
        for queue in ("elsewhere", "backups", "default", "a"):
            make_record(queue=queue)
        found = finding("unserved_queues")
        assert set(found.numbers["unserved"]) == {"a", "backups", "elsewhere"}
        assert found.numbers["unknown"] == ["a", "elsewhere"]
        assert "JOBS['QUEUES']" in found.do

    def test_finished_records_need_nobody(self):
        make_record(Status.SUCCEEDED, queue="elsewhere")
        assert finding("unserved_queues").severity is OK

    def test_a_count_stops_where_nobody_acts_differently(self):
        ready_rows(COUNT_TO + 10)
        found = finding("unserved_queues")
        assert found.numbers["unserved"] == {"default": COUNT_TO + 1}
        assert f"over {COUNT_TO:,} ready" in found.what

    def test_a_paused_queue_is_a_warning_with_its_reason_and_what_is_ready(self):
        PausedQueue.objects.create(name="default", reason="moving the repository")
        make_record()
        make_record(Status.WAITING)
        found = finding("paused_queues")
        assert (found.severity, found.numbers["paused"]) == (WARNING, {"default": 1})
        assert "moving the repository" in found.what
        assert "manage.py backlog resume default" in found.do

    def test_a_kind_without_a_handler_is_a_problem(self):
        for kind in ("a", "test", "z"):
            make_record(kind=kind)
        make_record(Status.FAILED, kind="old")
        found = finding("unknown_kinds")
        assert (found.severity, found.numbers["unknown"]) == (PROBLEM, ["a", "z"])

    def test_known_kinds_are_ok(self):
        make_record(Status.WAITING)
        assert finding("unknown_kinds").severity is OK


@pytest.mark.django_db
class TestThePeriodicTasks:
    @pytest.fixture(autouse=True)
    def installed(self, capsys):
        call_command("install_schedules")

    def test_a_task_that_is_not_installed_is_a_warning(self):
        PeriodicTask.objects.filter(name="backlog prune").delete()
        found = finding("periodic_tasks")
        assert (found.severity, found.numbers["missing"]) == (WARNING, ["backlog prune"])
        assert found.do == "manage.py install_schedules"

    def test_a_task_that_was_changed_is_a_warning(self):
        PeriodicTask.objects.filter(name="backlog tick").update(minutes=60)
        found = finding("periodic_tasks")
        assert (found.severity, found.do) == (WARNING, "manage.py install_schedules")
        assert "minutes is 60" in found.what

    @pytest.mark.parametrize(("minutes", "severity"), [(0, OK), (9, OK), (11, WARNING)])
    def test_a_task_that_nobody_runs_is_a_warning_that_says_what_waits(self, minutes, severity):
        found = finding("periodic_tasks", now=in_time(minutes=minutes))
        assert found.severity is severity
        if severity is WARNING:
            assert {"backlog tick", "backlog prune"} <= set(found.numbers["overdue_seconds"])
            assert "qcluster" in found.do
            assert "only pruning waits" in found.what

    def test_a_sweep_that_nobody_runs_is_late_ten_minutes_after_its_time_however_rare_it_is(self):
        name = "backlog sweep: up to 360 days old, every 192 hours"
        at = PeriodicTask.objects.get(name=name).next_run
        PeriodicTask.objects.exclude(name=name).update(next_run=at)
        assert finding("periodic_tasks", now=at + timedelta(minutes=10)).severity is OK
        late = finding("periodic_tasks", now=at + timedelta(minutes=11)).numbers["overdue_seconds"]
        assert late[name] == 660

    def test_a_sweep_off_its_grid_is_a_warning(self):
        name = "backlog sweep: up to 7 days old, hourly"
        one = PeriodicTask.objects.get(name=name)
        PeriodicTask.objects.filter(name=name).update(next_run=one.next_run + timedelta(seconds=7))
        found = finding("periodic_tasks")
        assert (found.severity, found.do) == (WARNING, "manage.py install_schedules")
        assert "hourly (next_run is" in found.what

    def test_an_installation_without_django_q2_is_ok(self, monkeypatch):
        # not by INSTALLED_APPS: the admin's theme would make a new site, with nothing in it, for the tests that follow
        monkeypatch.setattr(apps, "is_installed", lambda name: name != "django_q")
        found = finding("periodic_tasks", now=in_time(hours=1))
        assert found.severity is OK
        assert "not installed" in found.what


@pytest.mark.django_db
class TestTheSweeps:
    NOW = datetime(2026, 3, 2, 12, 30, tzinfo=UTC)

    def waiting(self, *, days: float, failed: timedelta) -> BacklogRecord:
        """A record of that age that waits for a sweep, and failed so long ago."""
        facts = {"inserted_at": self.NOW - timedelta(days=days), "last_failure_at": self.NOW - failed, "failures": 3}
        until = self.NOW + timedelta(days=360 - days)
        return make_record(Status.WAITING, waiting_for=WaitingFor.SWEEP, run_after=until, **facts)

    def found(self) -> Finding:
        return finding("sweeps", now=self.NOW)

    def test_with_nothing_to_sweep_are_ok(self):
        assert (self.found().severity, self.found().numbers["waiting"]) == (OK, 0)

    @pytest.mark.parametrize(
        ("days", "failed", "severity"),
        [
            (0.5, timedelta(minutes=14), OK),
            (0.5, timedelta(minutes=16), PROBLEM),
            (3, timedelta(minutes=29), OK),
            (3, timedelta(minutes=31), PROBLEM),
            (20, timedelta(hours=12, minutes=29), OK),
            (20, timedelta(hours=12, minutes=31), PROBLEM),
            (300, timedelta(days=2), OK),
            (300, timedelta(days=9), PROBLEM),
        ],
    )
    def test_that_do_not_come_in_their_slot_are_a_problem(self, days, failed, severity):
        self.waiting(days=days, failed=failed)
        found = self.found()
        assert found.severity is severity
        assert found.numbers["waiting"] == 1
        if severity is PROBLEM:
            assert "start a worker" in found.do
            assert "qcluster" in found.do

    def test_that_came_are_ok_although_a_failure_is_old(self):
        self.waiting(days=0.5, failed=timedelta(days=2))
        for days in (1, 7, 14, 30, 180, 360):
            Sweep.objects.create(max_age_days=days, swept_at=self.NOW - timedelta(seconds=10))
        assert self.found().severity is OK

    def test_that_left_some_are_a_warning_that_says_what_to_do(self):
        self.waiting(days=0.5, failed=timedelta(hours=5))
        Sweep.objects.create(max_age_days=1, swept_at=self.NOW - timedelta(minutes=20), swept=9, left_some=True)
        for days in (7, 14, 30, 180, 360):
            Sweep.objects.create(max_age_days=days, swept_at=self.NOW - timedelta(minutes=20))
        found = self.found()
        assert (found.severity, found.numbers["left_some"]) == (WARNING, [1])
        assert "up to 1 day old (took 9)" in found.what
        assert "JOBS['SWEEP_MAX_RECORDS'] (it is 10,000)" in found.do

    def test_a_full_sweep_whose_records_have_gone_is_ok(self):
        Sweep.objects.create(max_age_days=1, swept_at=self.NOW, swept=9, left_some=True)
        assert self.found().severity is OK


def exit_code(*arguments: str) -> int:
    try:
        call_command("doctor", *arguments)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def only(*names: str) -> list[str]:
    """Options that leave out all but these."""
    return [f"--skip={name}" for name in doctor.NAMES if name not in names]


@pytest.mark.django_db
class TestTheCommand:
    def test_a_problem_fails_it(self, capsys, monkeypatch):
        monkeypatch.setenv("COLUMNS", "120")
        make_record()
        assert exit_code(*only("workers", "version")) == 1
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].split()[:2] == ["problem", "workers"]
        assert lines[1].strip().startswith("→ start one")
        assert lines[2].split()[:2] == ["ok", "version"]
        assert lines[3] == "1 problem, 0 warnings, 1 ok"

    def test_a_warning_does_not_fail_it(self, capsys):
        assert exit_code(*only("workers")) == 0
        assert "0 problems, 1 warning, 0 ok" in capsys.readouterr().out

    def test_json_has_every_finding_with_its_numbers(self, capsys):
        make_record()
        assert exit_code("--json") == 1
        found = json.loads(capsys.readouterr().out)
        assert [one["name"] for one in found] == list(doctor.NAMES)
        assert {frozenset(one) for one in found} == {frozenset({"name", "severity", "what", "do", "numbers"})}
        workers = next(one for one in found if one["name"] == "workers")
        assert (workers["severity"], workers["numbers"]) == ("problem", {"alive": 0, "ready": 1})

    def test_a_skipped_finding_fails_nothing(self, capsys):
        make_record()
        assert exit_code(*only("workers"), "--skip=workers") == 0

    def test_an_unknown_finding_is_bad_usage(self):
        with pytest.raises(CommandError, match="no finding 'weather'; there are settings, version") as error:
            call_command("doctor", "--skip", "weather")
        assert error.value.returncode == 2

    def test_colours_are_forced_as_everywhere_in_django(self, capsys):
        exit_code(*only("workers"), "--force-color")
        assert "\x1b[" in capsys.readouterr().out

    def test_a_broken_setting_is_reported_and_no_traceback(self, settings, capsys):
        settings.JOBS = {"QUEUES": 7}
        assert exit_code() == 1
        assert "jobs.E003" in capsys.readouterr().out


def run_doctor(url: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", "doctor", *arguments],
        cwd=project.BASE_DIR,
        env={**os.environ, "DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "backupsched.settings", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.django_db(transaction=True)
class TestALostConnection:
    def test_one_that_comes_back_costs_one_finding(self, monkeypatch):
        monkeypatch.setitem(doctor.EXAMINATIONS, "version", self.lose)
        found = {one.name: one for one in doctor.examine()}
        assert found["version"].severity is WARNING
        assert "terminating connection" in found["version"].what
        assert found["migrations"].severity is OK

    def test_a_database_that_stays_away_ends_it_without_a_traceback(self, monkeypatch):
        def lose_for_good(cursor: Any, now: datetime) -> Finding:
            for name, value in {"HOST": "127.0.0.1", "PORT": "1"}.items():
                monkeypatch.setitem(connection.settings_dict, name, value)
            return self.lose(cursor, now)

        monkeypatch.setitem(doctor.EXAMINATIONS, "version", lose_for_good)
        with pytest.raises(CommandError, match="does not answer") as error:
            call_command("doctor")
        assert error.value.returncode == 2

    @staticmethod
    def lose(cursor: Any, now: datetime) -> Finding:
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        return ok("version", "")


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("wake", "severity"), [("listen", "warning"), ("poll", "ok")])
def test_a_real_pooler_is_noticed(pooled_url, wake, severity):
    ended = run_doctor(pooled_url, "--json", *only("pooler", "isolation"), BACKUPSCHED_WAKE=wake)
    found = {one["name"]: one for one in json.loads(ended.stdout)}
    assert (found["pooler"]["severity"], found["pooler"]["numbers"]) == (severity, {"pooled": True})
    assert found["isolation"]["severity"] == "ok"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("url", "code", "said"),
    [("postgresql://127.0.0.1:1/none", 2, "the database does not answer"), ("sqlite://x", None, "only PostgreSQL")],
)
def test_as_a_process_it_names_a_database_that_is_away(url, code, said):
    ended = run_doctor(url)
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.returncode == code if code else ended.returncode > 0


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_as_a_process_it_looks_at_the_database_that_it_is_given():
    ended = run_doctor(database_url(), "--json", *only("migrations", "schema", "workers"))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert [(one["name"], one["severity"]) for one in json.loads(ended.stdout)] == [
        ("migrations", "ok"),
        ("schema", "ok"),
        ("workers", "warning"),
    ]


class TestTheReport:
    FINDINGS = [ok("a", "fine"), warning("b", "so so", "look " * 40), problem("c", "bad", "act")]

    def test_the_worst_comes_first_and_what_to_do_below_it(self):
        lines = report(self.FINDINGS, width=60).splitlines()
        assert [line.split()[0] for line in lines if not line.startswith(" ")] == ["problem", "warning", "ok", "1"]
        assert lines[1].strip() == "→ act"

    @pytest.mark.parametrize("width", [60, 120])
    def test_no_line_is_wider_than_the_terminal(self, width):
        assert max(map(len, report(self.FINDINGS, width=width).splitlines())) <= width

    def test_only_a_terminal_gets_colours(self):
        assert "\x1b" not in report(self.FINDINGS, width=60)
        assert "\x1b[" in report(self.FINDINGS, width=60, colours=True)

    @pytest.mark.parametrize(
        ("seconds", "said"), [(0.4, "0 s"), (59, "59 s"), (61, "1 min 1 s"), (7500, "2 h 5 min"), (90_000, "1 d 1 h")]
    )
    def test_a_duration_is_said_in_its_two_largest_units(self, seconds, said):
        assert span(seconds) == said

    def test_a_long_list_is_cut_and_the_rest_counted(self):
        assert listed(list("abcdefg")) == "a; b; c; d; e; and 2 more"
        assert listed(list("ab")) == "a; b"
