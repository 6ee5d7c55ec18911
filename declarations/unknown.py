"""Rows by their names, and messages about names that no row has."""

import difflib
from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet

SHOWN_NAMES = 20


def named(rows: Any, name: str, path: str = "name", word: str = "") -> Any:
    """The one of `rows` (a model's manager or a query) whose `path` is `name`; `word`: the name of such a row, if it is
    not its model's. Raises: ValueError naming similar ones, or some."""
    found = rows.filter(**{path: name}).first() if "\0" not in name else None  # PostgreSQL takes no NUL
    if found is None:
        raise ValueError(nothing_named(rows.model, path, name, word))
    return found


def nothing_named(model: Any, path: str, name: str, word: str = "") -> str:
    """A message that no row has that name."""
    return no_such(word or model._meta.verbose_name, name, names_of(model._default_manager.all(), path))


def names_of(rows: QuerySet[Any], field: str = "name") -> list[str]:
    """All names, in order."""
    return list(rows.order_by(field).values_list(field, flat=True))


def no_such(word: str, name: str, names: Sequence[str]) -> str:
    """A message that no `word`, such as *source*, is called `name`, with similar ones of `names`, or some; without full
    stop.
    """
    return f"there is no {word} {name!r}; {similar(name, names)}"


def similar(name: str, names: Sequence[str]) -> str:
    """A question that offers those of `names` that are like `name`, or a list of them."""
    if close := difflib.get_close_matches(name, names, n=3):
        return f"did you mean {' or '.join(map(repr, close))}?"
    return there_are(names)


def there_are(names: Sequence[str]) -> str:
    """The first SHOWN_NAMES names as text."""
    some = ", ".join(names[:SHOWN_NAMES]) + (", …" if len(names) > SHOWN_NAMES else "")
    return f"there {'is' if len(names) < 2 else 'are'} {some or 'none yet'}"


def article(title: str) -> str:
    """The title with its article, such as `an endpoint`."""
    return f"{'an' if title[0] in 'aeiou' else 'a'} {title}"
