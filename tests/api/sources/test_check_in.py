"""POST /api/check-in and what else an agent may ask for."""

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from jobs.models import BacklogRecord, Decision
from jobs.prepared_statements import execute
from jobs.states import Status
from schedules.models import Schedule
from sources import planning
from sources.models import Source
from sources.planning.standings import STANDINGS
from sources.protection import overdue_assignments
from tests.api.asking import problem_of
from tests.api.sources.agents import Agent
from tests.sources.factories import make_assignment, make_policy, make_source, record_of
from tests.waiting import PATIENCE

pytestmark = pytest.mark.django_db


def refreshed(agent: Agent) -> Source:
    return Source.objects.get(pk=agent.source.pk)


class TestTheAnswer:
    def test_it_says_how_the_source_stands_under_each_policy(self) -> None:
        agent = Agent(make_source(name="laptop", hostname="known", on_battery=True))
        assert [agent.check_in().json()[name] for name in ("status", "assignments")] == ["unprotected", []]
        source, now = refreshed(agent), timezone.now()
        assert (source.hostname, source.on_battery) == ("known", None), "it said nothing, and is here all the same"
        daily, weekly = make_policy(), make_policy()
        make_assignment(daily, agent.source)
        done = make_assignment(
            weekly, agent.source, last_backup_at=now - timedelta(days=1), next_backup_at=now + timedelta(days=1)
        )

        answer = agent.check_in().json()

        assert answer["source"] == "laptop"
        assert answer["interval"] == 300
        assert answer["status"] == "never"
        assert answer["paused"] is False
        assert answer["snoozed_until"] is None
        assert abs(datetime.fromisoformat(answer["server_time"]) - now) < timedelta(minutes=1)
        first, second = answer["assignments"]
        assert (first["policy"], first["status"], first["last_backup_at"]) == (daily.schedule.name, "never", None)
        assert (second["policy"], second["status"], second["backlog"]) == (weekly.schedule.name, "protected", None)
        stored = done.next_backup_at.replace(microsecond=done.next_backup_at.microsecond // 1000 * 1000)
        assert datetime.fromisoformat(second["next_backup_at"]) == stored

    @pytest.mark.parametrize(("periods_ago", "status"), [(0, "due"), (3, "overdue")])
    def test_what_was_missed_is_due_and_after_a_whole_period_overdue(self, periods_ago: int, status: str) -> None:
        agent = Agent()
        policy = make_policy()
        due_since = policy.schedule.period.current(timezone.now()) - timedelta(days=periods_ago)
        started_at = due_since - timedelta(hours=1)
        make_assignment(policy, agent.source, last_backup_at=started_at, next_backup_at=due_since)
        overdue_assignments.look()
        answer = agent.check_in().json()
        assert (answer["status"], answer["assignments"][0]["status"]) == (status, status)

    def test_a_policy_that_cannot_be_read_is_no_error_of_the_agent(self) -> None:
        agent = Agent()
        policy = make_policy()
        now = timezone.now()
        make_assignment(policy, agent.source, last_backup_at=now, next_backup_at=now + timedelta(days=1))
        Schedule.objects.update(cron="nonsense", zone="Nowhere/Here")
        assert agent.get("agent/status").json()["status"] == "protected"
        assert agent.check_in().json()["status"] == "protected"

    def test_it_costs_few_statements(self, django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
        agent = Agent()
        for _ in range(3):
            make_assignment(make_policy(), agent.source)
        agent.check_in()  # which also writes down the first use of the token, and emits
        # token, facts and answer: 2; the move in its transaction: begin, records, end: 3
        with django_assert_max_num_queries(5):
            assert agent.check_in().status_code == 200

    def test_the_status_is_the_same_answer_and_changes_nothing(self) -> None:
        agent = Agent()
        make_assignment(None, agent.source)
        answer = agent.get("agent/status").json()
        assert answer["assignments"][0]["backlog"] is None
        assert refreshed(agent).checked_in_at is None
        assert not BacklogRecord.objects.exists()
        assert not Decision.objects.exists()

    def test_the_backlog_is_looked_up_by_its_index(self) -> None:
        source = make_assignment().source
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off")
            plan = "\n".join(row[0] for row in execute(f"EXPLAIN {STANDINGS}", {"source": source.pk}))
        assert re.search(r"Index Scan using one_unfinished_record_per_subject.*\n\s+Index Cond: .*subject", plan), plan


class TestWhatIsStored:
    def test_the_facts_are_stored_and_logged(self) -> None:
        agent = Agent()
        body = {
            "hostname": "büro-7.example", "addresses": ["198.51.100.4"], "on_battery": True, "metered": False,
            "sent_at": timezone.now().isoformat(), "reason": "network", "version": "1.0", "used_bytes": 5 * 10**12,
            "something_newer_agents_say": [1, 2],
        }  # fmt: skip
        assert agent.check_in(**body).status_code == 200
        source = refreshed(agent)
        assert source.hostname == "büro-7.example"
        assert source.addresses == ["192.0.2.7", "198.51.100.4"]
        assert (source.on_battery, source.metered) == (True, False)
        assert source.clock_skew == pytest.approx(0, abs=30)
        assert source.checked_in_at is not None
        assert (source.used_bytes, source.seen_hours) == (5 * 10**12, 1 << source.checked_in_at.hour)
        [line] = Decision.objects.filter(what="checked in", subject=f"source:{source.pk}")
        assert line.kind == "backup"
        assert "from 192.0.2.7, on battery (reason: network)" in line.text
        assert line.facts["version"] == "1.0"

    def test_a_clock_off_by_years_is_bounded_and_a_strange_host_name_is_harmless_data(self) -> None:
        agent = Agent()
        for sent_at in ("0001-01-01T00:00:00+00:00", "9999-12-31T23:59:59-12:00", "1970-01-01T00:00:00Z"):
            answer = agent.check_in(sent_at=sent_at)
            assert (answer.status_code, abs(refreshed(agent).clock_skew or 0)) == (200, 1e9)
            server_time = datetime.fromisoformat(answer.json()["server_time"])
            assert abs(server_time - timezone.now()) < timedelta(seconds=PATIENCE)
        for hostname in ("-oProxyCommand=touch", "; rm -rf /", "x" * 253, "日本", "../../etc"):
            assert agent.check_in(hostname=hostname).status_code == 200
            assert refreshed(agent).hostname == hostname

    @pytest.mark.parametrize(
        ("field", "values"),
        [
            ("hostname", ["x" * 254, "line\nbreak", "nul\0", "\x1b[31mred", 7, "\ud800"]),
            ("addresses", [["not-an-address-4711"], ["192.0.2.1"] * 21, "192.0.2.1", [["192.0.2.1"]]]),
            ("on_battery", ["perhaps-4711", 4711, 1]),
            ("sent_at", ["2026-01-01T00:00:00", "0000-00-00", "10000-01-01T00:00:00Z", 1e300, 4711, [], "soon", True]),
            ("metered", [[4711]]),
            ("used_bytes", [-4711, "4711", 4711.5, True, 2**63]),
            ("reason", ["because-4711"]),
            ("version", ["4711" * 20]),
        ],
    )
    def test_what_does_not_fit_is_refused_by_name_and_not_repeated(self, field: str, values: list[Any]) -> None:
        agent = Agent()
        for value in values:
            answer = agent.check_in(**{field: value})
            assert problem_of(answer, 422)["detail"].startswith(f"{field}"), value
            assert "4711" not in answer.content.decode()
        assert refreshed(agent).checked_in_at is None


class TestActions:
    def test_back_up_now_moves_its_own_source_only(self) -> None:
        agent = Agent()
        own, others = make_assignment(None, agent.source), make_assignment()
        assert agent.post("agent/back-up-now").json() == {"moved": 1}
        assert record_of(own).priority == planning.BACK_UP_NOW_PRIORITY
        assert not BacklogRecord.objects.exclude(subject=planning.subject_of(own.pk)).exists()
        assert others.source.pk != own.source.pk

    def test_a_snooze_for_some_seconds_or_until_an_instant_and_back(self) -> None:
        agent = Agent()
        assignment = make_assignment(None, agent.source)
        planning.emit_due()

        until = agent.post("agent/snooze", {"for": 3600}).json()["snoozed_until"]

        assert abs(datetime.fromisoformat(until) - timezone.now() - timedelta(hours=1)) < timedelta(minutes=1)
        assert not BacklogRecord.objects.unfinished().exists()
        assert agent.get("agent/status").json()["paused"] is False, "not by an operator"
        assert agent.get("agent/status").json()["snoozed_until"] == until
        assert agent.delete("agent/snooze").json() == {"snoozed_until": None}
        assert record_of(assignment).status == Status.READY
        assert agent.get("agent/status").json()["snoozed_until"] is None
        until = (timezone.now() + timedelta(days=6)).replace(microsecond=0)
        assert agent.post("agent/snooze", {"until": until.isoformat()}).status_code == 200
        assert refreshed(agent).paused_until == until
        assert agent.post("agent/back-up-now").json() == {"moved": 1}
        assert refreshed(agent).paused_at is None, "a wish of the same user ends it"

    def test_bad_instants_and_durations_are_refused(self) -> None:
        agent = Agent()
        until = (timezone.now() + timedelta(hours=1)).isoformat()
        for body in ({}, {"for": 3600, "until": until}):
            assert "either `until`" in problem_of(agent.post("agent/snooze", body), 422)["detail"]
        for body in (
            {"for": 0}, {"for": -1}, {"for": 7 * 86_400 + 1}, {"for": "NaN"}, {"for": True},
            {"until": "2001-01-01T00:00:00Z"},
            {"until": "9999-12-31T23:59:59Z"}, {"until": "0001-01-01T00:00:00+14:00"}, {"until": "2026-12-01T00:00:00"},
        ):  # fmt: skip
            problem_of(agent.post("agent/snooze", body), 422)
        assert refreshed(agent).paused_at is None
