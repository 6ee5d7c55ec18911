"""The doctor on the tables: schema, dead rows, the horizon and the head of the claim index."""

from io import StringIO

import pytest
from django.apps import apps
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from jobs.clock import database_clock
from jobs.models import BacklogRecord
from jobs.states import Status
from jobs.worker.process import WorkerProcess
from operations import doctor
from operations.doctor import schema, tables
from tests.factories import make_record
from tests.operations.doctor.examining import OK, PROBLEM, WARNING, finding, in_time, ready_rows, run
from tests.threads import another_connection


@pytest.mark.django_db
class TestTheTables:
    @pytest.mark.parametrize(("newer", "message"), [(True, "of a newer version: jobs 0999_later"), (False, "lacks 1")])
    def test_a_worker_refuses_to_start_on_tables_that_are_not_its_own(self, newer, message, monkeypatch):
        monkeypatch.setattr(WorkerProcess, "install_signal_handlers", lambda worker: None)  # they would stay here
        if newer:
            MigrationRecorder(connection).record_applied("jobs", "0999_later")
            MigrationRecorder(connection).record_applied("removed", "0001_initial")
        else:
            MigrationRecorder.Migration.objects.filter(app="jobs").latest("name").delete()
        assert finding("migrations").severity is PROBLEM
        with pytest.raises(CommandError, match=message) as refused:
            call_command("worker")
        assert refused.value.returncode == 2

    def test_a_missing_table_is_said_and_not_raised(self):
        run("DROP TABLE jobs_pausedqueue")
        found = finding("paused_queues")
        assert found.severity is WARNING
        assert "jobs_pausedqueue" in found.what

    @pytest.mark.parametrize(
        ("broken", "name"),
        [
            ("DROP INDEX schedule_due", "schedule_due"),
            ("DROP INDEX one_open_alert_per_subject", "one_open_alert_per_subject"),
            ("ALTER TABLE jobs_backlogrecord DROP CONSTRAINT running_iff_leased", "running_iff_leased"),
            ("ALTER TABLE jobs_attempt DROP CONSTRAINT jobs_attempt_pkey CASCADE", "the primary key"),
            ("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'schedule_due'::regclass", "schedule_due"),
            (
                "ALTER TABLE jobs_backlogrecord DROP CONSTRAINT failed_at_iff_failures;"
                "ALTER TABLE jobs_backlogrecord ADD CONSTRAINT failed_at_iff_failures CHECK (failures >= 0) NOT VALID",
                "failed_at_iff_failures",
            ),
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
        assert found.do.count("INDEX") == found.do.count("INDEX CONCURRENTLY") + found.do.count("REINDEX")
        if found.do != "REINDEX INDEX CONCURRENTLY schedule_due;":  # it cannot run in a test's transaction
            run(found.do.replace("CONCURRENTLY ", ""))
            assert finding("schema").severity is OK

    @pytest.mark.parametrize(
        ("broken", "name"),
        [
            ("DROP VIEW operations_attempt_entry", "operations_attempt_entry"),
            ("DROP FUNCTION jobs_claim_beside_throttles", "jobs_claim_beside_throttles"),
        ],
    )
    def test_a_missing_view_or_function_is_a_problem_with_the_sql_for_it(self, broken, name):
        run(broken)
        found = finding("schema")
        assert (found.severity, found.numbers["names"]) == (PROBLEM, [name])
        printed = StringIO()
        call_command("sqlmigrate", *found.do.split("sqlmigrate ")[1].split()[:2], stdout=printed)
        run(printed.getvalue().replace("BEGIN;", "").replace("COMMIT;", ""))
        assert finding("schema").severity is OK

    def test_a_trigger_of_the_audit_that_is_gone_is_named_and_migrate_makes_it(self):
        run("DROP TRIGGER audit_of_jobs_throttle ON jobs_throttle")
        found = finding("schema")
        assert (found.severity, found.numbers["names"]) == (PROBLEM, ["jobs_throttle"])
        call_command("migrate", verbosity=0)
        assert finding("schema").severity is OK

    def test_the_tables_of_every_app_of_ours_are_looked_at(self):
        with_tables = {model._meta.app_label for model in apps.get_models()}
        assert {name for name in with_tables if (settings.BASE_DIR / name).is_dir()} == set(schema.OURS)

    def test_tables_that_are_not_there_are_named_without_all_that_belongs_to_them(self):
        run("ALTER TABLE operations_ratecount RENAME TO lost")
        found = finding("schema")
        assert (found.severity, found.what) == (PROBLEM, "the database lacks operations_ratecount")
        assert "migrate" in found.do

    @pytest.mark.parametrize(
        ("broken", "severity"),
        [
            ("jobs_backlogrecord RESET (fillfactor)", WARNING),
            ("jobs_backlogrecord SET (autovacuum_vacuum_scale_factor = 0.2)", WARNING),
            ("jobs_backlogrecord SET (autovacuum_vacuum_scale_factor = 0.01, fillfactor = 70)", OK),
            ("jobs_backlogrecord SET (autovacuum_enabled = false)", PROBLEM),
            ("jobs_attempt SET (autovacuum_enabled = off)", PROBLEM),
        ],
    )
    def test_a_lost_table_setting_is_found_with_the_sql_for_it_and_a_stricter_one_is_ok(self, broken, severity):
        run(f"ALTER TABLE {broken}")
        found = finding("table_settings")
        assert found.severity is severity
        assert severity is not PROBLEM or found.numbers["tables"] == [broken.split()[0]]
        if found.do:
            run(found.do)
            assert finding("table_settings").severity is OK

    def test_a_server_that_counts_no_dead_rows_is_a_problem(self):
        run("SET LOCAL track_counts = off")
        found = finding("table_settings")
        assert (found.severity, "track_counts = on" in found.do) == (PROBLEM, True)


@pytest.mark.django_db
class TestTheHorizon:
    @pytest.mark.parametrize(("minutes", "severity"), [(4.9, OK), (5.1, WARNING), (61, PROBLEM)])
    def test_a_snapshot_that_is_kept_is_named_with_its_holder(self, minutes, severity):
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

    @pytest.mark.parametrize(
        ("statement", "pins"),
        [("INSERT INTO jobs_pausedqueue (name, reason) VALUES ('elsewhere', '')", True), ("SELECT 1", False)],
    )
    def test_an_open_transaction_pins_it_once_it_has_written(self, statement, pins):
        """Autovacuum may begin its work at this moment, and holds a snapshot then."""
        with another_connection() as other:
            other.execute(statement)
            found = finding("horizon", now=in_time(minutes=6))
            holders = {holder["holder"] for holder in found.numbers.get("holders", [])}
            assert (f"pid {other.info.backend_pid}" in holders) is pins

    @pytest.mark.parametrize(
        ("kind", "do"),
        [
            ("prepared transaction", "ROLLBACK PREPARED 'it''s'"),
            ("replication slot", "pg_drop_replication_slot('it''s')"),
        ],
    )
    def test_what_has_no_age_in_seconds_counts_by_transactions(self, kind, do):
        holder = dict.fromkeys(tables.HOLDER, "") | {"kind": kind, "holder": "it's", "seconds": None}
        for transactions, severity in ((99_999, OK), (100_000, WARNING), (1_000_000, PROBLEM)):
            found = tables.judge_holders([holder | {"transactions": transactions}])
            assert found.severity is severity
            assert severity is OK or (do in found.do and f"{transactions:,} transactions" in found.what)

    def test_the_do_is_for_the_one_that_makes_it_a_problem(self):
        young = dict.fromkeys(tables.HOLDER, "") | {"kind": "session", "holder": "pid 7", "seconds": 400.0}
        old = young | {"holder": "pid 8", "seconds": 4000.0, "transactions": 5}
        found = tables.judge_holders([young | {"transactions": 9}, old])
        assert found.severity is PROBLEM
        assert "pg_terminate_backend(8)" in found.do


def finish_the_first(count: int) -> None:
    first = BacklogRecord.objects.ready().in_claim_order().values("pk")[:count]
    BacklogRecord.objects.filter(pk__in=first).update(status=Status.SUCCEEDED, finished_at=database_clock())


@pytest.mark.django_db(transaction=True)
class TestTheHeadOfTheClaimIndex:
    @pytest.fixture(autouse=True)
    def small_thresholds(self, monkeypatch):
        monkeypatch.setattr(tables, "WARN_BUFFERS", 40)
        monkeypatch.setattr(tables, "PROBLEM_BUFFERS", 10_000)

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
        assert (head["queue"], head["rows"]) == ("default", tables.BATCH)
        assert head["wasted"] >= 40
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

    def test_the_worst_head_decides(self):
        head = {"queue": "a", "lane": 0, "rows": 100, "buffers": 120, "milliseconds": 1.0, "sorts": False, "wasted": 0}
        for wasted, severity in ((39, OK), (40, WARNING), (9_999, WARNING), (10_000, PROBLEM)):
            worse = head | {"queue": "b", "lane": 7, "wasted": wasted}
            found = tables.judge_heads([head | {"wasted": 39}, worse], "never vacuumed", {})
            assert (found.severity, "queue b lane 7" in found.what) == (severity, severity is not OK)


@pytest.mark.django_db
def test_a_claim_index_in_another_order_is_a_problem():
    run("DROP INDEX backlog_claim_order; CREATE INDEX backlog_claim_order ON jobs_backlogrecord (queue, lane, id)")
    make_record()
    found = finding("claim_head")
    assert found.severity is PROBLEM
    assert "sorts" in found.what
