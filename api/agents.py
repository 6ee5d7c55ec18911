"""What agents say and ask for. The token decides which source is spoken of."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.http import HttpRequest
from ninja import Router

from api.agent_auth import ASKED_FOR, NEW_ADDRESSES, AgentAuth, agent_of, not_accepted
from api.assignment_schemas import (
    LONGEST_SNOOZE_SECONDS,
    CheckInRequest,
    MovedAnswer,
    SnoozeAnswer,
    SnoozeRequest,
    StatusAnswer,
)
from api.errors import not_valid
from api.source_answers import status_of
from sources import planning
from sources.agents import checkins
from sources.models import Source

router = Router(tags=["agent"], auth=AgentAuth())


@router.post("/check-in", response=StatusAnswer, operation_id="check_in", summary="Say that the source is here")
def check_in(request: HttpRequest, body: CheckInRequest) -> dict[str, Any]:
    """What is due is ready at its true place at once. The answer says when to announce the source again."""
    agent, sender = agent_of(request), request.META["REMOTE_ADDR"]
    addresses = _within_limit(agent.source, checkins.reachable_at(body.addresses, sender))
    try:
        found = checkins.check_in(agent.source, replace(body.facts(), addresses=addresses), sender, agent.now)
    except checkins.SourceGone as error:
        raise not_accepted() from error
    return status_of(agent.source, agent.now, found.standings)


def _within_limit(source: Source, named: list[str]) -> tuple[str, ...]:
    """`named` without new addresses beyond their limit. The check-in counts all the same, with its sender's address."""
    new = [address for address in named if address not in source.addresses]
    beyond = new[NEW_ADDRESSES.grant(str(source.pk), len(new)) :] if new else []
    return tuple(address for address in named if address not in beyond)


@router.get("/agent/status", response=StatusAnswer, operation_id="get_agent_status", summary="How the source stands")
def status(request: HttpRequest) -> dict[str, Any]:
    """As the answer to a check-in; changes nothing."""
    agent = agent_of(request)
    return status_of(agent.source, agent.now)


@router.post("/agent/back-up-now", response=MovedAnswer, operation_id="back_up_now", summary="Back up now")
def back_up_now(request: HttpRequest) -> dict[str, int]:
    """Out of period and window. A paused source stays where it is; a snooze is over."""
    agent = agent_of(request)
    ASKED_FOR.spend(str(agent.source.pk))
    return {"moved": planning.back_up_now(agent.source.assignments.all(), agent.now, asked_by="its user")}


@router.post("/agent/snooze", response=SnoozeAnswer, operation_id="snooze", summary="No backups before")
def snooze(request: HttpRequest, body: SnoozeRequest) -> dict[str, Any]:
    """What runs already goes on. At most seven days."""
    agent = agent_of(request)
    until = body.until or agent.now + timedelta(seconds=body.seconds or 0)
    if not agent.now < until <= agent.now + timedelta(seconds=LONGEST_SNOOZE_SECONDS):
        too_far = [("until", "must be in the future, and at most 7 days away")]
        raise not_valid(too_far, "send `for` (seconds) if your clock is off")
    planning.snooze([agent.source], until, agent.now)
    return {"snoozed_until": until}


@router.delete("/agent/snooze", response=SnoozeAnswer, operation_id="unsnooze", summary="End the snooze")
def unsnooze(request: HttpRequest) -> dict[str, None]:
    """What waited for its end is ready."""
    agent = agent_of(request)
    planning.unsnooze([agent.source], agent.now)
    return {"snoozed_until": None}
