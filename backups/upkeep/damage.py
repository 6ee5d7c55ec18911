"""Damage that checks have found in a repository, for the runs that bring the data again: backups, and copies."""

from collections import defaultdict

from external.formatting import several
from sources.models import Assignment, CheckRound, Repository
from storage import layout
from storage.places.location import RESTIC
from storage.points.checking import Damage

OF_NO_FILE = (layout.MANIFESTS, RESTIC)


def places(assignment: Assignment, repository: Repository) -> dict[str, list[str]]:
    """Point → the places of its files (`Entry.place`) that are known to be damaged or missing there."""
    found = defaultdict[str, list[str]](list)
    rows = CheckRound.objects.filter(pk=assignment.pk).values_list("damage", flat=True)
    for each in rows.first() or ():
        if each.get("repository") == repository.pk and each["place"] not in OF_NO_FILE:
            found[each["point"]].append(each["place"])
    return dict(found)


def as_text(found: list[Damage]) -> str:
    """The damage as text, such as `2 files: 'a' of 20261121T065755Z: it is missing; …`. restic names no files, but the
    problem.
    """
    named = "; ".join(
        each.why if each.place == RESTIC else f"{each.path!r} of {each.points}: {each.why}" for each in found[:3]
    )
    return f"{several(len(found), 'file')}: {named}{'; …' if len(found) > 3 else ''}"
