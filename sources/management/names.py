"""Rows that a command names."""

import difflib
from typing import Any

from django.core.management.base import CommandError

SHOWN_NAMES = 20


def named(rows: Any, name: str, word: str, path: str = "name") -> Any:
    """The one of `rows` (a model's manager or a query) whose `path` is `name`. Raises: CommandError that names similar
    ones, or some."""
    found = rows.filter(**{path: name}).first() if "\0" not in name else None  # PostgreSQL takes no NUL
    if found:
        return found
    names = list(rows.order_by(path).values_list(path, flat=True))
    if close := difflib.get_close_matches(name, names, n=3):
        text = f"did you mean {' or '.join(map(repr, close))}?"
    else:
        some = ", ".join(names[:SHOWN_NAMES]) + (", …" if len(names) > SHOWN_NAMES else "")
        text = f"there is {some or 'none at all: make one in the admin'}"
    raise CommandError(f"there is no {word} {name!r}; {text}", returncode=2)
