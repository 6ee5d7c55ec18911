"""A repository's row as storage sees it: its location, its key and its identity, with secrets looked up."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.conf import settings

from sealing.lookup import SecretNotFound, read_secret_in_time
from sources.models import Repository
from storage.places import remotes
from storage.places.identity import Identity, digest_of
from storage.places.location import Location
from storage.points.store import StorageFailed

UNTRIED = "repository {} is still to be tested, and is not used until then{}"


def location_of(repository: Repository, new_key: str | None = None) -> Location:
    """The location of a repository, with its secrets. `new_key`: a key that is not kept yet. Raises: StorageFailed."""
    try:
        secrets = {name: read_secret_in_time(reference) or "" for name, reference in repository.secrets.items()}
        return remotes.location_of(
            repository.location,
            repository.remote,
            secrets,
            new_key or key_of(repository),
            format=repository.format,
            cache=str(Path(settings.VAR_DIR) / "restic-cache"),
        )
    except ValueError as error:  # SecretNotFound is one
        raise StorageFailed(f"repository {repository} cannot be reached: {error}") from error


def check_tried(repository: Repository) -> None:
    """Raises: StorageFailed for a repository that was saved over the web and could not be tried so far: nothing goes
    there, and nothing is concluded from its contents.
    """
    if repository.untried:
        why = f": {repository.away_why}" if repository.away_why else ""
        raise StorageFailed(UNTRIED.format(repository, why))


def key_of(repository: Repository) -> str | None:
    """The key of a repository; None if it is not encrypted. Raises: SecretNotFound."""
    return read_secret_in_time(repository.key) if repository.encrypted else None


def owner_of(repository: Repository) -> dict[str, Any] | None:
    """The identity that a repository names from its first backup on, for an order. None before that. Raises:
    StorageFailed."""
    return asdict(identity_of(repository)) if repository.made_at else None


def identity_of(repository: Repository, new_key: str | None = None) -> Identity:
    """The identity that a repository must name. `new_key`: see `location_of`. Raises: StorageFailed."""
    try:
        digest = digest_of(new_key or key_of(repository))
    except SecretNotFound as error:
        raise StorageFailed(f"repository {repository} cannot be reached: {error}") from error
    return Identity(str(repository.identity), repository.name, repository.encrypted, digest, format=repository.format)
