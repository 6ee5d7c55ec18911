"""Restores a SQLite database as a new file next to its source, never over an existing one. A drill opens it for
reading, checks it whole, and counts it table by table, as an account without rights where that is possible: its bytes
come from outside. Without Django.
"""

import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from engines.base import RunEnded, SourceSpec
from engines.limits import Space
from engines.restores import loading
from engines.restores.scratch import Database, Scratch, ran
from engines.restores.terms import USUAL, Terms
from engines.sqlite.engine import DATABASE, PROGRAM, answer_of, new_order
from storage.folders.beneath import PASS, Beneath, empty
from storage.points.store import Store
from storage.points.trees import opened
from storage.restoring import into_folder, targets
from storage.restoring.base import Report, RestoreProgress, RestoreRefused, TargetFailed, Wish

FILES = (DATABASE,)
BESIDE = ("", "-wal", "-shm", "-journal")
"""Endings of files that SQLite would consider part of the database."""


def create(
    wish: Wish,
    store: Store,
    source: SourceSpec,
    cache: Path,
    on_step: Callable[[RestoreProgress], None],
    loader: Scratch | None = None,
    terms: Terms = USUAL,
) -> Report:
    """Restore the database of a point as the file `wish.target` next to the source; block until done. No program loads
    it, so it needs neither a `loader` nor `terms`.

    It belongs to the account of the source's file, with the same mode. An interrupted restore leaves no such file.
    Raises: RestoreRefused for a name that is taken; what `into_folder.restore` raises.
    """
    file = Path(source.path).with_name(wish.target.name)
    if not file.parent.is_dir():
        raise RestoreRefused(f"there is no directory {file.parent} here: is its volume mounted?")
    with opened(store, wish.assignment, wish.point, cache) as tree:
        loading.files_in(tree, FILES)
    with targets.opened(file.parent) as home:
        if taken := next((each for end in BESIDE if home.exists(os.fsencode(each := f"{file.name}{end}"))), None):
            raise RestoreRefused(f"there is a file {file.with_name(taken)} already; name one that does not exist")
        if wish.dry_run:
            unmade = replace(wish, target=file.with_name(f".restore-{secrets.token_hex(8)}"), paths=FILES)
            return replace(into_folder.restore(unmade, store, cache, on_step), target=f"{source.name}: {file}")
        with _scratch_in(home) as scratch:
            fetched = replace(wish, target=scratch.path / "dump", paths=FILES)
            report = into_folder.restore(fetched, store, cache, on_step)
            if report.failed_files:
                return report
            _put(scratch, home, file, Path(source.path).name)
    return replace(report, target=f"{source.name}: {file}")


@contextmanager
def _scratch_in(home: Beneath) -> Iterator[Beneath]:
    """A folder that is closed to all others. The owner of `home` may put another one in its place, so its contents are
    reached by its descriptor.
    """
    name = f".restore-{secrets.token_hex(8)}"
    os.mkdir(name, 0o700, dir_fd=home.descriptor)
    with Beneath(os.open(name, PASS, dir_fd=home.descriptor), home.path / name) as scratch:
        try:
            yield scratch
        finally:
            empty(scratch.descriptor)
            with suppress(OSError):
                os.rmdir(name, dir_fd=home.descriptor)


def _put(scratch: Beneath, home: Beneath, file: Path, source: str) -> None:
    """Give the restored database the name `file` in `home`, for the account of the source's file there."""
    whole, directory = scratch.at(f"dump/{DATABASE}".encode())
    with scratch.read(f"dump/{DATABASE}".encode()) as descriptor:
        like = os.fstat(home.descriptor)
        with suppress(FileNotFoundError):
            found = home.stat(os.fsencode(source))
            like = found if stat.S_ISREG(found.st_mode) else like
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise TargetFailed(f"{DATABASE} did not come back as a file")
        if os.geteuid() == 0:
            os.fchown(descriptor, like.st_uid, like.st_gid)
        os.fchmod(descriptor, like.st_mode & 0o666)
        os.fsync(descriptor)
    try:
        os.link(whole, file.name, src_dir_fd=directory, dst_dir_fd=home.descriptor, follow_symlinks=False)
    except FileExistsError:
        raise RestoreRefused(f"there is a file {file} already; name one that does not exist") from None


def drill(files: Path, folder: Path, scratch: Scratch, space: Space, store: Store) -> Database:
    """Check the database that is in `files`. Raises: StorageStopped, OSError."""
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
    order = new_order(tables)
    ended = ran(store, argv, on_line=order.on_line, **readable)
    try:
        found = answer_of(order, ended, DATABASE, in_its_words=False)
    except RunEnded as error:
        return Database(wrong=[str(error)])
    return Database(tables, notes=found["unread"])
