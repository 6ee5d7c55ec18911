"""Rows of other tables shown within a page of the admin."""

from collections.abc import Iterable, Sequence

from django.template.loader import render_to_string
from django.utils.safestring import SafeString


def table(headers: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> SafeString | str:
    """A table in the admin's style; `empty` when there are no rows. Cells are escaped unless they are safe HTML."""
    cells = [list(row) for row in rows]
    if not cells:
        return empty
    context = {"table": {"headers": list(headers), "rows": cells}}
    return render_to_string("declarations/table.html", context)
