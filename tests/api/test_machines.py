"""Rows that machines write, over the API: workers, queues, breakers; and retry policies, which users write."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from jobs.clock import database_clock
from jobs.models import Breaker, PausedQueue, RetryPolicy, Worker
from jobs.states import Status, WaitingFor
from tests.api.asking import Program, check_filters, fields_of, ids_of, made, make_user, problem_of
from tests.factories import NOON, make_record, make_retry_policy, make_worker

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("kind_of_tests")]


class TestWorkers:
    def test_who_lives_and_what_it_runs(self, program: Program) -> None:
        silent, alive = make_worker(heartbeat_at=NOON), make_worker(queues={"default": 4})
        make_record(Status.RUNNING, worker=alive)
        found = program.get("workers").json()["items"]
        assert [(each["id"], each["alive"], each["running"]) for each in found] == [
            (alive.pk, True, 1), (silent.pk, False, 0),
        ]  # fmt: skip
        check_filters(program, "workers", ({"alive": "true"}, alive), ({"alive": "false"}, silent))
        assert program.get(f"workers/{alive.pk}").json()["queues"] == {"default": 4}
        Worker.objects.filter(pk=alive.pk).update(stopped_at=database_clock())
        assert ids_of(program.get("workers", alive="true")) == []


class TestQueues:
    def test_they_are_paused_and_resumed(self, program: Program) -> None:
        assert program.post("queues/callbacks/pause", {"reason": "the receiver is down"}).json()["paused_at"]
        found = {each["name"]: each for each in program.get("queues").json()["items"]}
        assert found["callbacks"]["paused_reason"] == "the receiver is down"
        assert found["default"]["paused_at"] is None
        assert program.post("queues/callbacks/resume").json()["paused_at"] is None
        assert not PausedQueue.objects.exists()
        PausedQueue.objects.create(name="old")
        assert program.post("queues/old/resume").json()["in_settings"] is False
        assert list(fields_of(program.post("queues/default/pause", {"reason": "x" * 201}))) == ["reason"]

    @pytest.mark.parametrize("name", ["nothing", "no%00queue", "%ff", "x" * 500])
    def test_an_unknown_one_is_not_there(self, name: str, program: Program) -> None:
        for verb in ("pause", "resume"):
            problem_of(program.post(f"queues/{name}/{verb}", {} if verb == "pause" else None), 404)


class TestBreakers:
    def test_an_open_one_is_probed_and_closed_and_a_closed_one_is_a_conflict(self, program: Program) -> None:
        breaker = Breaker.objects.create(key="a", opened_at=NOON, probe_at=NOON + timedelta(days=999), failures=5)
        make_record(Status.WAITING, waiting_for=WaitingFor.BREAKER, breaker=breaker)
        probed = program.post(f"breakers/{breaker.pk}/probe").json()
        assert (probed["state"], probed["waiting"]) == ("open", 1)
        assert datetime.fromisoformat(probed["probe_at"]) <= database_clock()
        assert program.post(f"breakers/{breaker.pk}/close").json()["state"] == "closed"
        for verb in ("probe", "close"):
            problem_of(program.post(f"breakers/{breaker.pk}/{verb}"), 409)
            problem_of(Program(make_user("view_backlogrecord")).post(f"breakers/{breaker.pk}/{verb}"), 403)

    def test_open_ones_are_filtered(self, program: Program) -> None:
        is_open, closed = (
            Breaker.objects.create(key="a", opened_at=NOON, probe_at=NOON),
            Breaker.objects.create(key="b"),
        )
        check_filters(
            program, "breakers", ({"open": "true"}, is_open), ({"open": "false"}, closed), ({"key": "b"}, closed)
        )


class TestRetryPolicies:
    BODY = {"name": "slow", "algorithm": "fibonacci", "parameters": {"unit": 120}, "max_failures": 5}

    def test_one_is_made_with_its_first_delays_and_durations_may_be_sent_as_texts(self, program: Program) -> None:
        facts = made(program.post("retry-policies", self.BODY | {"max_delay": "2h", "give_up_after": "7d"}))
        assert (facts["max_delay"], facts["give_up_after"]) == (7200, 604_800)
        assert facts["first_delays"][:4] == [120, 120, 240, 360]

    @pytest.mark.parametrize("parameters", [{"unit": "x"}, [1], {"units": 3}])
    def test_one_that_was_stored_past_its_form_has_no_delays_and_hides_no_other(
        self, parameters: object, program: Program
    ) -> None:
        RetryPolicy.objects.create(name="odd", algorithm="fibonacci", parameters=parameters)
        found = {each["name"]: each for each in program.get("retry-policies").json()["items"]}
        assert (found["odd"]["parameters"], found["odd"]["first_delays"]) == (parameters, [])
        for policy in found.values():
            expected = 0 if policy["algorithm"] == "progressive" or policy["name"] == "odd" else 10
            assert len(policy["first_delays"]) == expected

    def test_what_waits_by_it_follows_an_edit(self, program: Program, django_capture_on_commit_callbacks: Any) -> None:
        policy = make_retry_policy(parameters={"base": 300})
        now = database_clock()
        record = make_record(
            Status.WAITING, waiting_for=WaitingFor.BACKOFF, retry_policy=policy, failures=1, first_failure_at=now,
            last_failure_at=now, run_after=now + timedelta(seconds=300),
        )  # fmt: skip
        with django_capture_on_commit_callbacks(execute=True):
            program.patch(f"retry-policies/{policy.pk}", {"parameters": {"base": 3000}})
        record.refresh_from_db()
        assert (record.run_after - now).total_seconds() == pytest.approx(3000, abs=1)
