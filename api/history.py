"""Notes in the audit of what was asked for over the API and no row shows: triggers see what is created or changed."""

from typing import Any

from django.http import HttpRequest

from declarations.surfaces.web import audit


def noted(request: HttpRequest, row: Any, what: str) -> None:
    """Note what was done about a row, as `Back up now`."""
    audit.write(type(row), row.pk, str(row), f"{what}.")
