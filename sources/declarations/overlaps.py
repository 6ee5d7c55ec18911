"""Folders that must not be inside each other: sources, repositories, and this program's places.

Paths are compared as written, and the one that is being saved also with its links resolved: the others may be on a
share that does not answer.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from django.conf import settings
from django.core.exceptions import ValidationError

from sources.models import Repository, Source
from sources.models.source import ON_THIS_HOST, SourceKind

OURS = ("postgres", "secrets", "secret_key", "staging")
"""This program's folders in `settings.VAR_DIR`: the database, passwords and keys, copies of sources."""
NAMES_A_SERVER = ("host", "port", "url", "endpoint", "account")
"""Settings of a remote."""
WITH_PLACES = (*ON_THIS_HOST, SourceKind.S3, SourceKind.RCLONE)
"""Kinds of sources that may be in the same place as a repository."""
OURS_IS_THERE = "which holds this program's database, passwords or keys"
SPECIAL = re.compile(r"([*?\[\]{}\\])")


class OurPlaces(NamedTuple):
    """This program's places: the contents of each, and the directories that are left out of backups."""

    inside: list[str]
    homes: list[str]

    @classmethod
    def now(cls) -> "OurPlaces":
        inside = [settings.VAR_DIR / each for each in OURS]
        homes = {str(settings.VAR_DIR), os.path.realpath(settings.VAR_DIR / "postgres")}
        return cls([*map(str, inside), *map(os.path.realpath, inside)], sorted(homes))


def check_source(source: Source, repositories: Iterable[Repository], ours: OurPlaces | None = None) -> None:
    """Check that a source overlaps nothing that it must not, such as these repositories. `ours`: this program's places,
    if they have been looked up for many sources. Raises: ValidationError on `path`.
    """
    if source.kind not in WITH_PLACES:
        return
    forms = _forms(source.path, is_here := source.kind in ON_THIS_HOST)
    if is_here:
        places = ours or OurPlaces.now()
        left_out = _left_out(forms, places)
        if own := _first_overlap(forms, [each for each in places.inside if not _is_inside(each, left_out)]):
            _refuse("path", source.path, own, OURS_IS_THERE)
    beside = [repository for repository in repositories if _are_together(source, repository)]
    if taken := _first_overlap(forms, map(_path_in, beside)):
        repository = next(each for each in beside if _path_in(each) == taken)
        why = f"the location of repository {repository}: a backup would copy backups, itself in the end"
        _refuse("path", source.path, repository.location, why)


def check_repository(repository: Repository) -> None:
    """Raises: ValidationError on `location`, when it overlaps a folder that it must not."""
    forms = _forms(repository.location, not repository.remote)
    if not repository.remote and (own := _first_overlap(forms, OurPlaces.now().inside)):
        _refuse("location", repository.location, own, OURS_IS_THERE)
    for other in Repository.objects.exclude(pk=repository.pk):
        if _of_repository(other) == _of_repository(repository) and _first_overlap(forms, [_path_in(other)]):
            why = f"the location of repository {other}: the backups of one could delete those of the other"
            _refuse("location", repository.location, other.location, why)
    for source in Source.objects.filter(kind__in=WITH_PLACES):
        path = source.path if source.kind in ON_THIS_HOST else _rooted(source.path)
        if _are_together(source, repository) and _first_overlap(forms, [path]):
            why = f"the path of source {source}: its backup would copy backups, itself in the end"
            _refuse("location", repository.location, source.path, why)


def _are_together(source: Source, repository: Repository) -> bool:
    """True if the source and the repository are both folders on this host, or are on the same S3 server, or in the same
    remote.
    """
    if source.kind == SourceKind.S3:
        remote = repository.remote
        return remote.get("type") == "s3" and _s3(source.address) == _s3(remote.get("endpoint", ""))
    if source.kind == SourceKind.RCLONE:
        return _server_of(source.options, source.secrets) == _of_repository(repository)
    return source.kind in ON_THIS_HOST and not repository.remote


def _s3(endpoint: str) -> str:
    """The server of an endpoint, which may be a URL; all of AWS is one server, which an empty endpoint means."""
    server = endpoint.lower().partition("://")[2] or endpoint.lower()
    return "" if ".amazonaws.com" in server else server.rstrip("/").removesuffix(":443").removesuffix(":80")


def _of_repository(repository: Repository) -> list[str]:
    return _server_of(repository.remote, repository.secrets) if repository.remote else []


def _server_of(remote: Mapping[str, Any], secrets: Mapping[str, str]) -> list[str]:
    """Buckets of S3 have one name space; where no setting names a server, the secrets tell accounts apart."""
    named = [str(remote.get(name, "")).rstrip("/").lower() for name in NAMES_A_SERVER]
    own = [] if any(named) or remote.get("type") == "s3" else sorted(secrets.values())
    return [str(remote.get("type")), *named, *own]


def _path_in(repository: Repository) -> str:
    return _rooted(repository.location) if repository.remote else repository.location


def _rooted(path: str) -> str:
    """The path as an absolute one. The folder in which an account begins is not known, so both forms are treated as the
    same.
    """
    return os.path.normpath("/" + path.lstrip("/"))


def left_out_of(source: Source) -> list[str]:
    """Patterns, for rclone, of files that are never copied from a local folder: this program's own, when they are below
    it.
    """
    if source.kind != SourceKind.LOCAL:
        return []
    folder = os.path.realpath(source.path)
    below = (os.path.relpath(each, folder) for each in _left_out([folder], OurPlaces.now()))
    return ["/" + SPECIAL.sub(r"\\\1", each) + "/**" for each in below]


def _left_out(forms: Iterable[str], ours: OurPlaces) -> list[str]:
    """This program's directories that are strictly below one of `forms`."""
    return [home for home in ours.homes if any(home != form and _is_inside(home, [form]) for form in forms)]


def _forms(path: str, is_here: bool) -> list[str]:
    return [os.path.normpath(path), os.path.realpath(path)] if is_here else [_rooted(path)]


def _is_inside(path: str, directories: Iterable[str]) -> bool:
    """True if `path` is one of these directories or below one; all of them are normalized."""
    return any(path == each or path.startswith(_below(each)) for each in directories)


_normal = lru_cache(1_000)(os.path.normpath)


@lru_cache(1_000)
def _below(directory: str) -> str:
    """The beginning of all paths below a directory."""
    return f"{directory.rstrip('/')}/"


def _first_overlap(forms: Sequence[str], others: Iterable[str]) -> str | None:
    """The first of `others` that is, contains or is inside one of `forms`. Compared as text, by loops: a file of a
    large fleet has some millions of pairs.
    """
    with_below = [(form, f"{form.rstrip('/')}/") for form in forms]
    for other in others:
        normal = _normal(other)
        below = _below(normal)
        for form, below_form in with_below:
            if form == normal or form.startswith(below) or normal.startswith(below_form):
                return other
    return None


def _refuse(field: str, path: str, other: str, why: str) -> None:
    raise ValidationError({field: f"{path} must not be, contain or be inside {other}, {why}; name another directory"})
