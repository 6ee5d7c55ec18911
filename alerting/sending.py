"""Delivery of messages to users. The process that does the round of a minute sends them, a worker or qcluster.

    put           a row, in the transaction that announces
    deliver_due   takes what is due (it comes again after LEASE, should this process die), sends each message by a
                  process of Apprise, and writes the result
    in_background the same in a thread, since a worker's loop waits for nothing

A message that is not delivered is tried again for a day, at growing intervals, and then given up: home shows it, and
open alerts are announced again. In the quiet hours of its route no alert is tried. A message may come twice if a
process dies between sending and writing the result. The URL is fetched for each attempt through its route's reference,
and is in no row, log or message.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection, transaction
from django.db.models import BigIntegerField, F, Func, Q, QuerySet, Value
from django.db.utils import Error

from alerting import urls
from alerting.models import Alert, AlertMessage, AlertRoute, MessageType
from alerting.sending_process import LARGEST_MEMORY, PROGRAM
from external.durations import span
from external.formatting import first_line, moment, several
from external.processes import orders
from external.processes.orders import NoAnswer, Order
from external.redaction import redacted
from jobs.clock import database_clock
from jobs.set_aside import name_once
from sealing.lookup import SecretNotFound, read_secret_in_time
from sources.domain.windows import Window

log = logging.getLogger(__name__)

ANSWER_SECONDS = 45.0
TEST_SECONDS = 20.0
"""The time that a page waits for a test. A web server has few threads."""
LEASE = timedelta(minutes=2)
FIRST_WAIT, LONGEST_WAIT = timedelta(minutes=1), timedelta(hours=1)
TRIED_FOR = timedelta(days=1)
LATE = timedelta(minutes=10)
LONGEST_REASON = 1000
SHOWN_FOR = timedelta(days=7)
"""The time that a message which was given up is shown as undelivered."""

_one_at_a_time = threading.Lock()


def put(
    route: AlertRoute,
    title: str,
    body: str,
    type: MessageType = MessageType.INFO,
    *,
    now: datetime,
    raises: Sequence[int] = (),
) -> AlertMessage:
    """Store a message; the round sends it. `raises`: the ids of the alerts that it announces first."""
    facts: dict[str, object] = {"title": title[:300], "body": body, "type": type, "raises": raises}
    return AlertMessage.objects.create(route=route, made_at=now, next_at=now, **facts)


def undelivered(now: datetime | None = None) -> QuerySet[AlertMessage]:
    """Messages whose last attempt failed: those that are tried again, and those given up in the last week. Routes that
    are switched off are left out.
    """
    recent = Q(next_at__isnull=False) | Q(made_at__gt=(now or database_clock()) - SHOWN_FOR)
    failed = AlertMessage.objects.filter(recent, delivered_at=None, route__enabled=True).exclude(error="")
    return failed.select_related("route")


def in_need(now: datetime) -> list[str]:
    """A sentence if operators do not learn of problems; otherwise none."""
    if not (latest := undelivered(now).order_by("-made_at", "-pk").first()):
        return []
    count = several(undelivered(now).count(), "message")
    return [f"{count} about alerts could not be delivered, the last one to {latest.route}: {first_line(latest.error)}."]


def in_background() -> None:
    """Send due messages in a thread, unless this process already does."""
    if not _one_at_a_time.locked() and _due(database_clock()).exists():
        start_thread(deliver_due)


def start_thread(work: Callable[[], object]) -> None:
    """Do `work`, which may use the database, while its caller continues."""
    threading.Thread(target=_do_and_close, args=(work,), name="alerts", daemon=True).start()


def _do_and_close(work: Callable[[], object]) -> None:
    try:
        work()
    except Error as error:  # it is away; the next round tries again
        log.warning("alerts wait, the database does not answer: %s", str(error).strip())
    except Exception:
        log.exception("alerts were not raised or sent; the next round tries again")
    finally:
        connection.close()


def deliver_due(now: datetime | None = None) -> int:
    """Send due messages, one after the other. Returns the number of tries. Raises: django.db.Error."""
    with _one_at_a_time:
        tried = 0
        while message := _take(now or database_clock()):
            tried += 1
            _write_down(message, send(message), now or database_clock())
        return tried


def _due(now: datetime) -> QuerySet[AlertMessage]:
    """Messages that may go out now. No message waits for longer than LONGEST_WAIT: a later `next_at` is of a clock that
    was ahead."""
    quiet = [route for route in AlertRoute.objects.filter(enabled=True).exclude(quiet=[]) if is_quiet(route, now)]
    due = AlertMessage.objects.filter(Q(next_at__lte=now) | Q(next_at__gt=now + LONGEST_WAIT), route__enabled=True)
    return due.exclude(~Q(type=MessageType.INFO), route__in=quiet)


def is_quiet(route: AlertRoute, now: datetime) -> bool:
    """True while its quiet hours last. One that cannot be read (a row written outside of the forms) is never quiet."""
    if not route.quiet:
        return False
    try:
        found = Window.parse(route.quiet, route.zone).current_or_next(now)
    except ValueError as error:
        name_once(f"the quiet hours of the alert route {route} are not kept: {error}")
        return False
    return found is None or found.opens_at <= now


@transaction.atomic
def _take(now: datetime) -> AlertMessage | None:
    # new messages come first: a route that hangs takes ANSWER_SECONDS for each of its messages
    due = _due(now).order_by("attempts", "next_at", "pk").select_for_update(skip_locked=True, of=("self",))
    message = due.select_related("route").first()
    if message is not None:
        AlertMessage.objects.filter(pk=message.pk).update(next_at=now + LEASE, attempts=F("attempts") + 1)
        # a message that has come since, such as "all is well again", may be newer than this one
        if message.error or now - message.made_at > LATE:
            message.body += f"\n\nWritten at {moment(message.made_at)} UTC: it could not be delivered before."
    return message


@transaction.atomic
def _write_down(message: AlertMessage, problem: str, now: datetime) -> None:
    row = AlertMessage.objects.filter(pk=message.pk)
    if not problem:
        row.update(delivered_at=now, next_at=None, error="")
        return
    wait = min(FIRST_WAIT * 2 ** min(message.attempts, 10), LONGEST_WAIT)
    gives_up = now + wait > message.made_at + TRIED_FOR
    row.update(next_at=None if gives_up else now + wait, error=problem)
    if gives_up:
        unheard = Func(F("known_to"), Value(message.route_id, BigIntegerField()), function="array_remove")
        Alert.objects.filter(pk__in=message.raises).update(known_to=unheard)
    then = "given up" if gives_up else f"tried again in {span(wait.total_seconds())}"
    log.warning("the alert %r was not delivered to %s, %s: %s", message.title, message.route, then, problem)


def send(message: AlertMessage, seconds: float | None = None) -> str:
    """Send a message now. Blocks for `seconds` at most. Returns why it was not delivered, without secrets; empty if it
    was. Raises: django.db.Error.
    """
    patience = ANSWER_SECONDS if seconds is None else seconds
    try:
        url = read_secret_in_time(message.route.url) or ""
    except SecretNotFound as error:
        return f"its URL is not known here: {error}"
    if problem := urls.problem_with(url):
        return f"its URL {problem}"
    facts: dict[str, object] = {"title": message.title, "body": message.body, "type": message.type}
    facts |= {"url": url, "allowed": list(settings.CALLBACKS_ALLOWED)}
    order = Order(PROGRAM, "send", facts, {"memory": LARGEST_MEMORY})
    try:
        reason = orders.give(order, threading.Event(), silent_for=patience)
    except OSError as error:
        return f"no process can be started here: {error}"
    except NoAnswer as error:
        reason = f"the process that sends it ended with {error.ended.exit_code}: {error}"
        reason = f"it did not answer within {patience:g} s" if error.is_silent else reason
    return f"{urls.shown(url)}: {redacted(reason, urls.secrets_of(url))}"[:LONGEST_REASON] if reason else ""


def send_test(route: AlertRoute) -> str:
    """Send a test message now, as `send` does."""
    body = "Alerts of the backup scheduler arrive here."
    return send(AlertMessage(route=route, title=f"Test of {route.name}", body=body), TEST_SECONDS)


def state_of(message: AlertMessage) -> str:
    """The state of a message as text."""
    if message.delivered_at:
        return "delivered"
    if message.next_at is None:
        return "given up"
    return "tried again" if message.error else "on its way"
