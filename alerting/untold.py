"""Whether people hear of what goes wrong at all."""

from datetime import datetime

from alerting.models import AlertRoute
from jobs.conf import PROGRAM
from sources.models import Source

UNTOLD = "No alert route is enabled: what goes wrong is shown here, and sent to no person"
ADD_ONE = f"`{PROGRAM} alerts add NAME --url-file -` adds one, and `{PROGRAM} alerts test NAME` tries it"


def is_untold() -> bool:
    """Whether there is something to watch over, and no route by which people hear of it."""
    return not AlertRoute.objects.filter(enabled=True).exists() and Source.objects.filter(retired_at=None).exists()


def hints(now: datetime) -> list[str]:
    """The same in a sentence."""
    return [f"{UNTOLD}. {ADD_ONE}."] if is_untold() else []
