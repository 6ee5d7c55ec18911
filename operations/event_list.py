"""Events as people look for them: what was delivered and when, what came back, and what is still to be delivered.

An event is a record of a kind that delivers (`delivery.models`). What its receiver answered stands in the facts of its
last attempt.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Exists, F, FloatField, IntegerField, OuterRef, Q, QuerySet, Subquery, TextChoices
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from delivery.addresses import origin_of
from delivery.models import Endpoint, Event
from jobs.models import Attempt
from jobs.states import AttemptOutcome, Status, WaitingFor
from schedules.events import beginning
from schedules.models import Late, Stagger, Trigger
from schedules.stagger import offsets

Events = QuerySet[Event]


class State(TextChoices):
    """Where an event is on its way."""

    UNFINISHED = "unfinished", "to be delivered"
    DELIVERED = "delivered", "delivered"
    FAILED = "failed", "failed"
    CANCELLED = "cancelled", "cancelled"


ENDED = {
    State.DELIVERED: Status.SUCCEEDED,
    State.FAILED: Status.FAILED,
    State.CANCELLED: Status.CANCELLED,
}


class Answer(TextChoices):
    """What the last attempt at an event got for an answer."""

    OK = "2xx", "2xx"
    REDIRECT = "3xx", "3xx"
    REFUSED = "4xx", "4xx"
    BROKEN = "5xx", "5xx"
    NONE = "none", "no answer"


def state_of(event: Event) -> State:
    by_status = {status: state for state, status in ENDED.items()}
    return by_status.get(Status(event.status), State.UNFINISHED)


def in_state(events: Events, state: State) -> Events:
    """Those in that state. What has ended comes by when it ended, the latest first, which `backlog_done` yields; the
    statuses are listed one by one, so that their partial indexes are taken."""
    if state == State.UNFINISHED:
        return events.filter(Q(status=Status.WAITING) | Q(status=Status.READY) | Q(status=Status.RUNNING))
    return events.filter(status=ENDED[state], finished_at__isnull=False)


def with_answers(events: Events) -> Events:
    """With `answer_status` (a number or None) and `answer_seconds` of the last attempt, each found by its key."""
    last = Attempt.objects.filter(record_id=OuterRef("pk")).order_by("-number").values("facts")[:1]
    found: Events = events.annotate(answer_facts=Subquery(last)).annotate(
        answer_status=Cast(KeyTextTransform("status", "answer_facts"), IntegerField()),
        answer_seconds=Cast(KeyTextTransform("seconds", "answer_facts"), FloatField()),
    )
    return found


def answered(events: QuerySet[Any], answer: Answer) -> QuerySet[Any]:
    """Those of which the last attempt got such an answer; of `with_answers`. Only what was tried has one."""
    if answer == Answer.OK:
        return events.filter(answer_status__gte=200, answer_status__lt=300)
    # whatever else was answered, it was not delivered by that: among millions of delivered ones nobody has to look
    undelivered = events.filter(~Q(status=Status.SUCCEEDED), attempt__gt=0)
    if answer == Answer.NONE:
        ended = Attempt.objects.filter(record_id=OuterRef("pk"))
        return undelivered.filter(Exists(ended), answer_status__isnull=True)
    least = int(answer.value[0]) * 100
    return undelivered.filter(answer_status__gte=least, answer_status__lt=least + 100)


def of_schedule_named(events: Events, name: str) -> Events:
    """Those that carry this name: what a schedule emitted that is gone or is called otherwise now, and test events.

    No index serves that."""
    return events.filter(payload__schedule=name)


def with_event_id(events: Events, event_id: str) -> Events:
    """Those with that id: one. By the index of batches, when the id tells schedule and launch time."""
    schedule, _, rest = event_id.partition("-")
    try:
        launch = datetime.strptime(rest.partition("-")[0], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        of_batch = events.filter(origin_id=int(schedule[:18]), trigger_at=launch, subject=event_id)
    except ValueError:
        of_batch = events.none()
    return of_batch if of_batch.exists() else events.filter(subject=event_id)


def launch_instants(events: Iterable[Event]) -> dict[int, datetime | None]:
    """Event's id → when it was to start, by the stagger that its batch was begun with; None when nobody can tell.

    A record does not keep that instant once it has started. One query for all of them.
    """
    asked = list(events)
    triggers = {
        (trigger.schedule_id, trigger.trigger_at): trigger
        for trigger in Trigger.objects.select_related("schedule")
        .defer("frozen_config", "schedule__payload_template")
        .filter(
            schedule__in={event.origin_id for event in asked if event.origin_id},
            trigger_at__in={event.trigger_at for event in asked if event.trigger_at},
        )
    }
    return {
        event.pk: launch_of(event, triggers.get((event.origin_id or 0, event.trigger_at or event.inserted_at)))
        for event in asked
    }


def launch_of(event: Event, trigger: Trigger | None) -> datetime | None:
    """When an event of that trigger was to start. Of a trigger that was seen late: counted from then.

    One from before triggers kept what they were begun with is taken to be as its schedule is now.
    """
    if event.status == Status.WAITING and event.waiting_for == WaitingFor.START:
        return event.run_after
    if event.trigger_at is None:
        return event.inserted_at
    number = event.payload.get("number")
    if trigger is None or not isinstance(number, int) or number < 1:
        return None
    begins_at = trigger.begins_at or beginning(trigger.trigger_at, trigger.seen_at)
    if (trigger.stagger or trigger.schedule.stagger) != Stagger.EVEN or trigger.closes_at is None:
        return begins_at
    closes_at = trigger.closes_at
    if (trigger.late or trigger.schedule.late) != Late.DROP:
        closes_at = begins_at + (closes_at - trigger.trigger_at)
    window_for = (closes_at - begins_at).total_seconds()
    return begins_at + timedelta(seconds=offsets(number, window_for, trigger.schedule_id, number)[0])


def lag_of(event: Event, launch: datetime | None) -> float | None:
    """Seconds from an event's launch instant to the start of its last attempt; None: not tried, or nobody knows."""
    if launch is None or event.started_at is None:
        return None
    return (event.started_at - launch).total_seconds()


