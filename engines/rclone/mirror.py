"""Makes a folder of this host the same as a source, for another engine to read."""

import os
import stat
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
from storage.folders.beneath import LIST
from storage.folders.walking import folders_below
from storage.places.rclone import LISTED, path_list
from storage.points.files import rows_below
from storage.points.refusals import ONE_AT_A_TIME
from storage.points.store import PIECE

MOST_LIMITS = 20
TOO_MANY = "far more bytes came of many files than their source had listed, such as {}"


def mirror(run: RcloneRun, folder: Path) -> Judgement:
    """Make the folder the same as the source: changed files are fetched. No more bytes may come than the folder has or,
    once that was too few, than the source has just before. If a file comes without an end, all that were being copied
    then are left out at the second time, and then fetched one by one; the folder keeps an earlier copy of one that does
    not come. Files that the server never sends are left out at once. Raises: RunEnded.
    """
    size = _size_without_pieces(folder)
    how, once, left_out = rclone_arguments(pattern_options(run.task.options)), set[str](), set[str]()
    never = {path: LoggedError(NOT_GONE, path, path) for path in _not_gone(run, folder, how)}
    left_out |= never.keys()
    size = size or run.size_of(*how)
    for _ in range(MOST_LIMITS):
        judgement = run.transfer(mirror_arguments(run.task, str(folder), *sorted(left_out)), size, may_lack=True)
        if judgement.stood_still:
            _size_without_pieces(folder)
            if judgement.is_silent:
                never |= {each.name: each for each in judgement.problems if each.message == judgement.text}
                left_out |= never.keys()
            continue
        check(judgement)
        if not judgement.is_cut:
            break
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


def _not_gone(run: RcloneRun, folder: Path, how: tuple[str, ...]) -> set[str]:
    """The files here that the source does not list, and that it does not report as gone when it is asked for each by
    name, as far as its kind may leave files out of its listings. Raises: RunEnded.
    """
    task, is_left_out = run.task, exclude.matcher(pattern_options(run.task.options))
    here = {each["Path"] for each in rows_below(folder, files_only=True)} if asks_by_name(task.source) else set()
    if not here:
        return set()
    listed = set[str]()
    arguments = ("lsf", remote_path(task.source), "--recursive", *how)
    check(run.ask(arguments, lambda line: listed.add(line.rstrip("\n"))))
    folders = {each.rstrip("/") for each in listed if each.endswith("/")}
    lacking = {each for each in here - listed if not any(map(is_left_out, _and_above(each)))}
    return lacking - gone_of(task.source, lacking, folders, run.ask) if lacking else lacking


def _and_above(path: str) -> list[str]:
    return [path, *map(str, PurePosixPath(path).parents)][:-1]


def _size_without_pieces(folder: Path) -> int:
    """Remove what a killed rclone was writing, and return the bytes of the rest: the next rclone would give a piece of
    the same file the same name, and then not find the one that it wants to delete.
    """
    size = 0
    if not folder.is_dir():
        return 0
    top = os.open(folder, LIST)
    try:
        for _, here, entries in folders_below(top):
            for each in entries:
                size += (found := each.stat(follow_symlinks=False)).st_size
                if PIECE.search(each.name) and stat.S_ISREG(found.st_mode):
                    os.unlink(each.name, dir_fd=here)
    finally:
        os.close(top)
    return size


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
