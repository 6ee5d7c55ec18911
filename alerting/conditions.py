"""Conditions of alerts themselves: whether operators learn of problems."""

from collections.abc import Iterator
from datetime import datetime

from alerting import sending
from alerting.models import AlertRoute
from jobs.conf import PROGRAM
from operations.finding import Case, Finding, Look, condition, ok, warning
from sources.models import Source

UNTOLD = "No alert route is enabled: problems are shown here, and sent to no one"
ADD_ONE = f"`{PROGRAM} alerts add NAME --url-file -` adds one, and `{PROGRAM} alerts test NAME` tries it"


def is_untold() -> bool:
    """True if there are sources, and no route by which operators hear of them."""
    return not AlertRoute.objects.filter(enabled=True).exists() and Source.objects.filter(retired_at=None).exists()


def hints(now: datetime) -> list[str]:
    """A sentence about that, for commands."""
    return [f"{UNTOLD}. {ADD_ONE}."] if is_untold() else []


@condition()
def alert_routes(look: Look) -> Finding:
    """A fleet whose alerts are sent to no operator."""
    names = list(AlertRoute.objects.filter(enabled=True).values_list("name", flat=True))
    if is_untold():
        return warning(UNTOLD, ADD_ONE, routes=names)
    return ok("alerts are sent to users" if names else "there is no source that alerts could be about", routes=names)


@condition(
    "messages about alerts arrive",
    "{}",
    f"correct the route; `{PROGRAM} alerts test NAME` tries it. Failed messages are tried again for a day",
)
def undelivered(look: Look) -> Iterator[Case]:
    """Messages that are tried again, or were given up in the last week."""
    return (Case("messages", sentence.removesuffix(".")) for sentence in sending.in_need(look.now))