def endpoint_names(events: Iterable[Event]) -> dict[int, str]:
    """Endpoint's id → its name, of those that events go to. One query for all of them."""
    ids = {pk for event in events if isinstance(pk := event.payload.get("endpoint"), int)}
    return dict(Endpoint.objects.filter(pk__in=ids).values_list("pk", "name")) if ids else {}


def shown_payload(event: Event) -> dict[str, Any]:
    """Its payload, with no more than the origin of a URL: of many services the path is the secret."""
    payload: dict[str, Any] = event.payload
    return payload | {"url": _shown_url(payload)} if "url" in payload else payload


def _shown_url(payload: dict[str, Any]) -> str | None:
    url = payload.get("url")
    return (origin_of(str(url)) or None) if url else None


def facts_of(event: Event, launch: datetime | None, names: Mapping[int, str] | None = None) -> dict[str, Any]:
    """An event by name, for JSON and for tables; instants are aware, durations are seconds. Of `with_answers`.
    `names`: of endpoints. `url`: of one without an endpoint, its origin."""
    payload = event.payload
    endpoint = payload.get("endpoint")
    return {
        "id": event.pk,
        "event_id": payload.get("event_id") or event.subject,
        "kind": event.kind,
        "state": state_of(event).value,
        "status": Status(event.status).label,
        "waiting_for": None if event.waiting_for is None else WaitingFor(event.waiting_for).label,
        "schedule": payload.get("schedule"),
        "schedule_id": event.origin_id,
        "trigger_at": event.trigger_at,
        "launch_at": launch,
        "run_after": event.run_after,
        "delivered_at": event.finished_at if event.status == Status.SUCCEEDED else None,
        "finished_at": event.finished_at,
        "lag": lag_of(event, launch),
        "code": getattr(event, "answer_status", None),
        "seconds": getattr(event, "answer_seconds", None),
        "attempts": event.attempt,
        "failures": event.failures,
        "error": event.last_error if event.status != Status.SUCCEEDED else "",
        "endpoint": endpoint,
        "endpoint_name": (names or {}).get(endpoint) if isinstance(endpoint, int) else None,
        "url": _shown_url(payload),
    }


def attempts_of(event: Event) -> list[Attempt]:
    """The attempts at an event, the first one first."""
    return list(Attempt.objects.filter(record_id=event.pk).order_by("number"))


def attempt_facts(attempt: Attempt) -> dict[str, Any]:
    """An attempt by name: with what the receiver answered, and all else that was found."""
    facts = attempt.facts or {}
    return {
        "number": attempt.number,
        "started_at": attempt.started_at,
        "ended_at": attempt.ended_at,
        "outcome": AttemptOutcome(attempt.outcome).label,
        "code": facts.get("status"),
        "seconds": facts.get("seconds"),
        "worker_id": attempt.worker_id,
        "error": attempt.error,
        "facts": attempt.facts,
    }


def latest_first(events: Events, state: State | None) -> Events:
    """What has ended by when that was; else the last that were put on the backlog first."""
    return events.order_by(F("finished_at").desc(), "-pk") if state in ENDED else events.order_by("-pk")
