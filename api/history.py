"""What the API created, changed and deleted, in the history that the admin shows beside what was done there."""

from collections.abc import Collection
from typing import Any

from django.contrib.admin.models import ADDITION, CHANGE, DELETION, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.http import HttpRequest

from api.auth import token_of
from jobs.formatting import storable

LONGEST_TITLE = 200


def created(request: HttpRequest, row: Any) -> None:
    """Write that a row was created."""
    _write(request, row, ADDITION, "Created")


def changed(request: HttpRequest, row: Any, fields: Collection[str]) -> None:
    """Write which fields of a row were changed; nothing when none was."""
    if fields:
        _write(request, row, CHANGE, f"Changed {', '.join(sorted(fields))}")


def deleted(request: HttpRequest, row: Any) -> None:
    """Write that a row is being deleted. To be called while it has its id."""
    _write(request, row, DELETION, "Deleted")


def noted(request: HttpRequest, row: Any, what: str) -> None:
    """Write that something else was done to a row, as `Paused`."""
    _write(request, row, CHANGE, what)


def _write(request: HttpRequest, row: Any, flag: int, what: str) -> None:
    token = token_of(request)
    by = f"by the API, token {token.name}" if token else "by the API"
    LogEntry.objects.create(
        user_id=int(request.user.pk or 0),
        content_type=ContentType.objects.get_for_model(type(row)),
        object_id=str(row.pk),
        object_repr=str(row)[:LONGEST_TITLE],
        action_flag=flag,
        change_message=storable(f"{what} {by}."),
    )
