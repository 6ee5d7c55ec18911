"""`manage.py doctor`: what it prints, its exit codes, and what it does without a database."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from datetime import datetime
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings as project
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from alerting import watching
from declarations.surfaces.terminal import text_of
from fleet.conditions import plans
from operations import conditions
from operations.conditions import schedules
from operations.finding import CONDITIONS, READING_SECONDS, Condition, ExaminedCondition, Finding, Look, ok, rows
from operations.joint_examination import examine_together
from operations.management.commands.doctor import report
from schedules.models import Schedule
from sources.models import Policy
from tests.factories import make_record, make_schedule
from tests.operations.conditions.examining import OK, PROBLEM, WARNING, finding
from tests.sources.factories import make_policy


def exit_code(*arguments: str) -> int:
    try:
        call_command("doctor", *arguments)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def only(*names: str) -> list[str]:
    """Options that leave out all but these."""
    return [f"--skip={name}" for name in conditions.names() if name not in names]


@pytest.mark.django_db
class TestTheCommand:
    def test_a_problem_fails_it_and_a_warning_does_not_and_json_has_every_finding(self, capsys):
        assert exit_code(*only("workers")) == 0
        assert "0 problems, 1 warning, 0 ok" in capsys.readouterr().out
        make_record()
        assert exit_code(*only("workers", "version")) == 1
        assert "1 problem, 0 warnings, 1 ok" in capsys.readouterr().out
        assert exit_code("--json") == 1
        found = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
        assert list(found) == list(conditions.names())
        keys = frozenset({"name", "severity", "what", "do", "numbers", "found"})
        assert {frozenset(one) for one in found.values()} == {keys}
        assert [each["subject"] for each in found["workers"]["found"]] == ["workers"]
        assert found["workers"]["severity"] == "problem"

    def test_bad_usage_and_a_broken_setting_are_named_and_no_traceback(self, settings, capsys):
        with pytest.raises(CommandError, match="no finding 'weather'; there are settings, version") as error:
            call_command("doctor", "--skip", "weather")
        assert error.value.returncode == 2
        settings.JOBS = {"QUEUES": 7}
        assert exit_code() == 1
        assert "jobs.E003" in capsys.readouterr().out


@pytest.mark.django_db(transaction=True)
class TestALostConnection:
    def test_one_that_comes_back_costs_one_finding(self, monkeypatch):
        monkeypatch.setitem(CONDITIONS, "version", Condition("version", self.lose, ""))
        found = {one.name: one for one in conditions.examine()}
        assert found["version"].severity is WARNING
        assert "terminating connection" in found["version"].what
        assert found["migrations"].severity is OK

    def test_a_database_that_stays_away_ends_it_without_a_traceback(self, monkeypatch):
        def lose_for_good(look: Look) -> list[Finding]:
            for name, value in {"HOST": "127.0.0.1", "PORT": "1"}.items():
                monkeypatch.setitem(connection.settings_dict, name, value)
            return self.lose(look)

        monkeypatch.setitem(CONDITIONS, "version", Condition("version", lose_for_good, ""))
        with pytest.raises(CommandError, match="does not answer") as error:
            call_command("doctor")
        assert error.value.returncode == 2

    @staticmethod
    def lose(look: Look) -> list[Finding]:
        return [ok("") for _ in rows("SELECT pg_terminate_backend(pg_backend_pid())")]


@pytest.mark.django_db
@pytest.mark.parametrize("together", [True, False])
def test_what_several_conditions_read_is_asked_once_also_if_it_fails(together: bool):
    asked = Counter[str]()

    def fail(name: str, now: datetime) -> Any:
        asked[name] += 1
        return rows("SELECT 1 / 0")

    read = partial(fail, "rows")
    look = Look(timezone.now(), partial(fail, "summary"), partial(fail, "late"))
    answers = (lambda look: look.summary, lambda look: look.of(read), lambda look: look.late_before)
    all_of_them = [Condition(f"{number}", answers[number % 3], "") for number in range(6)]
    found = examine_together(all_of_them, look) if together else [each.examine(look)[0] for each in all_of_them]
    assert [(each.kind, "division by zero" in each.text) for each in found] == [(f"{each}", True) for each in range(6)]
    assert asked == {"summary": 1, "rows": 1, "late": 1}


@pytest.mark.django_db
def test_the_doctor_reads_crons_and_windows_for_which_a_round_has_no_time(monkeypatch):
    """A round reads the rest in the next minute; the doctor is a process that looks once."""
    for number in range(5):
        make_policy(cron=f"{number} 9 * * *", window=[{"days": "mon-sun", "start": f"1{number}:00", "end": "20:00"}])
    never = [{"days": "never"}]
    Policy.objects.filter(pk=make_policy(cron="7 9 * * *").pk).update(window=never, copy_window=[*never, *never])
    for wrong in ({"cron": "99 * * * *"}, {"zone": "Mars/Olympus"}):
        Schedule.objects.filter(pk=make_schedule().pk).update(**wrong)
    Schedule.objects.update(next_trigger_at=timezone.now())
    for module in (plans, schedules):  # each look at the clock takes longer than half of the time of a round
        clock = SimpleNamespace(monotonic=count(step=READING_SECONDS * 0.6).__next__)
        monkeypatch.setattr(module, "time", clock)
    for name in ("windows", "schedules"):
        assert CONDITIONS[name].examine(Look(timezone.now())) == []
        assert len(finding(name).found) == 2


@pytest.mark.django_db
def test_assignments_are_compared_with_the_periods_of_policies_not_with_those_of_events():
    policy, _ = make_policy(), make_schedule()
    look = Look(timezone.now(), late=lambda now: now)
    with CaptureQueriesContext(connection) as asked:
        assert plans.due.examine(look) == plans.dates.examine(look) == []
    sent = [each["sql"] for each in asked if "unnest(" in each["sql"]]
    assert [f"unnest('{{{policy.schedule_id}}}'::" in sql for sql in sent] == [True, True], sent


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_a_real_pooler_is_noticed(pooled_url):
    ended = subprocess.run(
        [sys.executable, "manage.py", "doctor", "--json", *only("pooler", "isolation")],
        cwd=project.BASE_DIR,
        env={
            **os.environ, "DATABASE_URL": pooled_url, "DJANGO_SETTINGS_MODULE": "backupsched.settings",
            "BACKUPSCHED_WAKE": "listen",
        },
        capture_output=True,
        timeout=60,
        check=False,
    )  # fmt: skip
    found = {one["name"]: one for one in json.loads(ended.stdout)}
    assert (found["pooler"]["severity"], found["pooler"]["numbers"]) == ("warning", {"pooled": True})
    assert found["isolation"]["severity"] == "ok"


def test_the_worst_comes_first_and_what_to_do_below_it():
    findings = [
        ExaminedCondition("a", OK, "fine", "", {}, []),
        ExaminedCondition("b", WARNING, "so so", "look " * 40, {}, []),
        ExaminedCondition("c", PROBLEM, "", "act", {}, []),
    ]
    lines = text_of(report(findings)).splitlines()
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == ["problem", "warning", "ok", "1"]
    assert lines[1].strip() == "→ act"
    assert lines[-1] == "1 problem, 1 warning, 1 ok"


def test_the_documentation_explains_each_finding():
    explained = re.findall(r"^\| `(\w+)` \|", (project.BASE_DIR / "docs" / "trouble.md").read_text(), re.MULTILINE)
    assert set(conditions.names()) - set(explained) == set()


def test_each_condition_that_is_an_alert_is_declared():
    assert watching.KINDS.keys() <= set(conditions.names())
    assert watching.ONLY.keys() | set(watching.LATE_ALONE) <= watching.KINDS.keys()


FOUND_BEFORE = """
settings version migrations writable durability isolation pooler connections clocks workers silent_workers
dead_letters unserved_queues on_hold paused_queues open_breakers unknown_kinds table_settings horizon sockets
expired_leases set_aside periodic_tasks sweeps protection repository_modes held_back broken_off damage places checks
hooks owed_hooks copies drills self_backup repositories_usable alert_routes
"""


def test_no_finding_of_before_is_missed():
    """The names by which monitors may skip them; of the watchdog's see `tests/alerting/test_watchdog.py`."""
    assert set(FOUND_BEFORE.split()) - set(conditions.names()) == set()
