"""Queues: their contents, and pausing them. And the hold of everything."""

from dataclasses import asdict
from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Field, Router, Schema
from pydantic import AfterValidator

from api.auth import looking, operating
from api.errors import ApiError
from api.fields import Instant, Line, RowAnswer
from api.pages import patiently
from api.pausing import PauseRequest
from jobs import backlog
from jobs.backlog.pausing import check_known
from jobs.models import Hold
from operations.backlog import IN_NEED
from operations.backlog.summary import QueueSummary, summary
from operations.hold import held

router = Router(tags=["backlog"], auth=looking())


class QueueAnswer(
    RowAnswer,
    of=QueueSummary,
    names="name in_settings paused_at paused_until paused_reason waiting backing_off ready running oldest_ready_for "
    "overdue_for finished_last_minute workers places",
):
    """A queue at this moment. Numbers named in `at_least` are lower bounds. `oldest_ready_for`: seconds."""

    at_least: list[str]


class QueuesAnswer(Schema):
    """All queues, on a single page."""

    items: list[QueueAnswer]
    next: None = None


def _given(reason: str) -> str:
    """Check a reason. Raises: ValueError for an empty one."""
    if not reason.strip():
        raise ValueError("is missing: give a reason, for the next operator")
    return reason


class HoldRequest(PauseRequest):
    """`reason`: why nothing may start. `until`: when it is released automatically; null if a user has to do it."""

    reason: Annotated[Line, AfterValidator(_given), Field(json_schema_extra={"minLength": 1, "pattern": r"\S"})]


class HoldAnswer(Schema):
    """The hold of everything: whether there is one, since when, why, and by whom."""

    held: bool
    since: Instant | None = None
    until: Instant | None = None
    reason: str = ""
    by: str = ""


@router.get("/queues", response=QueuesAnswer, operation_id="list_queues", summary="Queues")
def list_queues(request: HttpRequest) -> dict[str, Any]:
    """The queues of the settings in their order, then others that hold records or are paused."""
    return {"items": list(_queues().values()), "next": None}


@router.post(
    "/queues/{name}/pause", auth=operating(), response=QueueAnswer, operation_id="pause_queue", summary="Pause a queue"
)
def pause(request: HttpRequest, name: str, body: PauseRequest) -> dict[str, Any]:
    """Nothing is claimed from it until it is resumed; running records continue. A second call replaces the reason."""
    _existing(name)
    backlog.pause_queue(name, **body.checked())
    return _queue(name)


@router.post(
    "/queues/{name}/resume", auth=operating(), response=QueueAnswer, operation_id="resume_queue",
    summary="Resume a queue",
)  # fmt: skip
def resume(request: HttpRequest, name: str) -> dict[str, Any]:
    """It is claimed from again, at once."""
    _existing(name)
    backlog.resume_queue(name)
    return _queue(name)


def _existing(name: str) -> None:
    """Raises: ApiError (404)."""
    missing = ApiError(404, "there is no such queue", "GET /api/queues lists those there are")
    if not name.isprintable():
        raise missing
    try:
        check_known(name)
    except ValueError as error:
        raise missing from error


def _queues() -> dict[str, dict[str, Any]]:
    with patiently():
        return {queue.name: _facts(queue) for queue in summary(without=IN_NEED).queues}


def _queue(name: str) -> dict[str, Any]:
    return _queues().get(name) or _facts(QueueSummary(name, in_settings=False))


def _facts(queue: QueueSummary) -> dict[str, Any]:
    return asdict(queue) | {"at_least": sorted(queue.at_least)}


@router.get("/hold", response=HoldAnswer, operation_id="get_hold", summary="The hold of everything")
def get_hold(request: HttpRequest) -> dict[str, Any]:
    """The hold, if there is one. While there is, no record of any queue starts."""
    return _hold(held())


@router.post("/hold", auth=operating(), response=HoldAnswer, operation_id="hold", summary="Hold everything")
def hold(request: HttpRequest, body: HoldRequest) -> dict[str, Any]:
    """No backup, retention, check, drill, restore or delivery starts, and running records are stopped and given back,
    which is not a failure. A second hold replaces the reason. DELETE ends it, or `until`."""
    backlog.hold(by=str(request.user), **body.checked())
    return _hold(held())


@router.delete("/hold", auth=operating(), response=HoldAnswer, operation_id="release", summary="End the hold")
def release(request: HttpRequest) -> dict[str, Any]:
    """Everything starts again, but for queues that were paused separately."""
    backlog.release(by=str(request.user))
    return _hold(held())


def _hold(found: Hold | None) -> dict[str, Any]:
    if found is None:
        return {"held": False}
    return {"held": True, "since": found.since, "until": found.until, "reason": found.reason, "by": found.by}
