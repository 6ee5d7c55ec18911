"""The periodic tasks: installed once, on their grid, corrected; a sweep by a person; the cluster that runs them."""

import json
import os
import signal
from datetime import UTC, datetime, timedelta
from pydoc import locate
from typing import Any

import pytest
from django.core.management import CommandError
from django_q.models import Schedule as PeriodicTask

from jobs.clock import database_clock
from jobs.models import BacklogRecord
from jobs.states import Status, WaitingFor
from operations.periodic_tasks import WANTED
from operations.task_installation import install
from tests.commands import command
from tests.factories import make_record
from tests.jobs.worker_processes import Programs
from tests.threads import at_once
from tests.waiting import PATIENCE, eventually

NOW = datetime(2026, 3, 2, 12, 3, 20, tzinfo=UTC)
HOURLY = "backlog sweep: up to 7 days old, hourly"


run, _ = command("qcluster install")
sweep, _ = command("backlog sweep")


def actions(**options: Any) -> set[str]:
    return {step.action for step in install(**({"now": NOW} | options))}


def change_of(name: str) -> dict[str, tuple[Any, Any]]:
    [step] = [step for step in install(now=NOW) if step.name == name]
    return step.changes


def task(name: str) -> PeriodicTask:
    return PeriodicTask.objects.get(name=name)


@pytest.mark.django_db
class TestInstalling:
    def test_makes_the_tick_the_pruning_and_a_sweep_for_each_tier(self):
        assert actions() == {"installed"}
        fields = ("name", "func", "args", "schedule_type", "minutes")
        sweep = "jobs.periodic.process_backlog"
        assert list(PeriodicTask.objects.order_by("pk").values_list(*fields)) == [
            ("backlog tick", "jobs.periodic.tick", None, "I", 1),
            ("backlog prune", "jobs.periodic.prune", None, "H", None),
            ("backlog sweep: up to 1 day old, every 5 minutes", sweep, "(1,)", "I", 5),
            (HOURLY, sweep, "(7,)", "H", None),
            ("backlog sweep: up to 14 days old, every 12 hours", sweep, "(14,)", "I", 720),
            ("backlog sweep: up to 30 days old, daily", sweep, "(30,)", "I", 1440),
            ("backlog sweep: up to 180 days old, every 96 hours", sweep, "(180,)", "I", 5760),
            ("backlog sweep: up to 360 days old, every 192 hours", sweep, "(360,)", "I", 11520),
            ("backups at risk", "fleet.foreseeing.at_risk.keep", None, "I", 15),
            ("alert digests", "alerting.digest.send_due", None, "H", None),
        ]
        assert all(callable(locate(wanted.func)) for wanted in WANTED)
        before = list(PeriodicTask.objects.order_by("pk").values())
        assert actions() == {"unchanged"}
        assert list(PeriodicTask.objects.order_by("pk").values()) == before

    def test_sweeps_run_first_at_their_next_slot_and_the_others_at_once(self):
        install(now=NOW)
        firsts = {one.name: one.next_run for one in PeriodicTask.objects.all()}
        assert firsts["backlog tick"] == firsts["backlog prune"] == NOW
        assert firsts["backlog sweep: up to 1 day old, every 5 minutes"] == datetime(2026, 3, 2, 12, 5, tzinfo=UTC)
        assert firsts[HOURLY] == datetime(2026, 3, 2, 13, tzinfo=UTC)
        assert firsts["backlog sweep: up to 30 days old, daily"] == datetime(2026, 3, 3, tzinfo=UTC)
        for wanted in WANTED[2:]:
            assert firsts[wanted.name].timestamp() % wanted.every == 0

    @pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
    def test_django_q2_stays_on_the_grid_also_over_a_change_of_clocks(self, settings, zone):
        settings.TIME_ZONE = zone
        install(now=NOW)
        for wanted in WANTED[2:]:
            one = task(wanted.name)
            for _ in range(40):
                following = one.calculate_next_run()
                assert (following - one.next_run).total_seconds() == wanted.every
                one.next_run = following


