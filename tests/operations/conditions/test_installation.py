"""The doctor on the installation: settings, server, clocks and connections, each finding made for real."""

from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import pytest
from django.conf import settings as project
from django.core.checks import Error
from django.core.management import call_command
from django.db import connection

from backupsched.embedded.server import SETTINGS
from jobs import clock, conf
from jobs.clock import database_clock
from jobs.handlers import Kind
from jobs.models import BacklogRecord, Worker
from jobs.worker.database_threads import THREADS
from jobs.worker.heartbeat import clock_skew
from operations import checks, conditions
from operations.conditions import installation
from operations.finding import CONDITIONS, Condition, Finding, Look, ok, rows
from tests.factories import make_record, make_schedule
from tests.operations.conditions.examining import OK, PROBLEM, WARNING, finding, in_time, run, serve, succeed_async
from tests.threads import another_connection


@pytest.mark.django_db
class TestASystemInOrder:
    @pytest.fixture(autouse=True)
    def in_order(self, capsys):
        call_command("qcluster", "install")
        serve(default=4)
        make_record(run_after=database_clock())
        make_schedule(next_trigger_at=in_time(minutes=1))  # there is something to do, without sources

    def test_every_finding_is_ok_but_the_test_servers_own_durability(self):
        found = conditions.examine()
        assert [one.name for one in found] == list(conditions.names())
        assert [one for one in found if one.severity is not OK and one.name != "durability"] == []
        assert [one for one in found if one.severity is OK and one.do] == []

    def test_nothing_that_it_sets_outlives_it(self):
        conditions.examine()
        with connection.cursor() as cursor:
            cursor.execute("SELECT current_setting('statement_timeout')")
            assert cursor.fetchone() == ("0",)
        make_record()

    def test_an_examination_cannot_write(self, monkeypatch):
        def meddle(look: Look) -> list[Finding]:
            return [ok("") for _ in rows("DELETE FROM jobs_backlogrecord RETURNING 1")]

        monkeypatch.setitem(CONDITIONS, "version", Condition("version", meddle, ""))
        found = finding("version")
        assert found.severity is WARNING
        assert "read-only" in found.what
        assert BacklogRecord.objects.count() == 1

    def test_what_takes_too_long_is_cut_short_and_said(self, monkeypatch):
        monkeypatch.setattr("operations.finding.STATEMENT_SECONDS", 0.2)
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
        assert (found.severity, [each.subject for each in found.found]) == (WARNING, ["jobs.W016"])
        assert "'catch_up'" in found.do

    def test_a_kind_without_a_handler_is_a_problem(self, own_registry):
        own_registry.add(Kind("other", home_queue="nowhere"))
        assert finding("settings").severity is PROBLEM

    def test_settings_that_cannot_work_end_it_there_even_when_skipped(self, settings):
        settings.JOBS = {"LEASE_SECONDS": "soon"}
        for skip in ((), ("settings",)):
            [found] = conditions.examine(skip=skip)
            assert (found.name, found.severity) == ("settings", PROBLEM)


def test_a_database_of_another_kind_is_named_and_not_asked(monkeypatch):
    """The test may not use the database."""
    wrong = Error("not PostgreSQL", hint="use it", id="jobs.E011")
    monkeypatch.setattr(checks, "check_database", lambda: [wrong])
    [found] = conditions.examine()
    assert (found.severity, found.what) == (PROBLEM, "jobs.E011 not PostgreSQL")


@pytest.mark.django_db
def test_a_table_of_the_watch_that_is_missing_hides_only_what_is_late():
    run("ALTER TABLE alerting_watch RENAME TO lost")
    found = {each.name: each for each in conditions.examine()}
    assert "alerting_watch" in found["ticks"].what
    assert found["open_breakers"].severity is OK


@pytest.mark.django_db
class TestTheServer:
    def test_an_old_postgresql_is_a_problem(self, monkeypatch):
        assert installation.judge_version("13.9", 130_009).severity is PROBLEM
        assert installation.judge_version("14.0", 140_000).severity is OK
        monkeypatch.setattr(installation, "MIN_VERSION", 10_000_000)
        assert finding("version").severity is PROBLEM

    def test_what_a_crash_loses_is_said(self):
        run("SET LOCAL synchronous_commit = off")
        assert finding("durability").severity is not OK
        settings = dict.fromkeys(("fsync", "full_page_writes", "synchronous_commit"), "on")
        for name, severity in (
            ("", OK),
            ("synchronous_commit", WARNING),
            ("fsync", PROBLEM),
            ("full_page_writes", PROBLEM),
        ):
            assert installation.judge_durability(settings | ({name: "off"} if name else {})).severity is severity

    def test_a_server_that_may_not_write_is_a_problem(self):
        assert finding("writable").severity is OK
        run("SET LOCAL default_transaction_read_only = on")
        found = finding("writable")
        assert (found.severity, found.what.partition(":")[0]) == (PROBLEM, "the server is read-only")

    def test_an_isolation_under_which_throttles_do_not_hold_is_a_problem(self):
        run("SET LOCAL default_transaction_isolation = 'serializable'")
        found = finding("isolation")
        assert found.severity is PROBLEM
        assert "serializable" in found.what

    @pytest.mark.parametrize(("listens", "severity"), [(True, WARNING), (False, OK)])
    def test_a_pooler_is_known_by_its_made_up_process_id(self, listens, severity):
        found = installation.judge_pooler(1, 2, listens=listens)
        assert (found.severity, found.numbers["pooled"]) == (severity, True)


