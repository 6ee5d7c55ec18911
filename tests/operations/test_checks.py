"""The system checks: each wrong setting is named, with what to do; the project's own settings are right."""

from types import SimpleNamespace

import pytest
from django.conf import settings as project
from django.core import checks as framework
from django.core.checks import CheckMessage

from jobs import sweeps
from jobs.handlers import Kind, Registry, Run
from jobs.outcomes import Outcome, Succeeded
from operations import checks


def ids(messages: list[CheckMessage]) -> list[str | None]:
    return [message.id for message in messages]


def succeed(run: Run) -> Outcome:
    return Succeeded()


@pytest.fixture
def own_registry(monkeypatch) -> Registry:
    """An empty one."""
    registry = Registry()
    monkeypatch.setattr(checks, "registry", registry)
    return registry


def test_the_projects_own_settings_are_right(own_registry):
    found = [
        *checks.check_backlog(),
        *checks.check_registry(),
        *checks.check_database(),
        *checks.check_periodic_tasks(),
    ]
    assert found == []


@pytest.mark.parametrize(("name", "number"), [("check_backlog", "E006"), ("check_periodic_tasks", "W016")])
def test_djangos_check_command_runs_them_without_a_database(settings, name, number):
    settings.JOBS = {**project.JOBS, "LEASE_SECONDS": 0}
    settings.Q_CLUSTER = {**project.Q_CLUSTER, "catch_up": True}
    assert f"jobs.{number}" in ids(framework.run_checks(tags=["jobs"]))


class TestTheBacklogsSettings:
    @pytest.mark.parametrize(
        ("changed", "number", "named"),
        [
            ({"LEASE_SECOND": 5}, "E002", "did you mean 'LEASE_SECONDS'"),
            ({"COLOUR": "red"}, "E002", "remove it"),
            ({"QUEUES": {"default": 4}}, "E003", "write {"),
            ({"QUEUES": {"": {}}}, "E003", "characters"),
            ({"QUEUES": {"default": {"concurency": 4}}}, "E002", "did you mean 'concurrency'"),
            ({"QUEUES": {"default": {"concurrency": 0}}}, "E004", "1 or more"),
            ({"QUEUES": {"default": {"concurrency": True}}}, "E004", "whole number"),
            ({"QUEUES": {"default": {"feeds": "nowhere"}}}, "E005", "takes its records over"),
            ({"QUEUES": {"default": {"feeds": "default"}}}, "E005", "takes its records over"),
            ({"LEASE_SECONDS": 0.5}, "E006", "1 or more"),
            ({"LEASE_SECONDS": float("nan")}, "E006", "number of seconds"),
            ({"WAKE": "sleep"}, "E007", "'poll'"),
            ({"KEEP_FINISHED_DAYS": 0}, "E008", "above 0"),
            ({"KEEP_FINISHED_DAYS": 1e9}, "E008", "at most"),
            ({"SWEEP_MAX_RECORDS": 1_000_001}, "E015", "10,000 is usual"),
            ({"BREAKER_AFTER": 0}, "E016", "3 is usual"),
            ({"BREAKER_PROBE_SECONDS": 0.5}, "E017", "1 to 86,400; 60 is usual"),
            ({"BREAKER_LONGEST_SECONDS": float("inf")}, "E017", "900 is usual"),
            ({"BREAKER_LONGEST_SECONDS": 59}, "E018", "the larger number"),
        ],
    )
    def test_a_wrong_one_is_an_error_that_says_what_to_do(self, settings, changed, number, named):
        settings.JOBS = {**project.JOBS, **changed}
        [message] = checks.check_backlog()
        assert (message.id, message.level) == (f"jobs.{number}", framework.ERROR)
        assert named in str(message.hint)

    @pytest.mark.parametrize(
        "changed",
        [
            {"QUEUES": {"a": {}, "b": {"feeds": "a"}, "c": {"feeds": None, "concurrency": 1}}, "WAKE": "poll"},
            {"LEASE_SECONDS": 6, "KEEP_FINISHED_DAYS": 0.5, "SWEEP_MAX_RECORDS": 1, "BREAKER_AFTER": 1},
            {"SWEEP_MAX_RECORDS": sweeps.LARGEST, "BREAKER_PROBE_SECONDS": 1.5, "BREAKER_LONGEST_SECONDS": 1.5},
        ],
    )
    def test_what_the_backlog_takes_is_no_error(self, settings, changed):
        settings.JOBS = {**project.JOBS, **changed}
        assert checks.check_backlog() == []

    @pytest.mark.parametrize("wrong", ["10.0.0.0/8", [10], ["10.0.0.0/99"]])
    def test_so_are_places_that_no_delivery_can_read(self, settings, wrong):
        settings.CALLBACKS_ALLOWED = wrong
        [message] = checks.check_backlog()
        assert (message.id, message.hint[:30]) == ("jobs.E019", "a list of networks and hosts, ")

    def test_a_lease_that_leaves_programs_less_than_a_second_to_end_is_a_warning(self, settings):
        for lease in (1, 5.9):
            settings.JOBS = {**project.JOBS, "LEASE_SECONDS": lease}
            [message] = checks.check_backlog()
            assert (message.id, message.level) == ("jobs.W004", framework.WARNING)
            assert "6 or more" in str(message.hint)

    def test_settings_that_are_no_dict_end_it_there(self, settings):
        settings.JOBS, settings.Q_CLUSTER = ["default"], None
        assert ids([*checks.check_backlog(), *checks.check_periodic_tasks()]) == ["jobs.E001", "jobs.W010"]


