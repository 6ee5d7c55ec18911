"""Targets of records: looked up once for many, and for how long."""

import asyncio

import pytest
from asgiref.sync import sync_to_async
from django.db import connection
from django.db.utils import OperationalError
from django.test.utils import CaptureQueriesContext

from delivery import handlers, targets
from delivery.models import Endpoint
from delivery.targets import TargetKey, Targets, load
from jobs import settling
from jobs.handlers import Run
from jobs.models import Breaker
from jobs.outcomes import BreakerTarget, ClaimedRecord, Failed, Held, Postponed, Succeeded
from jobs.states import WaitingFor
from tests.delivery.events import deliver, deliver_at_once, make_endpoint, make_event, on_a_loop
from tests.delivery.receiver import Receiver, answering, answering_in_turn, receiving
from tests.factories import NOON, claim_ready, make_record
from tests.jobs.breaking import open_it

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("_loopback_allowed")]


def guarded(receiver: Receiver) -> BreakerTarget:
    return BreakerTarget(f"host:{receiver.origin}", receiver.origin)


@pytest.mark.parametrize(("endpoints", "records"), [(1, 50), (20, 1)])
def test_many_records_ask_together(endpoints, records):
    with receiving() as receiver:
        made = [make_endpoint(f"{receiver.url}/{number}") for number in range(endpoints)]
        with CaptureQueriesContext(connection) as asked:
            outcomes = deliver_at_once(*(make_event(endpoint) for endpoint in made for _ in range(records)))
    assert all(isinstance(outcome, Succeeded) for outcome in outcomes)
    # the first one asks at once, those of other endpoints together while it does
    assert len(asked) <= (3 if endpoints == 1 else 6)


class TestWhatIsKnown:
    def test_is_asked_again_when_it_is_no_longer_fresh(self, monkeypatch):
        with receiving() as receiver:
            endpoint = make_endpoint("http://127.0.0.1:1/")
            record = make_event(endpoint)

            async def change_meanwhile() -> list[object]:
                first = await handlers.deliver(Run(record))
                await sync_to_async(Endpoint.objects.update)(url=receiver.url)
                second = await handlers.deliver(Run(record))
                monkeypatch.setattr(targets, "FRESH_SECONDS", 0)
                return [first, second, await handlers.deliver(Run(record))]

            first, second, third = on_a_loop(change_meanwhile)
        assert isinstance(first, Failed)
        assert isinstance(second, Failed)
        assert isinstance(third, Succeeded)

    def test_is_forgotten_when_it_is_much(self, monkeypatch):
        monkeypatch.setattr(targets, "MOST_KEPT", 3)

        async def find_many() -> int:
            known = Targets()
            for number in range(10):
                await known.find(TargetKey("http_callback", None, f"http://127.0.0.1:{number + 1}/"))
            return len(known)

        assert on_a_loop(find_many) <= 5

    def test_waits_while_the_database_is_away(self, monkeypatch):
        def fail(*_: object) -> None:
            raise OperationalError("the server went away")

        monkeypatch.setattr(targets, "load", fail)
        for outcome in deliver_at_once(make_event(url="http://127.0.0.1:1/"), make_event(url="http://127.0.0.1:1/")):
            assert isinstance(outcome, Postponed)
            assert outcome.waiting_for == WaitingFor.RECHECK
            assert "the server went away" in outcome.reason

    def test_is_found_by_others_when_one_who_asked_is_cancelled(self):
        with receiving() as receiver:
            record = make_event(make_endpoint(receiver.url))

            async def cancel_the_first() -> object:
                first = asyncio.ensure_future(handlers.deliver(Run(record)))
                second = asyncio.ensure_future(handlers.deliver(Run(record)))
                await asyncio.sleep(0)
                first.cancel()
                return await second

            assert isinstance(on_a_loop(cancel_the_first), Succeeded)


