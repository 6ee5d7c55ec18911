"""Makes a folder on this host the same as a source, for another engine to read."""

import os
import stat
from collections.abc import Callable, Collection, Set
from dataclasses import replace
from pathlib import Path, PurePosixPath

from engines.base import RunEnded, Verdict
from engines.rclone import exclude
from engines.rclone.bringing import ENDLESS, check
from engines.rclone.exclude import rclone_arguments
from engines.rclone.likeness import asks_by_name
from engines.rclone.listing import gone_of
from engines.rclone.log import LIMIT, LoggedError
from engines.rclone.options import copy_arguments, mirror_arguments, pattern_options
from engines.rclone.point import NOT_GONE
from engines.rclone.remotes import remote_path
from engines.rclone.run import RcloneRun
from engines.rclone.verdicts import Judgement
from storage.folders.beneath import LIST, empty
from storage.folders.walking import folders_below
from storage.places.location import of_directory
from storage.places.rclone import LISTED, path_list
from storage.points.files import path_in, rows_below, shown
from storage.points.moving import delete_here
from storage.points.refusals import ONE_AT_A_TIME
from storage.points.store import PIECE, Store

MOST_LIMITS = 20
TOO_MANY = "far more bytes came of many files than their source had listed, such as {}"


def mirror(run: RcloneRun, folder: Path) -> Judgement:
    """Make the folder the same as the source: changed files are fetched. No more bytes may come than the folder has or,
    once that was too few, than the source has just before. If a file comes without an end, all that were being copied
    then are left out at the second time, and then fetched one by one; the folder keeps an earlier copy of one that does
    not come. Files that the server never sends are left out at once. Raises: RunEnded; StorageFailed, OSError.
    """
    patterns = pattern_options(run.task.options)
    size = _cleared(folder, exclude.matcher(patterns))
    how, once, left_out = rclone_arguments(patterns), set[str](), set[str]()
    asks, has_way = asks_by_name(run.task.source), False
    never = {path: LoggedError(NOT_GONE, path, path) for path in _without_gone(run, folder, how)} if asks else {}
    size = size or run.size_of(*how)
    for _ in range(MOST_LIMITS):
        arguments = mirror_arguments(run.task, str(folder), *sorted(left_out), deletes=not asks)
        judgement = run.transfer(arguments, size, may_lack=True)
        if judgement.stood_still:
            _cleared(folder)
            if judgement.is_silent:
                silent = {each.name: each for each in judgement.problems if each.message == judgement.text}
                never, left_out = never | silent, left_out | silent.keys()
            continue
        check(judgement)
        if not judgement.is_cut:
            if has_way or not (has_way := _make_way(run, folder, judgement, how)):
                break
            continue
        cut = {each.name for each in judgement.problems}
        left_out |= cut & once
        once |= cut
        size = run.size_of(*how)
    else:
        check(judgement)
        raise RunEnded(Verdict.SOURCE_FAILED, TOO_MANY.format(judgement.problems[-1].path))
    problems = [*judgement.problems, *never.values()]
    for path in sorted(left_out - never.keys()):
        problems += _alone(run, folder, path)
    return replace(judgement, problems=tuple(problems))


def _make_way(run: RcloneRun, folder: Path, judgement: Judgement, how: tuple[str, ...]) -> bool:
    """Delete files here where the source has a folder by now, and folders where it has a file, if they kept rclone from
    copying something: it replaces neither. Returns True if there were any. Raises: RunEnded; StorageFailed.
    """
    if not any(_is_blocked(folder, each.name) for each in judgement.problems):
        return False
    files, folders = _listed(run, how)
    here = list(rows_below(folder))
    gone = _replaced({each["Path"] for each in here if not each["IsDir"]}, files, folders)
    alone = files - folders
    is_wrong = bool(gone) or any(each["IsDir"] and each["Path"] in alone for each in here)
    if is_wrong:
        _delete(run, folder, gone)
    return is_wrong


def _is_blocked(folder: Path, path: str) -> bool:
    """True if here is a folder where a file belongs, or a file where one of the folders above it does."""
    try:
        return stat.S_ISDIR(os.lstat(path_in(folder, path)).st_mode)
    except OSError as error:
        return isinstance(error, NotADirectoryError)


