"""A dump on its way from a point into the program that loads it.

What is in a repository is not believed: who can write there could name a link, or a folder that names other files, as
the dump. So of a point only the files are restored that its kind of source has, and only if they are files. Each is
opened once, and no link is followed. The program that loads it gets it as its standard input and never by a path, may
open the system's own files besides (Linux 5.13 and later), and runs as an account that has nothing here, where the
worker is root and so may choose. Without Django.
"""

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from engines.base import SourceSpec
from engines.restores.scratch import Scratch
from external.processes.confinement import readable_by
from external.processes.programs import find_postgresql_program
from storage.points.manifests import Entry
from storage.points.trees import Tree
from storage.restoring.base import Refused, TargetFailed


def files_in(tree: Tree, names: tuple[str, ...]) -> list[Entry]:
    """The entries of those names that a point has, of which it needs the first one. Raises: Refused for one that is a
    link or a folder."""
    found = [entry for name in names if (entry := tree.entry(name))]
    for entry in found:
        if entry.kind != "file":
            raise Refused(
                f"the point names {entry.path} as a {entry.kind}, and a dump is a file: no backup writes that, so do "
                "not trust what is in that repository"
            )
        if not entry.is_kept:
            raise Refused(f"the point has no {entry.path}: {entry.why}")
    if not found or found[0].path != names[0]:
        raise Refused(f"the point holds no {names[0]}: it is of another kind of source")
    return found


@contextmanager
def scratch_beside(cache: Path) -> Iterator[Path]:
    """A folder for what is fetched before it is loaded, in that of the cache; gone at the end."""
    cache.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache.parent.resolve(), prefix="restore-") as folder:
        yield Path(folder)


@contextmanager
def opened(folder: Path, name: str) -> Iterator[int]:
    """A restored file by its descriptor, to be read from its beginning. Raises: TargetFailed for what is no file;
    OSError."""
    # of a pipe, to open it would wait for a writer
    descriptor = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise TargetFailed(f"{name} did not come back as a file")
        yield descriptor
    finally:
        os.close(descriptor)


def lines_of(folder: Path, name: str) -> Iterator[str]:
    """The lines of a restored file; none of one that is not there. Raises: what `opened` does."""
    with (
        suppress(FileNotFoundError),
        opened(folder, name) as file,
        open(file, errors="replace", closefd=False) as lines,
    ):
        yield from lines


def apart_from(program: str, account: tuple[int, int] | None, *more: str) -> dict[str, Any]:
    """How a program runs that reads what a restore made, as parts of its `Command`. `more`: what else it may open."""
    return {"account": account, "readable": readable_by(program, *more)}


def loader_of(name: str, source: SourceSpec, loader: Scratch | None) -> tuple[str, tuple[int, int] | None]:
    """A program of PostgreSQL, and as which account it connects to a source: at a socket the worker's own may be who
    the server takes it for, and the only one that may reach it. Raises: ProgramMissing."""
    program = str(Path(loader.programs) / name) if loader and loader.programs else find_postgresql_program(name)
    return program, None if loader is None or source.address.startswith("/") else loader.account


@contextmanager
def handed_over(certificates: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    """A file of certificates under a name by which an account that may not read it can, and what it inherits."""
    if not certificates.startswith("/") or not hasattr(os, "memfd_create"):
        yield certificates, ()
        return
    descriptor = os.memfd_create("certificates")
    try:
        os.write(descriptor, Path(certificates).read_bytes())
        yield f"/proc/self/fd/{descriptor}", (descriptor,)
    finally:
        os.close(descriptor)
