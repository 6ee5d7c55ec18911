"""What was done over the API, in the history that the admin shows beside what was done there."""

from typing import Any

from django.contrib.admin.models import ADDITION, CHANGE, DELETION
from django.http import HttpRequest

from api.auth import token_of
from declarations.surfaces.web import audit

FLAGS = {"Created": ADDITION, "Deleted": DELETION}


def noted(request: HttpRequest, row: Any, what: str) -> None:
    """Write what was done to a row, as `Paused`. Of one that is deleted: to be called while it has its id."""
    token = token_of(request)
    by = f"by the API, token {token.name}" if token else "by the API"
    audit.write(request, type(row), row.pk, str(row), f"{what} {by}.", FLAGS.get(what, CHANGE))
