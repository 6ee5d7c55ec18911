"""Copies files that get another name in the repository. One rclone does it for many, since starting one takes as long
as copying a hundred small files.

For a remote source it gets its orders through a socket. Files of this host are opened here, and are links to
descriptors in a folder for rclone: so it needs none of their names, which may contain characters that it does not find
again (\u201b, and any that are not UTF-8), and no link that is put in a file's place leads it elsewhere.
"""

import errno
import os
import stat
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from engines.base import Verdict
from engines.rclone.bringing import Problems, check
from engines.rclone.options import links_arguments
from engines.rclone.remotes import remote_path
from engines.rclone.run import RcloneRun
from storage import layout
from storage.folders.beneath import BY_DESCRIPTOR, Beneath
from storage.points.batches import batches
from storage.points.files import relative
from storage.points.store import PARTIAL_SUFFIX

OPEN_AT_A_TIME = 200
NO_FILE = "no file any more"


def bring_renamed(run: RcloneRun, pairs: Iterable[tuple[str, str]]) -> Problems:
    """Copy each of these paths of the source to a place below `files`. Returns the reasons why some were not copied.
    Raises: RunEnded.
    """
    if run.task.source.kind == "local" and BY_DESCRIPTOR.exists():
        return _bring_opened(run, pairs)
    from storage.places.remote_control import obeyed  # with http.client, a tenth of a child's start

    problems = Problems()
    source, target = remote_path(run.task.source), run.task.location.at(layout.files_path(run.task.folder))
    orders = (
        (path, "operations/copyfile", {"srcFs": source, "srcRemote": path, "dstFs": target, "dstRemote": place})
        for path, place in pairs
    )

    def take(path: str, answer: dict[str, Any]) -> None:
        if error := answer.get("error"):
            problems.by_path[path] = error

    hidden = [*run.task.source.hidden, *run.task.location.secrets]
    if not obeyed(lambda how: run.serve((*how, f"--partial-suffix={PARTIAL_SUFFIX}")), orders, take, hidden):
        problems.unnamed += 1
    return problems


def _bring_opened(run: RcloneRun, pairs: Iterable[tuple[str, str]]) -> Problems:
    problems, top = Problems(), Path(os.path.realpath(run.task.source.path))
    for batch in batches(pairs, OPEN_AT_A_TIME):
        with tempfile.TemporaryDirectory() as scratch, Beneath.opened(top) as source, ExitStack() as opened:
            names, inherited = dict[str, str](), list[int]()
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
                names[place] = path
            if names:
                judgement = run.transfer(links_arguments(run.task, scratch), inherited=tuple(inherited))
                if judgement.verdict is Verdict.SOURCE_FAILED:  # all others have come: it concerns these alone
                    problems.by_path |= dict.fromkeys(names.values(), judgement.text)
                    continue
                check(judgement)
                problems.by_path |= {names.get(each.path, each.path): each.message for each in judgement.problems}
                problems.unnamed += judgement.unnamed
    return problems
