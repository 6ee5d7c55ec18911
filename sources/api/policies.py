"""Policies, for members of staff."""

from typing import Any

from django.http import HttpRequest
from ninja import Query, Router

from jobs.api.auth import StaffAuth
from jobs.api.errors import ApiError
from sources import previews
from sources.api.schemas import Error, PreviewQuery
from sources.models import Policy

router = Router(tags=["policies"], auth=StaffAuth())


@router.get(
    "/policies/{path:name}/preview",
    response={200: dict[str, Any], (401, 403, 404, 422): Error},
    summary="The next periods and their openings",
)
def preview(request: HttpRequest, name: str, query: Query[PreviewQuery]) -> dict[str, Any]:
    """From now on, or from the instant `from`."""
    known = Policy.objects.select_related("schedule") if name.isprintable() else Policy.objects.none()
    policy = known.filter(schedule__name=name).first()
    if policy is None:
        raise ApiError(404, "there is no such policy", "the admin lists the policies")
    try:
        periods = previews.preview(policy, query.count, query.start)
        found: dict[str, Any] = previews.as_json(policy, periods)
    except (ValueError, OverflowError) as error:
        raise ApiError(
            422, f"no preview is possible: {error}", "correct the policy, or ask for another `from`"
        ) from error
    return found
