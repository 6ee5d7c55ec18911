"""Restores a SQLite database as a new file beside its source, never over one that is there. A drill opens it for
reading, checks it whole, and counts it table by table, as an account without rights where that is possible: its bytes
come from outside. Without Django.
"""

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from sources.engines.base import RunEnded, SourceSpec
from sources.engines.limits import Space
from sources.engines.sqlite.engine import DATABASE, PROGRAM, judge
from sources.restores.scratch import Database, Scratch, ran
from sources.storage import restoring
from sources.storage.places import Refused, Report, Step, Wish
from sources.storage.store import Store

BESIDE = ("", "-wal", "-shm", "-journal")
"""What SQLite would take for a part of the database."""


def create(wish: Wish, store: Store, source: SourceSpec, cache: Path, on_step: Callable[[Step], None]) -> Report:
    """Restore the database of a point as the file `wish.target` beside the source; block until done.

    It belongs to the account of the source's file, with the same mode. What is interrupted leaves no such file.
    Raises: Refused for a name that is taken; what `restoring.restore` raises.
    """
    file = Path(source.path).with_name(wish.target.name)
    if not file.parent.is_dir():
        raise Refused(f"there is no directory {file.parent} here: is its volume mounted?")
    if taken := next((name for end in BESIDE if os.path.lexists(name := f"{file}{end}")), None):
        raise Refused(f"there is a file {taken} already; name one that is not there")
    # the owner of that directory may put another one in the place of this, so its files are reached by its descriptor
    with tempfile.TemporaryDirectory(dir=file.parent, prefix=".restore-") as scratch, _opened(scratch) as directory:
        fetched = replace(wish, target=Path(scratch) / "dump", paths=(DATABASE,))
        report = restoring.restore(fetched, store, cache, on_step)
        if report.failed_files:
            return report
        whole = f"dump/{DATABASE}"
        with _opened(whole, os.O_RDONLY, directory) as descriptor:
            like = os.stat(source.path if os.path.exists(source.path) else file.parent)
            if os.geteuid() == 0:
                os.fchown(descriptor, like.st_uid, like.st_gid)
            os.fchmod(descriptor, like.st_mode & 0o666)
            os.fsync(descriptor)
        try:
            os.link(whole, file, src_dir_fd=directory, follow_symlinks=False)
        except FileExistsError:
            raise Refused(f"there is a file {file} already; name one that is not there") from None
    return replace(report, target=f"{source.name}: {file}")


def drill(files: Path, folder: Path, scratch: Scratch, space: Space, store: Store) -> Database:
    """Look into the database that lies in `files`. Raises: Stopped, OSError."""
    if scratch.account:
        for each in (files, files / DATABASE):
            os.chown(each, *scratch.account, follow_symlinks=False)
    argv = (*PROGRAM, "check", str(files / DATABASE), *map(str, scratch.account or ()))
    tables = dict[str, int]()

    def take(line: str) -> None:
        with suppress(ValueError):
            if "table" in (said := json.loads(line)):
                tables[said["table"]] = said["rows"]

    ended = ran(store, argv, on_line=take)
    try:
        found = judge(ended, DATABASE)
    except RunEnded as error:
        return Database(wrong=[str(error)])
    return Database(tables, notes=found["unread"])


@contextmanager
def _opened(path: str, flags: int = os.O_DIRECTORY, directory: int | None = None) -> Iterator[int]:
    descriptor = os.open(path, flags | os.O_NOFOLLOW, dir_fd=directory)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
