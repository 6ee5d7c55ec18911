"""Queues: what lies in them, and pausing them."""

from dataclasses import asdict
from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Field, Router

from api import history
from api.auth import looking, operating
from api.choosing import NOT_KNOWN, patiently
from api.errors import ApiError
from api.fields import Body, Line
from api.schemas import QueueAnswer, QueuesAnswer
from jobs import backlog
from jobs.backlog.pausing import check_known
from jobs.models import PausedQueue
from operations.backlog.summary import QueueSummary, summary

router = Router(tags=["backlog"], auth=looking())


class PauseRequest(Body):
    """`reason`: why nothing starts."""

    reason: Annotated[Line, Field()] = ""


@router.get("/queues", response=QueuesAnswer, operation_id="list_queues", summary="Queues")
def list_queues(request: HttpRequest) -> dict[str, Any]:
    """Those of the settings in their order, then what else holds records or is paused."""
    return {"items": list(_queues().values()), "next": None}


@router.post(
    "/queues/{name}/pause", auth=operating(), response=QueueAnswer, operation_id="pause_queue", summary="Pause a queue"
)
def pause(request: HttpRequest, name: str, body: PauseRequest) -> dict[str, Any]:
    """Nothing is claimed from it until it is resumed. What runs goes on. Again: the reason is replaced."""
    _existing(name)
    if backlog.pause_queue(name, body.reason):
        history.noted(request, PausedQueue(name=name), "Paused")
    return _queue(name)


@router.post(
    "/queues/{name}/resume", auth=operating(), response=QueueAnswer, operation_id="resume_queue",
    summary="Resume a queue",
)  # fmt: skip
def resume(request: HttpRequest, name: str) -> dict[str, Any]:
    """It is claimed from again, at once."""
    _existing(name)
    if backlog.resume_queue(name):
        history.noted(request, PausedQueue(name=name), "Resumed")
    return _queue(name)


def _existing(name: str) -> None:
    """Raises: ApiError (404)."""
    try:
        if not name.isprintable():
            raise ValueError(NOT_KNOWN)
        check_known(name)
    except ValueError as error:
        raise ApiError(404, "there is no such queue", "GET /api/queues lists those there are") from error


def _queues() -> dict[str, dict[str, Any]]:
    with patiently():
        return {queue.name: _facts(queue) for queue in summary().queues}


def _queue(name: str) -> dict[str, Any]:
    return _queues().get(name) or _facts(QueueSummary(name, in_settings=False))


def _facts(queue: QueueSummary) -> dict[str, Any]:
    return asdict(queue) | {"at_least": sorted(queue.at_least)}
