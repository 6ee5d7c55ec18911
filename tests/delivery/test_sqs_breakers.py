"""A server of queues that dies and comes back: its breaker holds what would only fail, and lets it go again."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from delivery.models import Endpoint
from delivery.sqs import clients, message
from delivery.sqs.message import deliver
from jobs import breakers, claiming, settling, tick
from jobs.handlers import Run
from jobs.models import Attempt, BacklogRecord, Breaker
from jobs.outcomes import Claimed, Failed, Guarded, Held, Outcome, Succeeded
from jobs.states import Status
from tests.delivery.queue_servers import (
    CREDENTIALS,
    ToldServer,
    describe_server,
    endpoint_at,
    payload_for,
    queue_server,
)
from tests.factories import NOON, make_record, make_worker

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

MINUTE = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def _loopback_is_allowed(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    settings.CALLBACKS_ALLOWED = ["127.0.0.0/8"]
    monkeypatch.setattr(message, "KNOWN_FOR", -1.0)
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    yield
    clients.forget_all()
    message.forget_all()


def emit(endpoint: Endpoint, *numbers: int) -> None:
    for number in numbers:
        payload = payload_for(endpoint, number)
        make_record(kind="sqs_message", queue="callbacks", subject=payload["event_id"], payload=payload)


def claim(now: datetime, limit: int = 100) -> list[Claimed]:
    return claiming.claim("callbacks", worker_id=make_worker().pk, limit=limit, now=now)


def work(now: datetime) -> list[Outcome]:
    """Claim all that is ready, deliver it and settle it."""
    results = [(record, deliver(Run(record))) for record in claim(now)]
    settling.settle(results, now=now)
    return [outcome for _, outcome in results]


def statuses() -> list[Status]:
    return [Status(status) for status in BacklogRecord.objects.order_by("pk").values_list("status", flat=True)]


class TestAServerThatIsKilled:
    def test_holds_what_follows_and_gets_it_all_when_it_is_back(self, tmp_path: Any) -> None:
        with queue_server(tmp_path) as server:
            endpoint = endpoint_at(server.make_queue("events"))
            emit(endpoint, 1)
            assert [type(outcome) for outcome in work(NOON)] == [Succeeded]
            server.kill()
            emit(endpoint, *range(2, 8))
            outcomes = work(NOON + MINUTE)
            assert {type(outcome) for outcome in outcomes} == {Failed}
            assert {outcome.fault_of for outcome in outcomes if isinstance(outcome, Failed)} == {
                Guarded(f"host:{server.url}", server.url)
            }
            breaker = Breaker.objects.get()
            assert breaker.is_open
            assert server.url in breaker.last_error
            emit(endpoint, 8)
            [held] = work(NOON + MINUTE)
            assert isinstance(held, Held), "it is refused without being tried"

            server.start()
            server.make_queue("events")
            tick.tick(NOON + 2 * MINUTE, rescue=False)
            outcomes = work(NOON + 2 * MINUTE)
            [trial] = [outcome for outcome in outcomes if isinstance(outcome, Succeeded)]
            assert trial.proves == Guarded(f"host:{server.url}", server.url)
            assert {type(outcome) for outcome in outcomes} == {Succeeded, Held}, "those it had failed before it opened"
            assert not Breaker.objects.get().is_open
            tick.tick(NOON + 60 * MINUTE, rescue=False)
            work(NOON + 60 * MINUTE)
            assert statuses() == [Status.SUCCEEDED] * 8
            assert len(server.received(endpoint.url)) == 7


class TestWhoseFaultItIs:
    @pytest.fixture
    def told(self) -> Iterator[ToldServer]:
        with describe_server() as running:
            yield running

    def deliver_to(self, told: ToldServer, **fields: Any) -> Failed:
        emit(endpoint_at(f"{told.url}/1/events", **fields), 1)
        [outcome] = work(NOON)
        assert isinstance(outcome, Failed)
        return outcome

    def test_one_that_never_answers(self, told: ToldServer) -> None:
        told.silent = True
        outcome = self.deliver_to(told, timeout=0.2)
        assert outcome.fault_of
        assert "did not answer within 0.2 s" in outcome.error
        assert Attempt.objects.get().facts["seconds"] > 0.19

    @pytest.mark.parametrize(("status", "code"), [(500, "InternalError"), (503, "ServiceUnavailable")])
    def test_an_error_of_its_own(self, status: int, code: str, told: ToldServer) -> None:
        told.refuses(code, status=status)
        assert self.deliver_to(told).fault_of
        assert Attempt.objects.get().facts["status"] == status

    @pytest.mark.parametrize("code", ["AccessDenied", "KmsDisabled", "InvalidMessageContents", "RequestThrottled"])
    def test_what_it_refuses_is_not_its_fault(self, code: str, told: ToldServer) -> None:
        told.refuses(code)
        assert self.deliver_to(told).fault_of is None
        assert not Breaker.objects.exists()

    def test_a_trial_that_was_let_through_since_it_was_looked_at_is_sent(
        self, told: ToldServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        told.refuses("InternalError", status=500)
        emit(endpoint_at(f"{told.url}/1/events"), 1, 2, 3, 4)
        work(NOON)
        assert Breaker.objects.get().is_open
        message.forget_all()
        monkeypatch.setattr(message, "KNOWN_FOR", 60.0)
        asked = len(told.asked)
        emit(Endpoint.objects.get(), 5)
        assert isinstance(work(NOON)[0], Held)
        tick.tick(NOON + MINUTE, rescue=False)
        work(NOON + MINUTE)
        assert len(told.asked) == asked + 1
        assert breakers.state_of(Breaker.objects.get()) == "open"
