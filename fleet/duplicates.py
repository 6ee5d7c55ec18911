"""Sources that are one place under two names: each of its files would be backed up twice, or one was renamed."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from external.formatting import some_of
from sources.models import Source

PLACE = ("kind", "address", "port", "path", "options")
AT_ONCE = 5_000
TWICE = (
    "{} the same place: its files are backed up twice. If it was renamed, use `renamed_from` in a fleet file, "
    "or rename the old one"
)


def alike(rows: Sequence[Source]) -> dict[int, str]:
    """Id → a sentence that names the other sources, not retired, that are the same place; only ids that have any."""
    names = defaultdict[Any, list[str]](list)
    for at in range(0, len(rows), AT_ONCE):
        some = rows[at : at + AT_ONCE]
        # by both: all laptops of a fleet may have one path, and all shares of a server one address
        where = {"path__in": {each.path for each in some}, "address__in": {each.address for each in some}}
        found = Source.objects.filter(**where, retired_at=None).order_by("name")
        for name, *place in found.values_list("name", *PLACE):
            names[_key(place)].append(name)
    others = {each.pk: _without(names[_key(getattr(each, name) for name in PLACE)], each.name) for each in rows}
    return {pk: TWICE.format(_have(found)) for pk, found in others.items() if found}


def _have(names: list[str]) -> str:
    return f"sources {some_of(names, 3)} have" if len(names) > 1 else f"source {names[0]} has"


def _without(names: Iterable[str], own: str) -> list[str]:
    return list(dict.fromkeys(each for each in names if each != own))


def _key(place: Iterable[Any]) -> str:
    return json.dumps(list(place), sort_keys=True, default=str)
