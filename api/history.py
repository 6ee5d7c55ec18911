"""What the API created, changed and deleted, in the history that the admin shows beside what was done there."""

from collections.abc import Collection
from typing import Any

from django.contrib.admin.models import ADDITION, CHANGE, DELETION
from django.http import HttpRequest

from api.auth import token_of
from operations.web import audit


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
    audit.write(request, type(row), row.pk, str(row), f"{what} {by}.", flag)
