"""The doctor on the tables: their migrations, their settings and the horizon."""

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from jobs.worker.process import WorkerProcess
from operations.conditions import tables
from tests.operations.conditions.examining import OK, PROBLEM, WARNING, finding, in_time, run
from tests.threads import another_connection


@pytest.mark.django_db
class TestTheTables:
    @pytest.mark.parametrize(("newer", "message"), [(True, r"cannot use \(it has no jobs 0999_l"), (False, "lacks 1")])
    def test_a_worker_refuses_to_start_on_tables_that_are_not_its_own(self, newer, message, monkeypatch):
        monkeypatch.setattr(WorkerProcess, "install_signal_handlers", lambda worker: None)  # they would stay here
        if newer:
            MigrationRecorder(connection).record_applied("jobs", "0999_later")
            MigrationRecorder(connection).record_applied("removed", "0001_initial")
            assert finding("migrations").severity is WARNING, "it may have been expanded only"
            run("COMMENT ON TABLE django_migrations IS 'programs need: jobs.0999_later'")
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

    def test_a_trigger_of_the_audit_that_is_gone_is_named_and_migrate_makes_it(self):
        run("DROP TRIGGER audit_of_jobs_throttle ON jobs_throttle")
        found = finding("migrations")
        assert (found.severity, found.numbers["triggers"]) == (PROBLEM, ["jobs_throttle"])
        call_command("migrate", verbosity=0)
        assert finding("migrations").severity is OK

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
            assert severity is OK or (do in found.remedy and f"{transactions:,} transactions" in found.text)

    def test_the_do_is_for_the_one_that_makes_it_a_problem(self):
        young = dict.fromkeys(tables.HOLDER, "") | {"kind": "session", "holder": "pid 7", "seconds": 400.0}
        old = young | {"holder": "pid 8", "seconds": 4000.0, "transactions": 5}
        found = tables.judge_holders([young | {"transactions": 9}, old])
        assert found.severity is PROBLEM
        assert "pg_terminate_backend(8)" in found.remedy
