"""A dump on its way from a point into the program that loads it.

The contents of a repository are not trusted: anyone who can write there could name a link, or a folder that names other
files, as the dump. So only the files that its kind of source has are restored from a point, and only if they are files.
Each is opened once, and no link is followed. The program that loads it gets it as its standard input and never by a
path, may otherwise open only the system's files (Linux 5.13 and later), and runs as an account that owns nothing here,
where the worker is root and so may choose. Without Django.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from engines.base import SourceSpec
from engines.restores.scratch import Scratch
from external.processes.confinement import readable_by
from external.processes.programs import find_postgresql_program
from storage.folders.scratch import scratch_in
from storage.points.manifests import Entry
from storage.points.trees import Tree
from storage.restoring.base import RestoreRefused, TargetFailed


def files_in(tree: Tree, names: tuple[str, ...]) -> list[Entry]:
    """The entries with those names in a point, which must have the first one. Raises: RestoreRefused for one that is a
    link or a folder.
    """
    found = [entry for name in names if (entry := tree.entry(name))]
    for entry in found:
        if entry.kind != "file":
            raise RestoreRefused(
                f"the point names {entry.path} as a {entry.kind}, and a dump is a file: no backup writes that, "
                "so do not trust the contents of that repository"
            )
        if not entry.is_kept:
            raise RestoreRefused(f"the point has no {entry.path}: {entry.why}")
    if not found or found[0].path != names[0]:
        raise RestoreRefused(f"the point holds no {names[0]}: it is of another kind of source")
    return found


@contextmanager
def scratch_beside(cache: Path) -> Iterator[Path]:
    """A folder, in that of the cache, for files that are fetched before they are loaded; removed at the end."""
    with scratch_in(cache.parent) as folder:
        yield folder


@contextmanager
def opened(folder: Path, name: str) -> Iterator[int]:
    """A restored file by its descriptor, to be read from its beginning. Raises: TargetFailed if it is not a file;
    OSError.
    """
    # opening a pipe would wait for a writer
    descriptor = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise TargetFailed(f"{name} did not come back as a file")
        yield descriptor
    finally:
        os.close(descriptor)


def lines_of(folder: Path, name: str) -> Iterator[str]:
    """The lines of a restored file; empty if it is not there. Raises: what `opened` raises."""
    with (
        suppress(FileNotFoundError),
        opened(folder, name) as file,
        open(file, errors="replace", closefd=False) as lines,
    ):
        yield from lines


def apart_from(program: str, account: tuple[int, int] | None, *more: str) -> dict[str, Any]:
    """The parts of a `Command` that confine a program which reads the files of a restore. `more`: other paths that it
    may open.
    """
    return {"account": account, "readable": readable_by(program, *more)}


def loader_of(name: str, source: SourceSpec, loader: Scratch | None) -> tuple[str, tuple[int, int] | None]:
    """A program of PostgreSQL, and the account as which it connects to a source: at a socket the server may identify it
    by the worker's account, which may be the only one that can reach it. Raises: ProgramMissing.
    """
    program = str(Path(loader.programs) / name) if loader and loader.programs else find_postgresql_program(name)
    return program, None if loader is None or source.address.startswith("/") else loader.account


@contextmanager
def handed_over(certificates: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    """A file of certificates under a name by which an account that may not read the file can, and the descriptors to
    inherit.
    """
    if not certificates.startswith("/") or not hasattr(os, "memfd_create"):
        yield certificates, ()
        return
    descriptor = os.memfd_create("certificates")
    try:
        os.write(descriptor, Path(certificates).read_bytes())
        yield f"/proc/self/fd/{descriptor}", (descriptor,)
    finally:
        os.close(descriptor)