@pytest.mark.django_db
class TestCorrecting:
    @pytest.fixture(autouse=True)
    def installed(self):
        install(now=NOW)

    @pytest.mark.parametrize(
        ("field", "before", "after"),
        [
            ("schedule_type", "D", "H"),
            ("repeats", 3, -1),
            ("args", "(8,)", "(7,)"),
            ("func", "jobs.periodic.prune", "jobs.periodic.process_backlog"),
            ("kwargs", "max_records=5", None),
            ("cluster", "another", None),
            ("next_run", None, datetime(2026, 3, 2, 13, tzinfo=UTC)),
            ("next_run", NOW + timedelta(minutes=2), datetime(2026, 3, 2, 13, tzinfo=UTC)),
            ("next_run", datetime(2026, 3, 2, 15, tzinfo=UTC), datetime(2026, 3, 2, 13, tzinfo=UTC)),
        ],
    )
    def test_puts_back_what_a_person_changed_and_says_so(self, field, before, after):
        PeriodicTask.objects.filter(name=HOURLY).update(**{field: before})
        assert change_of(HOURLY) == {field: (before, after)}
        assert getattr(task(HOURLY), field) == after
        assert actions() == {"unchanged"}

    def test_a_run_that_is_late_is_left_to_the_qcluster_and_an_empty_text_from_the_admin_is_no_change(self):
        late = datetime(2026, 2, 20, 4, tzinfo=UTC)
        PeriodicTask.objects.filter(name=HOURLY).update(next_run=late, kwargs="", cluster="")
        assert actions() == {"unchanged"}
        assert task(HOURLY).next_run == late

    def test_a_host_whose_clock_is_a_little_ahead_is_no_change(self):
        PeriodicTask.objects.filter(name="backlog tick").update(next_run=NOW + timedelta(seconds=90))
        assert change_of("backlog tick") == {}
        # by its own clock it is one o'clock already, and the sweep of then has been
        PeriodicTask.objects.filter(name=HOURLY).update(next_run=datetime(2026, 3, 2, 14, tzinfo=UTC))
        steps = install(now=datetime(2026, 3, 2, 12, 59, 30, tzinfo=UTC))
        assert [step.action for step in steps if step.name == HOURLY] == ["unchanged"]

    def test_a_renamed_one_is_known_by_what_it_calls(self):
        PeriodicTask.objects.filter(name=HOURLY).update(name="backlog sweep, 7 days")
        assert change_of(HOURLY) == {"name": ("backlog sweep, 7 days", HOURLY)}
        assert PeriodicTask.objects.count() == len(WANTED)

    def test_what_a_person_added_is_left_and_named(self):
        PeriodicTask.objects.create(name="mine", func="jobs.periodic.process_backlog", args="(7,)")
        PeriodicTask.objects.create(name="another's", func="elsewhere.work")
        steps = install(now=NOW)
        assert [(step.name, step.action) for step in steps if step.action != "unchanged"] == [
            ("mine: jobs.periodic.process_backlog(7,)", "left")
        ]
        assert PeriodicTask.objects.count() == len(WANTED) + 2


@pytest.mark.django_db
def test_the_command_shows_what_it_installs_changes_and_leaves_and_a_dry_run_changes_nothing():
    assert run("--dry-run").count("installed  ") == len(WANTED)
    assert not PeriodicTask.objects.exists()
    assert run().count("installed  ") == len(WANTED)
    PeriodicTask.objects.filter(name="backlog tick").update(minutes=7)
    PeriodicTask.objects.create(name="mine", func="jobs.periodic.prune")
    facts = json.loads(run("--json", "--dry-run"))
    assert facts["tasks"][0] == {"name": "backlog tick", "action": "changed", "changes": {"minutes": [7, 1]}}
    assert (len(facts["tasks"]), task("backlog tick").minutes) == (len(WANTED) + 1, 7)
    lines = [line.split() for line in run().splitlines()]
    assert lines[:3] == [["changed", "backlog", "tick"], ["minutes:", "7", "→", "1"], ["unchanged", "backlog", "prune"]]
    assert lines[-1] == ["left", "mine:", "jobs.periodic.prune()"]


@pytest.mark.django_db(transaction=True)
def test_two_at_once_make_each_row_once():
    at_once(install, install, install)
    assert PeriodicTask.objects.count() == len(WANTED)


def make_waiting(hours: float) -> BacklogRecord:
    """Its last failure was a moment ago: a sweep of the clock would not take it."""
    now = database_clock()
    values = {"run_after": now + timedelta(days=9), "failures": 3, "last_failure_at": now}
    return make_record(Status.WAITING, waiting_for=WaitingFor.SWEEP, inserted_at=now - timedelta(hours=hours), **values)


@pytest.mark.django_db
class TestASweepByHand:
    def test_makes_ready_what_is_young_enough_also_what_has_just_failed(self):
        young, old = make_waiting(71), make_waiting(73)
        assert sweep("3") == "1 record is ready; nothing up to 3 days old waits for a sweep any more.\n"
        young.refresh_from_db()
        old.refresh_from_db()
        assert (young.status, old.status) == (Status.READY, Status.WAITING)

    def test_a_dry_run_says_how_many_it_would_be_and_json_has_the_facts(self):
        make_waiting(1)
        make_waiting(2)
        assert sweep("1", "--dry-run") == "2 records would be ready.\n"
        assert sweep("1", "--dry-run", "--max-records", "1").startswith("1 record would be ready; older ones were left")
        assert not BacklogRecord.objects.ready().exists()
        assert json.loads(sweep("1", "--json", "--max-records", "1")) == {
            "max_age_days": 1, "ready": 1, "left_some": True, "done_before": False, "skipped": False, "dry_run": False,
        }  # fmt: skip

    def test_bad_usage_is_named(self):
        with pytest.raises(CommandError, match="DAYS: '0' is not a number of days: from 1 to 360"):
            sweep("0")


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_it_waits_for_a_database_that_is_away_and_ends_with_its_process_group(programs: Programs) -> None:
    cluster = programs.run("manage.py", "qcluster", DATABASE_URL="postgresql://127.0.0.1:1/none")
    eventually(lambda: "waiting for the database" in programs.log())
    assert cluster.poll() is None
    assert "Traceback" not in programs.log()
    asked_as_a_group = programs.run("manage.py", "qcluster")
    eventually(lambda: "running." in programs.log(1))
    os.killpg(asked_as_a_group.pid, signal.SIGTERM)
    assert asked_as_a_group.wait(PATIENCE) == 0
