"""The identity of a repository, `repository.json`, so that no two installations write to one."""

import hashlib
import json
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from external.processes.rows import row_of
from storage import layout
from storage.places.location import RCLONE

DAMAGED = (
    "is it damaged? If it was a repository of this installation, the next backup or copy of a source whose "
    "newest recorded point is there writes it again: start one. For a new repository, name another place"
)


class Files(Protocol):
    """A repository whose small files can be fetched and put, such as a `Store`."""

    def fetch(self, path: str, file: Path, /) -> bool: ...

    def put_over(self, file: Path, path: str, /) -> None: ...


class RepositoryRefused(ValueError):
    """This repository must not be used in this way. The message contains advice."""


class UnreadableIdentity(RepositoryRefused):
    """Its identity cannot be read: a reader may continue without it."""


@dataclass(frozen=True)
class Identity:
    """The owner and format of a repository. `key_digest`: of the key of an encrypted repository, whose 256 random bits
    cannot be found from it. Empty if it is not encrypted.
    """

    id: str
    name: str
    encrypted: bool = False
    key_digest: str = ""
    layout: int = layout.VERSION
    format: str = RCLONE


def digest_of(key: str | None) -> str:
    """The digest that shows whether a key is the right one. Empty if there is none."""
    return "" if key is None else hashlib.sha256(b"backupsched repository key\0" + key.encode()).hexdigest()[:32]


def read(store: Files) -> Identity | None:
    """The identity of a repository; `store` reads its unencrypted part. None if it has none.

    Raises: RepositoryRefused for another layout; UnreadableIdentity; StorageFailed, StorageStopped.
    """
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / layout.REPOSITORY
        if not store.fetch(layout.REPOSITORY, file):
            return None
        found = row_of(file.read_bytes())
    if found is None or "layout" not in found:
        raise UnreadableIdentity(f"its {layout.REPOSITORY} cannot be read: {DAMAGED}")
    version = found["layout"]
    if version == 1:
        raise RepositoryRefused(
            f"it has layout version 1, from before the first release, which is not read any more: name another place, "
            f"and delete this one once its backups, for which there is {layout.RECOVER}, are not needed"
        )
    if version != layout.VERSION:
        raise RepositoryRefused(
            f"it has layout version {version!r:.50}, and {layout.VERSION} is read here: use the version of the "
            "scheduler that wrote it, or a newer one, or name another place"
        )
    for name, sample in asdict(Identity("", "")).items():
        if type(found.get(name)) is not type(sample):
            raise UnreadableIdentity(f"its {layout.REPOSITORY} lacks {name!r}: {DAMAGED}")
    return Identity(**{name: found[name] for name in Identity.__dataclass_fields__})


def check(found: Identity, ours: Identity, *, take_over: bool = False) -> None:
    """Raises: RepositoryRefused if a repository with the identity `found` must not be used as one with `ours`."""
    if found.id != ours.id and not take_over:
        raise RepositoryRefused(
            f"it is the repository {found.name} of another installation, which may still write there: name another "
            "place, or if that one is gone, take it over: `repositories add … --take-over`"
        )
    if found.format != ours.format:
        raise RepositoryRefused(
            f"the repository there is of the format {found.format}: choose that, or name another place"
        )
    if found.encrypted != ours.encrypted:
        what = "encrypted" if found.encrypted else "not encrypted"
        raise RepositoryRefused(
            f"the repository there is {what}, and that cannot be changed: choose that, or name another place"
        )
    if found.key_digest != ours.key_digest:
        raise RepositoryRefused(
            f"the key is not the one that it was made with ({found.name}): its backups cannot be read without that. "
            "Give the key that was shown when it was made, or name another place"
        )


def write(store: Files, ours: Identity) -> None:
    """Raises: StorageFailed, StorageStopped."""
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / layout.REPOSITORY
        file.write_text(json.dumps(asdict(ours), indent=2) + "\n")
        store.put_over(file, layout.REPOSITORY)
