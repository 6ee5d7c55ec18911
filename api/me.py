"""Who asks, and what they may do."""

from typing import Any

from django.http import HttpRequest
from ninja import Router

from api.auth import Staff, token_of
from api.schemas import MeAnswer

router = Router(tags=["who asks"])


@router.get(
    "/me",
    auth=Staff(None),
    response=MeAnswer,
    operation_id="get_me",
    summary="Who asks",
)
def me(request: HttpRequest) -> dict[str, Any]:
    """With a token of any scope, or by session."""
    user: Any = request.user
    return {
        "user": user.get_username(),
        "superuser": user.is_superuser,
        "permissions": sorted(user.get_all_permissions()),
        "token": token_of(request),
    }
