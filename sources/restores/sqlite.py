"""Restores a SQLite database as a new file beside its source, never over one that is there. A drill opens it for
reading, checks it whole, and counts it table by table, as an account without rights where that is possible: its bytes
come from outside. Without Django.
"""

import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from sources.engines.base import RunEnded, SourceSpec
from sources.engines.limits import Space
from sources.engines.sqlite.engine import DATABASE, PROGRAM, judge
from sources.restores import loading
from sources.restores.scratch import Database, Scratch, ran
from sources.storage import restoring
from sources.storage.places import Refused, Report, Step, TargetFailed, Wish
from sources.storage.store import Store
from sources.storage.trees import opened

FILES = (DATABASE,)
BESIDE = ("", "-wal", "-shm", "-journal")
"""What SQLite would take for a part of the database."""


def create(
    wish: Wish,
    store: Store,
    source: SourceSpec,
    cache: Path,
    on_step: Callable[[Step], None],
    loader: Scratch | None = None,
) -> Report:
    """Restore the database of a point as the file `wish.target` beside the source; block until done. Nothing loads it,
    so it needs no `loader`.

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
        with opened(store, wish.assignment, wish.point, cache) as tree:
            loading.files_in(tree, FILES)
        fetched = replace(wish, target=Path(scratch) / "dump", paths=FILES)
        report = restoring.restore(fetched, store, cache, on_step)
        if report.failed_files:
            return report
        whole = f"dump/{DATABASE}"
        with _opened(whole, os.O_RDONLY | os.O_NONBLOCK, directory) as descriptor:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise TargetFailed(f"{DATABASE} did not come back as a file")
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
    alone, program = folder / "database", Path(PROGRAM[-1])
    alone.mkdir(mode=0o700)
    with loading.opened(files, DATABASE) as database:
        os.rename(files / DATABASE, alone / DATABASE)
        if scratch.account:
            os.fchown(database, *scratch.account)
            os.chown(alone, *scratch.account)
    argv = (*PROGRAM, "check", str(alone / DATABASE), *map(str, scratch.account or ()))
    readable = loading.apart_from(PROGRAM[0], None, str(alone), str(program))
    tables = dict[str, int]()

    def take(line: str) -> None:
        with suppress(ValueError):
            if "table" in (said := json.loads(line)):
                tables[said["table"]] = said["rows"]

    ended = ran(store, argv, on_line=take, **readable)
    try:
        found = judge(ended, DATABASE, in_its_words=False)
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