def _without_gone(run: RcloneRun, folder: Path, how: tuple[str, ...]) -> set[str]:
    """Delete the files here that the source neither lists nor has, as far as it reports them as gone when it is asked
    for each by name. Returns the others that it does not list. rclone deletes nothing then: it would go by another
    listing, which may leave out other files. Raises: RunEnded; StorageFailed.
    """
    here = list(rows_below(folder))
    if not here:
        return set()
    files, folders = _listed(run, how)
    lacking = {each["Path"] for each in here if not each["IsDir"]} - files
    gone = _replaced(lacking, files, folders)
    if asked := lacking - gone:
        gone |= gone_of(run.task.source, asked, folders, run.ask)
    if gone or any(each["IsDir"] and each["Path"] not in folders for each in here):
        _delete(run, folder, gone)
    return lacking - gone


def _listed(run: RcloneRun, how: tuple[str, ...]) -> tuple[set[str], set[str]]:
    """The files and folders that the source lists. Raises: RunEnded."""
    files, folders = set[str](), set[str]()

    def take(line: str) -> None:
        path = line.rstrip("\n")
        (folders if path.endswith("/") else files).add(path.rstrip("/"))

    check(run.ask(("lsf", remote_path(run.task.source), "--recursive", *how), take))
    return files, folders


def _replaced(here: Collection[str], files: Set[str], folders: Set[str]) -> set[str]:
    """The files here in whose place the source lists a folder alone, or in place of a folder above them a file alone:
    a bucket may have both.
    """
    alone = files - folders
    return {
        each for each in here
        if (each in folders and each not in files) or any(str(above) in alone for above in PurePosixPath(each).parents)
    }  # fmt: skip


def _delete(run: RcloneRun, folder: Path, paths: Collection[str]) -> None:
    """Delete files here, and empty folders: rclone makes those again that the source has. Raises: StorageFailed."""
    delete_here(folder, paths, run.store.check_stop)
    Store(of_directory(folder), run.stop).remove_empty_folders("")


def _cleared(folder: Path, is_left_out: Callable[[str], bool] = lambda path: False) -> int:
    """Remove what the policy leaves out by now, and what a killed rclone was writing, and return the bytes of the rest.
    The next rclone would give a piece of the same file the same name, and then not find the one that it wants to
    delete. It would also delete whatever it is told to leave out, or nothing of that.
    """
    size = 0
    if not folder.is_dir():
        return 0
    top = os.open(folder, LIST)
    try:
        for way, here, entries in folders_below(top):
            above = "".join(f"{shown(each)}/" for each in way)
            for each in list(entries):
                if is_left_out(above + shown(each.name)):
                    entries.remove(each)
                    _remove(each, here)
                    continue
                size += (found := each.stat(follow_symlinks=False)).st_size
                if PIECE.search(each.name) and stat.S_ISREG(found.st_mode):
                    os.unlink(each.name, dir_fd=here)
    finally:
        os.close(top)
    return size


def _remove(entry: os.DirEntry[str], above: int) -> None:
    """Remove a file, or a folder with its contents, in the open folder `above`. Raises: OSError."""
    if not entry.is_dir(follow_symlinks=False):
        os.unlink(entry.name, dir_fd=above)
        return
    opened = os.open(entry.name, LIST, dir_fd=above)
    try:
        empty(opened)
    finally:
        os.close(opened)
    os.rmdir(entry.name, dir_fd=above)


def _alone(run: RcloneRun, folder: Path, path: str) -> list[LoggedError]:
    """Fetch a file. Returns its problems. Raises: RunEnded."""
    with path_list([path]) as file:
        size = run.size_of(LISTED + file)
        for _ in range(MOST_LIMITS):
            fetched = run.transfer(copy_arguments(run.task, str(folder), LISTED + file, *ONE_AT_A_TIME), size)
            if not fetched.stood_still:
                break
    check(fetched)
    return [replace(each, message=ENDLESS if LIMIT in each.message else each.message) for each in fetched.problems]
