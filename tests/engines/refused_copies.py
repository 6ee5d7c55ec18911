"""Copies to a server that refuses some files, or takes them altered."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any

from storage.places import remotes
from storage.places.location import of_directory
from storage.points import checking, copying
from storage.points.copies import CopyResult
from storage.points.store import Store
from storage.restoring.base import Report, Wish
from storage.restoring.into_folder import restore
from tests.append_only import append_only
from tests.engines.peers import STARTED_AT, back_up, local_folder, tree, write_files

FOLDER = "nas-7/nightly"
OLD, NEW, LOCKED = "old", "changed", "locked for now"
SIZES = {f"{len(each) + more}" for each in (NEW, LOCKED) for more in (0, 48)}
"""Bytes of the contents that are refused, as they are and encrypted."""
LONG = "/".join(["folder" * 6] * 20) + "/a"
LONGEST = 600
"""Characters of a path on a server. Those of short names are shorter, encrypted or not."""
TOO_LONG = 400, b"<Error><Code>KeyTooLongError</Code><Message>Your key is too long</Message></Error>"
Refusal = Callable[[str, str, Any], tuple[int, bytes] | None]


def refusing(status: int, answer: bytes = b"no") -> Refusal:
    """The refusal to take files of `SIZES`."""
    return lambda command, path, headers: (
        (status, answer) if command == "PUT" and headers.get("Content-Length") in SIZES else None
    )


def refusing_long_paths(status: int, answer: bytes = b"no") -> Refusal:
    return lambda command, path, headers: (status, answer) if len(path) > LONGEST else None


@dataclass
class Copied:
    """A source, its repository, and a copy on a server that refuses what `refusal` says."""

    folder: Path
    first: Store
    second: Store
    refusal: Refusal | None

    def back_up(self, day: int, **files: str) -> str:
        source = local_folder(write_files(self.folder / "source", **files))
        when = STARTED_AT + timedelta(days=day)
        return back_up(source, self.folder, location=self.first.location, folder=FOLDER, started_at=when).snapshot

    def copy(self, *recorded: str) -> CopyResult:
        target = replace(self.second, location=remotes.beside(self.second.location))
        return copying.copy(self.there, target, FOLDER, recorded=recorded)

    @property
    def there(self) -> Store:
        """The first repository, with the way to the second one."""
        return replace(self.first, beside=remotes.beside(self.second.location))

    def restored(self, point: str, day: int) -> tuple[Report, dict[str, str]]:
        back = self.folder / f"back {day}"
        return restore(Wish(FOLDER, point, back), self.second, self.folder / "cache"), tree(back)

    def damaged(self) -> list[checking.Damage]:
        return checking.check(self.second, FOLDER, part="", after="", total=0, share=1.0).damaged


@contextmanager
def copied_to(kind: str, folder: Path, refusal: Refusal, key: str | None) -> Iterator[Copied]:
    first = Store(of_directory(folder / "first"), Event())

    def answer(*request: Any) -> tuple[int, bytes] | None:
        return found.refusal(*request) if found.refusal else None

    with append_only(kind, folder / "served", [], answer) as (settings, secrets, path):
        second = Store(remotes.location_of(path, settings, secrets, key), Event())
        found = Copied(folder, first, second, refusal)
        yield found
