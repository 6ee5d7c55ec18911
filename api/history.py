"""Notes in the audit of actions over the API that no row shows; triggers see creations and changes."""

from typing import Any

from django.http import HttpRequest

from declarations.surfaces.web import audit


def noted(request: HttpRequest, row: Any, what: str) -> None:
    """Note an action about a row, such as `Back up now`."""
    audit.write(type(row), row.pk, str(row), f"{what}.")
