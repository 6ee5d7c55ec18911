"""Messages go out by Apprise, in a process of its own, to what may be reached and nowhere else."""

import asyncio
import json
import socket
import threading
from contextlib import suppress
from datetime import timedelta

import pytest

from alerting import conditions, rounds, sending
from alerting.models import Alert, AlertMessage, AlertRoute
from jobs import periodic
from jobs.clock import database_clock
from operations.backlog.summary import summary
from operations.finding import Look, Severity
from sources.models import Assignment
from tests.alerting.making import AT, MINUTE, NO_ROOM, failing, look, make_route
from tests.alerting.receiving import mail_server
from tests.delivery.receiver import answering, receiving, speaking
from tests.threads import another_connection
from tests.waiting import eventually

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _loopback_allowed(settings) -> None:
    settings.CALLBACKS_ALLOWED = ["127.0.0.1"]


@pytest.fixture
def cannot_send(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "PROGRAM", NO_ROOM)


def deliver_all() -> list[str]:
    """The result of each message that is due: empty, or why it was not delivered."""
    sending.deliver_due(AT)
    return list(AlertMessage.objects.order_by("pk").values_list("error", flat=True))


def test_an_alert_arrives_as_a_mail_and_at_a_webhook(settings):
    assignment = failing()
    with mail_server() as mailbox, receiving() as receiver:
        make_route(mailbox.url)
        make_route(f"json://127.0.0.1:{receiver.port}/hook")
        assert len(look(AT)) == 2
        assert deliver_all() == ["", ""]
        [text] = mailbox.texts()
        [request] = receiver.requests
    assert text.startswith("A source is failing")
    assert assignment.source.name in text
    hook = json.loads(request.body)
    assert (assignment.source.name in hook["message"], hook["type"]) == (True, "failure")


@pytest.mark.usefixtures("cannot_send")
def test_all_is_not_well_while_a_message_is_not_delivered():
    make_route("json://127.0.0.1:1/s3cr3t-t0ken", name="ops")
    failing()
    look(AT)
    before = summary(AT).in_need
    deliver_all()
    [line] = set(summary(AT).in_need) - set(before)
    assert line.startswith("1 message about alerts could not be delivered, the last one to ops: json://127.0.0.1/…: ")
    assert "s3cr3t" not in line
    [finding] = conditions.undelivered.examine(Look(AT))
    assert (finding.severity, finding.text + ".") == (Severity.WARNING, line)


@pytest.mark.usefixtures("cannot_send")
def test_what_comes_late_says_when_it_was_written():
    sending.put(make_route(), "title", "body", now=AT)
    deliver_all()
    late = sending._take(AT + 2 * MINUTE)
    assert late
    assert late.body == "body\n\nWritten at 2026-03-02 12:00:00 UTC: it could not be delivered before."


@pytest.mark.usefixtures("cannot_send")
def test_an_alert_that_failed_waits_for_the_end_of_quiet_hours_and_a_digest_does_not():
    route = make_route(quiet=[{"days": "mon-sun", "start": "12:01", "end": "14:00"}])
    failing()
    look(AT)
    assert sending.deliver_due(AT) == 1
    assert sending.deliver_due(AT + 30 * MINUTE) == 0
    sending.put(route, "digest", "body", now=AT)
    assert sending.deliver_due(AT + 30 * MINUTE) == 1
    assert sending.deliver_due(AT + 120 * MINUTE) == 2


def test_a_route_that_was_switched_off_is_no_trouble_and_what_it_gets_then_says_when_it_was_written():
    route = make_route()
    for title, error in (("tried before", "refused"), ("never tried", "")):
        AlertMessage.objects.filter(pk=sending.put(route, title, "body", now=AT).pk).update(error=error)
    assert sending.undelivered(AT).count() == 1
    AlertRoute.objects.update(enabled=False)
    assert not sending.undelivered(AT).exists()
    assert sending.deliver_due(AT) == 0
    AlertRoute.objects.update(enabled=True)
    taken = [sending._take(AT + 60 * MINUTE) for _ in range(2)]
    assert ["Written at 2026-03-02 12:00:00 UTC" in each.body for each in taken if each] == [True] * 2


@pytest.mark.usefixtures("cannot_send")
def test_what_was_written_down_while_a_clock_was_ahead_goes_out():
    sending.put(make_route(), "title", "body", now=AT + timedelta(days=300))
    assert sending.deliver_due(AT) == 1


@pytest.mark.usefixtures("cannot_send")
def test_what_was_given_up_is_told_anew_and_what_arrived_or_is_over_is_not():
    route, tomorrow = make_route("json://127.0.0.1:1/hook"), AT + timedelta(days=1)
    arrived, over, lost = failing(), failing(), failing()
    for assignment in (over, lost):
        Assignment.objects.filter(pk=assignment.pk).update(failures=0)
    [message] = look(AT)
    AlertMessage.objects.filter(pk=message.pk).update(delivered_at=AT, next_at=None)
    Assignment.objects.filter(pk__in=[over.pk, lost.pk]).update(failures=2)
    [message] = look(AT + 10 * MINUTE)
    assert sending.deliver_due(AT + 10 * MINUTE) == 1
    Assignment.objects.filter(pk=over.pk).update(failures=0)
    assert sending.deliver_due(tomorrow + 10 * MINUTE) == 1
    assert sending.state_of(AlertMessage.objects.get(pk=message.pk)) == "given up"
    [again] = look(tomorrow + 11 * MINUTE)
    assert lost.source.name in again.body
    assert not any(each.source.name in again.body for each in (arrived, over))
    assert look(tomorrow + 30 * MINUTE) == []
    assert all(route.pk in each.known_to for each in Alert.objects.filter(ended_at=None))


