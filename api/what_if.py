"""The effect of a change on the fleet, from its recorded days."""

from typing import Any

from django.http import HttpRequest
from ninja import Field, Query, Router, Schema

from api.auth import name_of, viewing
from api.errors import ApiError, not_valid
from api.fields import Name, RowAnswer
from jobs.clock import database_clock
from simulation.changes import MOST_ADDED, Changes, ImpossibleChange, ranges
from simulation.on_own_fleet import ASKED, what_if
from simulation.own_history import LONGEST_DAYS, HistoryTooShort
from simulation.what_if import NotComputed, Outlook

router = Router(tags=["what if"])
NAMES = "GET /api/policies and /api/sources have the names"


class WhatIfQuery(Schema):
    """`policy`: the one that would have this `window` (`mon-fri 22:00-06:00; sat 00:00-00:00`, or `always`) or `cron`;
    `add`: the number of added sources; `like`: the name of the source that they resemble.
    """

    days: int = Field(28, ge=1, le=LONGEST_DAYS, description="How many of the fleet's last days are simulated")
    units: int | None = Field(None, ge=1, le=10_000, description="Execution units")
    policy: Name | None = None
    window: str | None = Field(None, max_length=500)
    cron: str | None = Field(None, max_length=100)
    add: int | None = Field(None, ge=1, le=MOST_ADDED)
    like: Name | None = None

    def changes(self) -> Changes:
        """Raises: ImpossibleChange."""
        values: dict[str, Any] = {} if self.window is None else {"windows": ranges(self.window)}
        values |= {} if self.cron is None else {"period": self.cron}
        if values and self.policy is None:
            raise ImpossibleChange("policy", "name the policy whose window or cron is another")
        if (self.add is None) != (self.like is None):
            missing = "add" if self.add is None else "like"
            raise ImpossibleChange(missing, "give both: how many sources are added, and which one they are like")
        policies = ((self.policy, values),) if self.policy and values else ()
        added = ((self.add, self.like),) if self.add is not None and self.like is not None else ()
        found = Changes(self.units, policies, added)
        found.check()
        return found


class ValleyAnswer(Schema):
    """The least busy hours of a day, UTC, and the units at work in them."""

    from_hour: int
    hours: int
    busy: float


class OutlookAnswer(RowAnswer, of=Outlook, names="units sources possible protected share never_protected missed busy"):
    """The fleet's days as they were simulated: `missed`: source → periods in which it was there and was not backed up;
    `busy`: by hour of the day, UTC, units at work."""

    peak: float
    valley: ValleyAnswer


class ChangedSourceAnswer(Schema):
    """A source with the periods that it misses."""

    name: str
    before: int
    after: int


class WhatIfAnswer(Schema):
    """The same days without and with the change. `lacks`: the unknown parts."""

    days: int
    now: OutlookAnswer
    then: OutlookAnswer
    worse: list[ChangedSourceAnswer]
    better: list[ChangedSourceAnswer]
    lacks: list[str]


@router.get(
    "/what-if", auth=viewing("sources.source"), response=WhatIfAnswer, operation_id="get_what_if",
    summary="The effect of a change on the fleet", openapi_extra={"x-has": ["conflict"]},
)  # fmt: skip
def get_what_if(request: HttpRequest, query: Query[WhatIfQuery]) -> dict[str, Any]:
    """Its recorded days, simulated twice. Nothing is saved."""
    try:
        changes = query.changes()
        ASKED.spend(name_of(request))
        return what_if(database_clock(), query.days, changes).as_facts
    except (HistoryTooShort, NotComputed) as error:
        raise ApiError(409, f"not computed, because {error}", "ask for fewer days, or later") from error
    except ImpossibleChange as error:
        hint = NAMES if error.field in ("policy", "like") else ""
        raise not_valid([(error.field, str(error))], hint) from error
