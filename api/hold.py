"""The hold of everything: look, hold, release."""

from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Field, Router, Schema
from pydantic import AfterValidator

from api import history
from api.auth import looking, operating
from api.fields import Body, Instant, Line
from jobs import backlog
from jobs.models import Hold
from operations.hold import held

router = Router(tags=["backlog"], auth=looking())


def _given(reason: str) -> str:
    """Raises: ValueError for one that says nothing."""
    if not reason.strip():
        raise ValueError("is missing: say why, for those who look next")
    return reason


class HoldRequest(Body):
    """`reason`: why nothing may start."""

    reason: Annotated[Line, AfterValidator(_given), Field(json_schema_extra={"minLength": 1, "pattern": r"\S"})]


class HoldAnswer(Schema):
    """Whether everything is on hold; since when, why, and by whom."""

    held: bool
    since: Instant | None = None
    reason: str = ""
    by: str = ""


@router.get("/hold", response=HoldAnswer, operation_id="get_hold", summary="The hold of everything")
def get_hold(request: HttpRequest) -> dict[str, Any]:
    """Whether there is one. While there is, nothing starts, of any queue."""
    return _facts(held())


@router.post("/hold", auth=operating(), response=HoldAnswer, operation_id="hold", summary="Hold everything")
def hold(request: HttpRequest, body: HoldRequest) -> dict[str, Any]:
    """No backup, retention, check, drill, restore or delivery starts, and what runs is stopped and given back, which
    counts as no failure. Again: the reason is replaced. DELETE ends it."""
    if backlog.hold(body.reason, by=str(request.user)) and (found := held()):
        history.noted(request, found, "Held")
    return _facts(held())


@router.delete("/hold", auth=operating(), response=HoldAnswer, operation_id="release", summary="End the hold")
def release(request: HttpRequest) -> dict[str, Any]:
    """Everything goes on. Queues that were paused by themselves stay so."""
    found = held()
    if backlog.release(by=str(request.user)):
        history.noted(request, found, "Released")
    return _facts(held())


def _facts(found: Hold | None) -> dict[str, Any]:
    return {"held": True, "since": found.since, "reason": found.reason, "by": found.by} if found else {"held": False}