class TestAnOpenBreaker:
    def test_holds_the_record_and_asks_no_host(self):
        with receiving() as receiver:
            open_it(guarded=guarded(receiver))
            [outcome] = deliver(make_event(make_endpoint(receiver.url)))
            assert receiver.requests == []
        assert isinstance(outcome, Held)
        assert receiver.origin in outcome.reason

    def test_lets_its_trial_through_which_closes_it(self):
        with receiving() as receiver:
            record = a_claim(receiver)
            opened = open_it(guarded=guarded(receiver))
            Breaker.objects.filter(pk=opened.pk).update(trial_id=record.id, opened_at=NOON)
            [outcome] = deliver(record)
        settling.settle([(record, outcome)])
        assert not Breaker.objects.get().is_open

    def test_lets_a_trial_through_that_was_chosen_a_moment_ago(self):
        with receiving() as receiver:
            opened = open_it(guarded=guarded(receiver))
            other, chosen = make_event(url=receiver.url), make_event(url=receiver.url)

            async def choose_after_a_look() -> list[object]:
                first = await handlers.deliver(Run(other))
                await sync_to_async(Breaker.objects.filter(pk=opened.pk).update)(trial_id=chosen.id)
                return [first, await handlers.deliver(Run(chosen))]

            first, second = on_a_loop(choose_after_a_look)
        assert isinstance(first, Held)
        assert isinstance(second, Succeeded)


def a_claim(receiver: Receiver) -> ClaimedRecord:
    """An event for this receiver, claimed."""
    make_record(kind="http_callback", queue="callbacks", payload={"url": receiver.url})
    [record] = claim_ready(1, "callbacks", None)
    return record


class TestASuccess:
    def test_proves_once_that_a_host_works_again_after_a_failure_here_or_elsewhere_and_else_nothing(self):
        answers = [200, 500, 200, 200, 503, 200]
        with receiving(answering_in_turn(answers)) as receiver, receiving() as other:
            host, doubted = guarded(receiver), guarded(other)
            Breaker.objects.create(key=doubted.key, title=doubted.title, failures=2)
            urls = [*[receiver.url] * len(answers), other.url, other.url]
            outcomes = deliver(*(make_event(url=url) for url in urls))
        proofs = [getattr(outcome, "proves", "failed") for outcome in outcomes]
        assert proofs == [None, "failed", host, None, "failed", host, doubted, None]

    @pytest.mark.parametrize(("answers", "is_open"), [([500, 200] * 6, False), ([500] * 3, True)])
    def test_between_failures_keeps_the_breaker_closed(self, answers, is_open):
        with receiving(answering_in_turn(answers)) as receiver:
            records = [a_claim(receiver) for _ in answers]
            outcomes = deliver(*records)
        settling.settle(list(zip(records, outcomes, strict=True)))
        breaker = Breaker.objects.get()
        assert (breaker.key, breaker.is_open) == (guarded(receiver).key, is_open)


def test_a_hosts_doubt_outlasts_a_look_before_its_failure_is_counted():
    hosts, key = {}, TargetKey("http_callback", None, "http://127.0.0.1:1/")
    [target] = load([key], hosts).values()
    target.host.is_doubted = True
    load([key], hosts)
    assert [target.host.proof() for _ in range(2)] == [target.host.guarded, None]


@pytest.mark.parametrize("answer", ["Cannot POST {path}", "<pre>{path}</pre>", "no route {quoted} for s3cretHeader"])
def test_no_error_quotes_a_path_that_is_a_secret_or_the_value_of_a_header(answer):
    path = "/services/T0/s3cretPath?key=s3cretKey&an0therSecret"
    body = answer.format(path=path, quoted=path.replace("/", "\\/").replace("&", "&amp;"))
    with receiving(answering(404, body)) as receiver:
        headers = {"X-Key": "s3cretHeader", "X-Tenant": "4"}
        [outcome] = deliver(make_event(make_endpoint(f"{receiver.origin}{path}", name="hook", headers=headers)))
    assert "answered 404 Not Found: " in outcome.error
    assert not [secret for secret in ("s3cret", "an0ther") if secret in outcome.error]
