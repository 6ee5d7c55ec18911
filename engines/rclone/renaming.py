"""Copies files that get another name in the repository. One rclone copies many, since starting one takes as long as
copying a hundred small files.

For a remote source it gets its orders through a socket. Files on this host are opened here, and rclone gets a folder of
links to their descriptors: so it needs none of their names, which may contain characters that it does not find again
(\u201b, and any that are not UTF-8), and no link that is put in a file's place leads it elsewhere.
"""

import errno
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from engines.base import Verdict
from engines.rclone.bringing import Problems, check
from engines.rclone.log import LIMIT
from engines.rclone.options import links_arguments, reading_arguments
from engines.rclone.remotes import remote_path
from engines.rclone.run import RcloneRun
from engines.rclone.verdicts import Judgement
from external.processes.rows import number
from storage import layout
from storage.folders.beneath import BY_DESCRIPTOR, Beneath
from storage.points.batches import batches
from storage.points.files import relative
from storage.points.refusals import is_altered, without_path
from storage.points.store import PARTIAL_SUFFIX

OPEN_AT_A_TIME = 200
SIZE = "operations/stat"
TRIES = 3
"""rclone counts the bytes of each of its tries of a file (`common_arguments`)."""
NO_FILE = "no file any more"
ENDED = "rclone ended in the middle of it"
MOST_ENDS = 3
"""The most rclones that may end in the middle of a file, such as for want of memory."""


def bring_renamed(
    run: RcloneRun, pairs: Iterable[tuple[str, str]], *, sizes: Mapping[str, int], alone: bool = False
) -> Problems:
    """Copy each of these paths of the source to a place below `files`. Returns the reasons why some were not copied.
    `sizes`: path → bytes that were listed; `alone`: so that none can keep another one from coming. Raises: RunEnded.
    """
    if run.task.source.kind == "local" and BY_DESCRIPTOR.exists():
        return _bring_opened(run, batches(pairs, 1 if alone else OPEN_AT_A_TIME))
    problems, waiting = Problems(), iter(pairs)
    for _ in range(MOST_ENDS):
        if not (ended := _bring_in_order(run, waiting, sizes, problems)):
            return problems
    problems.by_path |= {path: ended for path, _ in waiting}
    return problems


def _bring_in_order(
    run: RcloneRun, pairs: Iterator[tuple[str, str]], sizes: Mapping[str, int], problems: Problems
) -> str:
    """Bring these, and note `problems`. Returns the reason why rclone ended in the middle of a file, if it did: what
    arrived of that file does not count, and the others are still to be brought. Raises: RunEnded.
    """
    from storage.places.remote_control import obeyed  # with http.client, a tenth of a child's start

    source, target = remote_path(run.task.source), run.task.location.at(layout.files_path(run.task.folder))
    size, under_way, cut, judgement = 0, ("", ""), set[str](), Judgement(Verdict.SUCCEEDED)

    def orders() -> Iterator[tuple[str, str, dict[str, Any]]]:
        nonlocal size, under_way
        for path, place in pairs:
            size, under_way = sizes[path], (path, place)
            yield path, SIZE, {"fs": source, "remote": path}
            problems.by_path.pop(path, None)  # without an answer about its size, the listed one counts
            names = {"srcFs": source, "srcRemote": path, "dstFs": target, "dstRemote": place}
            yield path, "operations/copyfile", {**names, "_config": {"MaxTransfer": f"{run.limit(TRIES * size)}B"}}
            under_way = "", ""
            if cut:  # it goes, or is noted, before anything else comes
                return

    def take(path: str, answer: dict[str, Any]) -> None:
        nonlocal size
        if "item" in answer:
            found = answer["item"] or {}
            size = -1 if found.get("Size") == -1 else number(found, "Size")
        elif error := answer.get("error"):
            problems.by_path[path] = error
            if LIMIT in error or is_altered(without_path(error, path)):
                cut.add(under_way[1])

    def serve(how: tuple[str, ...]) -> None:
        nonlocal judgement
        judgement = run.serve((*how, f"--partial-suffix={PARTIAL_SUFFIX}", *reading_arguments(run.task.options)))

    hidden, is_done = [*run.task.source.hidden, *run.task.location.secrets], True
    while is_done:
        cut.clear()
        try:
            is_done = obeyed(serve, orders(), take, hidden)
        finally:
            cut.update({under_way[1]} - {""})
            run.cut |= cut
        run.leave_out(cut)
        if is_done and not cut:
            return ""
    problems.by_path[under_way[0]] = ended = judgement.text or ENDED
    problems.is_silent |= judgement.is_silent
    return ended


def _bring_opened(run: RcloneRun, batched: Iterable[Iterable[tuple[str, str]]]) -> Problems:
    problems, top = Problems(), Path(os.path.realpath(run.task.source.path))
    for batch in batched:
        with tempfile.TemporaryDirectory() as scratch, Beneath.opened(top) as source, ExitStack() as opened:
            names, inherited, size = dict[str, str](), list[int](), 0
            for path, place in batch:
                link = Path(scratch, place)
                try:
                    descriptor = opened.enter_context(source.read(relative(path)))
                    if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # it was one when it was listed
                        raise FileNotFoundError(errno.ENOENT, NO_FILE)
                    link.parent.mkdir(exist_ok=True)
                    link.symlink_to(BY_DESCRIPTOR / str(descriptor))
                except OSError as error:
                    problems.by_path[path] = (error.strerror or str(error)).lower()
                    continue
                inherited.append(descriptor)
                size += os.fstat(descriptor).st_size
                names[place] = path
            if names:
                judgement = run.transfer(links_arguments(run.task, scratch), TRIES * size, tuple(inherited), "")
                if judgement.stood_still:
                    problems.stood_still, problems.is_silent = True, judgement.is_silent
                elif judgement.verdict is Verdict.SOURCE_FAILED:  # all others have come: it concerns these alone
                    problems.by_path |= dict.fromkeys(names.values(), judgement.text)
                    continue
                else:
                    check(judgement)
                problems.by_path |= {names.get(each.path, each.path): each.message for each in judgement.problems}
                problems.unnamed += judgement.unnamed
    return problems
