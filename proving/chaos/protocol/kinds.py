"""The kinds of the simulation's records, and the outcomes that their handlers may return."""

from datetime import datetime

from django.db import connection

from jobs.handlers import Kind, one_by_one, registry
from jobs.outcomes import ClaimedRecord, Failed, Handoff, Outcome, Released, Succeeded, Unavailable
from proving.chaos.protocol.actor import actor_here
from proving.chaos.protocol.violation import Violation

KEY = "source:1"

early: list[Violation] = []
"""Settle hooks that got an instant from before a wait for a lock, in the present seed."""


def book(record: ClaimedRecord, outcome: Outcome, now: datetime) -> None:
    """Book a success, as a settle hook like that of backups, which emits the next period by the given instant. A
    booking must be there if and only if its success is."""
    actor = actor_here()
    if actor is not None and actor.waited_until is not None and now < actor.waited_until:
        early.append(
            Violation(
                "a period is lost",
                f"{record.subject} settles at {now:%H:%M:%S} although {actor} waited for a lock until "
                f"{actor.waited_until:%H:%M:%S}: a trigger in between is emitted by neither",
            )
        )
    if isinstance(outcome, Succeeded):
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO sim.booking (record_id, attempt) VALUES (%s, %s)", [record.id, record.attempt])


def register() -> None:
    registry.add(Kind("plain", home_queue="work"))
    registry.add(Kind("booked", home_queue="work", after_settle=one_by_one(book)))
    registry.add(Kind("capped", home_queue="work"))
    registry.add(Kind("relay", home_queue="ask"))


OUTCOMES: dict[str, Outcome] = {
    "succeeds": Succeeded(),
    "fails": Failed("bad luck"),
    "is-silent": Unavailable("silent", recheck_after=5),
    "gives-back": Released("not now"),
    "hands-on": Handoff("work", exclusive_key=KEY),
}


def endings(record: ClaimedRecord) -> list[tuple[str, float]]:
    """The possible ends of a handler of this record, each with its weight."""
    if record.kind == "relay" and record.queue == "ask":
        return [("hands-on", 8), ("is-silent", 0.5)]
    return [("succeeds", 6), ("fails", 1.2), ("is-silent", 0.5), ("gives-back", 0.5)]