@pytest.mark.django_db
class TestClocks:
    @pytest.mark.parametrize(("seconds", "severity"), [(-60, WARNING), (-4, OK), (6, WARNING)])
    def test_this_machines_clock_is_compared_with_the_databases(self, monkeypatch, seconds, severity):
        monkeypatch.setattr(clock, "host_clock", lambda: datetime.now(UTC) + timedelta(seconds=seconds))
        found = finding("clocks")
        assert found.severity is severity
        assert ("this machine's clock is" in found.what) is (severity is WARNING)

    @pytest.mark.parametrize("around", [(-600, 60), (-60, 600), (-600, 600)])
    def test_an_answer_that_comes_late_is_not_a_wrong_clock(self, monkeypatch, around):
        looks = [datetime.now(UTC) + timedelta(seconds=each) for each in around * 2]
        monkeypatch.setattr(clock, "host_clock", lambda: looks.pop(0))
        found = finding("clocks")
        assert found.severity is OK
        assert clock_skew() == 0  # of a worker at its heartbeat

    def test_a_living_workers_clock_is_what_its_heartbeat_wrote(self):
        worker = serve(default=1)
        for skew, severity in ((None, OK), (4.0, OK), (-7.0, WARNING)):
            Worker.objects.update(clock_skew=skew)
            found = finding("clocks")
            assert (found.severity, worker.name in found.what) == (severity, severity is WARNING)
        assert finding("clocks", now=in_time(seconds=61)).severity is OK  # of a dead worker it does not matter


@pytest.mark.django_db
class TestConnections:
    def test_a_unit_of_a_sync_handler_needs_one_and_the_async_handlers_of_a_queue_share_some(self, own_registry):
        own_registry.handler("test", queue="availability")(succeed_async)
        assert installation.connections_of({"default": 16}) == 5 + 16
        assert installation.connections_of({"availability": 200}) == 5 + THREADS
        assert installation.connections_of({"availability": 200, "default": 16, "unhandled": 9}) == 5 + THREADS + 16

    def test_workers_that_may_need_more_than_there_are_is_a_problem(self):
        assert finding("connections").severity is OK
        serve(default=100_000)
        found = finding("connections")
        assert found.severity is PROBLEM
        assert found.numbers["workers_may_need"] == 100_005
        assert finding("connections", now=in_time(seconds=61)).numbers["workers_may_need"] == 0  # it is gone

    def test_the_limit_of_the_role_counts_when_it_is_tighter(self):
        run("ALTER ROLE CURRENT_USER CONNECTION LIMIT 20")
        serve(default=16)
        found = finding("connections")
        assert (found.severity, found.numbers["allowed"]) == (PROBLEM, 20)
        assert "role" in found.what

    def test_a_connection_of_another_program_is_not_there_for_us(self):
        with connection.cursor() as cursor:  # the tests beside this one have their own
            cursor.execute("SELECT quote_ident(current_database())")
            cursor.execute(f"ALTER DATABASE {cursor.fetchone()[0]} CONNECTION LIMIT 300")
        before = finding("connections").numbers["at_most"]
        with ExitStack() as stack:
            for _ in range(10):
                other = stack.enter_context(another_connection())
                other.execute("SET application_name = 'something else'")
            run("SELECT pg_stat_clear_snapshot()")  # within one transaction the statistics stand still
            # some of the test before may just be ending
            assert before + 5 <= finding("connections").numbers["at_most"] <= before + 10

    def test_what_is_open_or_may_be_needed_is_set_against_what_is_allowed(self):
        for workers, ours, severity in (
            (68, 1, OK), (69, 1, WARNING), (88, 1, WARNING), (89, 1, PROBLEM), (0, 101, PROBLEM),
        ):  # fmt: skip
            assert installation.judge_connections("max_connections", 100, ours, ours, workers).severity is severity

    def test_a_default_installation_has_room_for_its_worker(self):
        queues = {name: rule.concurrency for name, rule in conf.queue_rules().items()}
        allowed, needed = int(SETTINGS["max_connections"]) - 3, installation.connections_of(queues)
        assert installation.judge_connections("max_connections", allowed, 1, 1, needed).severity is OK

    def test_a_pool_smaller_than_a_worker_is_a_problem(self):
        for pool in (True, {"min_size": 19}, {"max_size": 19}):
            found = installation.judge_pool(pool, 20)
            assert (found and found.severity) is PROBLEM
        for pool in ({"max_size": 20}, None):
            assert installation.judge_pool(pool, 20) is None
