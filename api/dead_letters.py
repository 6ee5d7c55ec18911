"""Dead letters: the failed records by what they say."""

from typing import Any

from django.http import HttpRequest
from ninja import Query, Router

from api.auth import looking
from api.choosing import check_known, patiently
from api.schemas import DeadLettersAnswer, DeadLettersQuery
from operations.backlog.dead_letters import dead_letters, facts_of

router = Router(tags=["backlog"], auth=looking())


@router.get(
    "/dead-letters",
    response=DeadLettersAnswer,
    operation_id="list_dead_letters",
    summary="Failed records by what they say",
)
def list_dead_letters(request: HttpRequest, query: Query[DeadLettersQuery]) -> dict[str, Any]:
    """As `manage.py backlog errors --json`. `POST /api/records/retry` takes a `group`."""
    check_known(query.kind, query.queue)
    with patiently():
        return facts_of(dead_letters(query.kind, query.queue))