def test_a_message_that_is_longer_than_a_service_takes_arrives_in_parts():
    with receiving() as receiver:
        lines = [f"source {number} {'x' * 100}" for number in range(300)]
        sending.put(make_route(f"mmost://127.0.0.1:{receiver.port}/{'a' * 24}"), "title", "\n".join(lines), now=AT)
        assert deliver_all() == [""]
        texts = [json.loads(request.body)["text"] for request in receiver.requests]
    assert max(map(len, texts)) <= 4000
    assert all(any(line in text for text in texts) for line in lines[:60:20])
    assert "… and more: the list of alerts has the rest." in texts[-1]


def test_an_answer_without_end_is_given_up_before_it_fills_the_memory():
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        with suppress(ConnectionError):
            while True:
                writer.write(bytes(1_000_000))
                await writer.drain()

    with speaking(speak) as server:
        sending.put(make_route(f"json://127.0.0.1:{server.port}/hook"), "title", "body", now=AT)
        [error] = deliver_all()
    assert "it answers without end" in error


def test_a_second_url_behind_the_first_is_none():
    with receiving() as receiver:
        sending.put(make_route(f"json://127.0.0.1:{receiver.port}/hook;syslog://_"), "title", "body", now=AT)
        assert deliver_all() == [""]
        assert "syslog" in receiver.requests[0].path, "a part of the one URL"


@pytest.mark.usefixtures("cannot_send")
def test_a_process_that_cannot_send_says_so():
    sending.put(make_route(), "title", "body", now=AT)
    [error] = deliver_all()
    assert error == "json://127.0.0.1/…: the process that sends it ended with 1: no room"


def test_nothing_connects_to_what_is_not_allowed(settings):
    settings.CALLBACKS_ALLOWED = []
    with receiving() as receiver:
        make_route(f"json://localhost:{receiver.port}/s3cr3t-t0ken")
        failing()
        look(AT)
        [error] = deliver_all()
        assert receiver.connections == len(receiver.requests) == 0
    assert error
    assert "not public" in error
    assert "s3cr3t" not in error


def test_a_redirect_leads_nowhere_else(settings):
    with receiving(host="127.0.0.2") as inside, receiving(answering(307, Location=f"{inside.url}")) as receiver:
        make_route(f"json://127.0.0.1:{receiver.port}/hook")
        failing()
        look(AT)
        [error] = deliver_all()
        assert len(receiver.requests) == 1
        assert not inside.requests
    assert error


def test_what_a_host_says_back_shows_no_token():
    with receiving(answering(500, "tok3n-in-path and p4ssword")) as receiver:
        make_route(f"json://user:p4ssword@127.0.0.1:{receiver.port}/tok3n-in-path")
        failing()
        look(AT)
        [error] = deliver_all()
    assert error
    assert "tok3n-in-path" not in error
    assert "p4ssword" not in error
    assert "127.0.0.1" in error


def test_a_host_that_never_answers_is_given_up(monkeypatch):
    monkeypatch.setattr(sending, "ANSWER_SECONDS", 1.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        make_route(f"json://127.0.0.1:{silent.getsockname()[1]}/hook")
        failing()
        look(AT)
        [error] = deliver_all()
    assert error
    assert "did not answer" in error


@pytest.mark.django_db(transaction=True)
def test_a_route_that_hangs_holds_up_neither_new_messages_of_others_nor_the_ping(settings):
    with receiving() as receiver:
        settings.PING_URL = f"http://127.0.0.1:{receiver.port}/ping"
        with sending._one_at_a_time:  # as while a host does not answer
            sending.start_thread(rounds.ping_for_the_scheduler)
            sending.in_background()
            eventually(lambda: receiver.requests)
            ended()
    hangs, works = make_route(), make_route()
    AlertMessage.objects.create(route=hangs, title="old", body="", made_at=AT, next_at=AT - MINUTE, attempts=1)
    sending.put(works, "new", "", now=AT)
    first = sending._take(AT)
    assert first
    assert first.title == "new"


@pytest.mark.django_db(transaction=True)
def test_the_minute_of_any_process_sends_what_failed_before_in_a_thread(monkeypatch):
    ended()
    with mail_server() as mailbox:
        make_route(mailbox.url)
        failing()
        with monkeypatch.context() as patched:
            patched.setattr(sending, "PROGRAM", NO_ROOM)
            periodic.run_minutely()
            eventually(lambda: sending.undelivered().exists())
            ended()
        AlertMessage.objects.update(next_at=database_clock())
        periodic.run_minutely()  # the round of this minute is done, and what is due goes out all the same
        eventually(lambda: mailbox.mails)
        ended()
        assert "it could not be delivered before." in mailbox.texts()[0]
    assert not sending.undelivered().exists()
    assert AlertMessage.objects.get().attempts == 2


def test_a_test_that_is_rolled_back_leaves_no_round_behind():
    periodic.run_minutely()
    ended()
    with another_connection() as other:
        assert other.execute("SELECT count(*) FROM alerting_watch").fetchall() == [(0,)]


def ended() -> None:
    eventually(lambda: not any(each.name == "alerts" for each in threading.enumerate()))
