"""Messages besides alerts: outcomes of backups to webhooks, dead-man pings, digests."""

import asyncio
import json
from datetime import datetime, timedelta

import pytest

from alerting import digest, raising, rounds, sending, watching
from alerting.models import AlertKind, AlertMessage, AlertRoute
from delivery.http import ping
from delivery.models import Endpoint
from engines.base import EngineResult, Verdict
from jobs.models import BacklogRecord
from jobs.outcomes import Failed, Succeeded
from sealing.encryption import seal
from sealing.models import StoredSecret
from sources import planning
from tests.alerting.making import AT, MINUTE, failing, make_route
from tests.delivery.receiver import answering, receiving
from tests.sources.factories import backed_up, handed_on, make_policy, settle

pytestmark = pytest.mark.django_db

DONE = EngineResult(Verdict.SUCCEEDED, size=1000, files=7, snapshot="20260302T120000Z")


@pytest.mark.parametrize("succeeds", [True, False])
def test_an_outcome_goes_to_the_endpoint_and_the_ping_of_its_policy(succeeds: bool):
    StoredSecret.objects.create(name="hc", sealed=seal("https://hc.example.org/uuid"))
    endpoint = Endpoint.objects.create(name="hooks", url="https://hooks.example.org/in")
    policy = make_policy(outcomes_endpoint=endpoint, ping_url="stored:hc")
    outcome = Succeeded(DONE) if succeeds else Failed("refused: no such host\nat length")
    for of in (make_policy(), policy):  # the first one names neither, and costs no record
        assignment = backed_up(of, AT - timedelta(days=2))
        planning.emit_due(AT, [assignment.pk])
        settle(handed_on(assignment, AT), outcome, AT + MINUTE)
    event = BacklogRecord.objects.get(kind="http_callback")
    assert (event.payload["endpoint"], event.payload["event_id"]) == (endpoint.pk, event.subject)
    body = event.payload["body"]
    assert (body["source"], body["policy"]) == (assignment.source.name, str(policy))
    if succeeds:
        assert (body["event"], body["size"], body["files"]) == ("backup.succeeded", 1000, 7)
    else:
        assert (body["event"], body["error"], body["failures"]) == ("backup.failed", "refused: no such host", 1)
    pinged = BacklogRecord.objects.get(kind="ping")
    assert (pinged.payload["policy"], pinged.payload["failed"]) == (policy.pk, not succeeds)
    assert "uuid" not in json.dumps([event.payload, pinged.payload])


def test_a_ping_is_a_get_and_keeps_to_the_rules_of_callbacks(settings):
    settings.CALLBACKS_ALLOWED = ["127.0.0.1"]
    with receiving() as receiver, receiving(answering(503)) as busy:
        url = f"{receiver.origin}/ping/uuid?create=1&name=a%2Bb+c"
        assert asyncio.run(ping.get(url)) == asyncio.run(ping.get(url, failed=True)) == ""
        asked = ["/ping/uuid?create=1&name=a%2Bb+c", "/ping/uuid/fail?create=1&name=a%2Bb+c"]
        assert [each.path for each in receiver.requests] == asked
        assert asyncio.run(ping.get(f"{busy.origin}/uuid")) == f"{busy.origin} answered 503"
        settings.CALLBACKS_ALLOWED = []
        assert "not public" in asyncio.run(ping.get(url))
        assert len(receiver.requests) == 2


def test_the_scheduler_pings_only_after_a_round_that_found_nothing_broken(settings, monkeypatch):
    settings.CALLBACKS_ALLOWED = ["127.0.0.1"]
    monkeypatch.setattr(sending, "in_background", lambda: None)
    monkeypatch.setattr(sending, "start_thread", lambda work: work())
    monkeypatch.setattr(watching, "look", lambda *args: watching.WatchResult([], set()))
    pings = []
    with receiving() as receiver:

        def look(now: datetime) -> None:
            rounds.round_of_the_minute(now)
            pings.append([each.path for each in receiver.requests])

        settings.PING_URL = receiver.url
        look(AT - 2 * MINUTE)  # the first one: nothing counts as late yet
        look(AT)
        found = raising.FoundAlert(AlertKind.WATCHDOG, "watchdog:x", "x", "")
        monkeypatch.setattr(watching, "look", lambda *args: watching.WatchResult([found], set()))
        look(AT + MINUTE)
        look(AT + MINUTE)  # another process: this minute's was done
    assert pings == [[], ["/hook"], ["/hook"], ["/hook"]]


def test_a_digest_comes_each_morning_in_the_zone_of_its_route_also_when_all_is_well():
    route = make_route(digest="daily", zone="Europe/Berlin")
    quiet = [{"days": "mon-sun", "start": "00:00", "end": "00:00"}]  # which a digest does not wait for
    make_route(digest="weekly", zone="Europe/Berlin", quiet=quiet)
    seven = datetime.fromisoformat("2026-03-02T06:30:00+00:00")  # Monday, 07:30 in Berlin
    assert digest.send_due(seven) == "0 digests"
    assert digest.send_due(seven + timedelta(hours=1)) == "2 digests"
    assert digest.send_due(seven + timedelta(hours=2)) == "0 digests"
    failing()
    assert digest.send_due(seven + timedelta(days=1, hours=1)) == "1 digest"
    message = AlertMessage.objects.filter(route=route).first()
    assert "1 needs you" in message.title
    assert "failing" in message.body
    # nothing ran on the next Monday
    assert digest.send_due(seven + timedelta(days=8)) == "2 digests"
    assert digest.send_due(seven + timedelta(days=8, hours=2)) == "1 digest"
    AlertRoute.objects.update(digest_at=seven + timedelta(days=300))  # by a clock that was ahead
    assert digest.send_due(seven + timedelta(days=9)) == "2 digests"
    assert "Since 2026-03-10 06:30:00 UTC" in AlertMessage.objects.filter(route=route).first().body
