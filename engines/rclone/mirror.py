"""Makes a folder of this host the same as a source, for another engine to read."""

import os
import stat
from dataclasses import replace
from pathlib import Path

from engines.base import RunEnded, Verdict
from engines.rclone.bringing import ENDLESS, check
from engines.rclone.exclude import rclone_arguments
from engines.rclone.log import LIMIT, LoggedError
from engines.rclone.options import copy_arguments, mirror_arguments, pattern_options
from engines.rclone.run import RcloneRun
from engines.rclone.verdicts import Judgement
from storage.folders.beneath import LIST
from storage.folders.walking import folders_below
from storage.places.rclone import LISTED, path_list
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
    how, once, left_out = rclone_arguments(pattern_options(run.task.options)), set[str](), set[str]()
    never = dict[str, LoggedError]()
    size = _size_without_pieces(folder) or run.size_of(*how)
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
