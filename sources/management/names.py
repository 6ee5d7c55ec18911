"""Rows that a command names."""

from typing import Any

from django.core.management.base import CommandError

from sources.unknown import no_such


def named(rows: Any, name: str, word: str, path: str = "name") -> Any:
    """The one of `rows` (a model's manager or a query) whose `path` is `name`. Raises: CommandError that names similar
    ones, or some."""
    found = rows.filter(**{path: name}).first() if "\0" not in name else None  # PostgreSQL takes no NUL
    if found:
        return found
    names = list(rows.order_by(path).values_list(path, flat=True))
    raise CommandError(no_such(word, name, names), returncode=2)