@pytest.mark.parametrize(
    ("home", "handled_in", "number"),
    [
        ("nowhere", ["default"], "E009"),
        ("default", ["backups"], "E010"),
        ("default", ["default", "elsewhere"], "W001"),
        ("default", ["default"], None),
    ],
)
def test_a_kind_has_a_handler_at_home_and_all_handlers_a_queue(own_registry, home, handled_in, number):
    own_registry.add(Kind("test", home_queue=home))
    for queue in handled_in:
        own_registry.handler("test", queue=queue)(succeed)
    messages = [message for message in checks.check_registry() if message.id != "jobs.W001" or number == "W001"]
    assert ids(messages) == ([f"jobs.{number}"] if number else [])
    assert all(message.is_serious() == (number != "W001") for message in messages)


class TestTheDatabase:
    @pytest.mark.parametrize(
        ("changed", "expected"),
        [
            ({}, []),
            ({"OPTIONS": {"isolation_level": 2}}, []),
            ({"OPTIONS": {"isolation_level": 3}}, ["jobs.E012"]),
            ({"ATOMIC_REQUESTS": True}, ["jobs.W002"]),
            ({"CONN_MAX_AGE": 0}, ["jobs.W003"]),
            ({"CONN_MAX_AGE": 0, "OPTIONS": {"pool": {"max_size": 20}}}, []),
        ],
    )
    def test_what_the_backlog_cannot_live_with_is_named(self, monkeypatch, changed, expected):
        database = {"OPTIONS": {}, "ATOMIC_REQUESTS": False, "CONN_MAX_AGE": None, **changed}
        monkeypatch.setattr(checks, "connection", SimpleNamespace(vendor="postgresql", settings_dict=database))
        assert ids(checks.check_database()) == expected

    def test_another_system_and_naive_instants_are_errors(self, monkeypatch):
        monkeypatch.setattr(checks, "settings", SimpleNamespace(USE_TZ=False))
        assert ids(checks.check_database()) == ["jobs.E013"]
        monkeypatch.setattr(checks, "connection", SimpleNamespace(vendor="sqlite", settings_dict={}))
        assert ids(checks.check_database()) == ["jobs.E011"]


@pytest.mark.parametrize(
    ("name", "dangerous", "number"),
    [
        ("orm", ["other", ...], "W011"),
        ("broker_class", ["some.Broker"], "W011"),
        ("ack_failures", [False, ...], "W012"),
        ("max_attempts", [0, ...], "W013"),
        ("bulk", [10], "W014"),
        ("workers", [4, ...], "W015"),
        ("queue_limit", [...], "W015"),
        ("catch_up", [True, ...], "W016"),
        ("timeout", [None, ...], "W017"),
        ("retry", [60, ...], "W018"),
        ("scheduler", [False], "W019"),
    ],
)
def test_a_dangerous_setting_or_default_of_django_q2_is_a_warning(settings, name, dangerous, number):
    """`...`: left out."""
    others = {key: value for key, value in project.Q_CLUSTER.items() if key != name}
    for value in dangerous:
        settings.Q_CLUSTER = others if value is ... else {**others, name: value}
        [message] = checks.check_periodic_tasks()
        assert (message.id, message.level) == (f"jobs.{number}", framework.WARNING)
        assert number == "W015" or name in str(message.hint)
