"""Decides whether a file is as the last point has it: by the facts of its source, and where these are not enough, by
content.
"""

from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path

from engines.base import BackupTask, SourceSpec
from engines.rclone import local
from engines.rclone.comparing import Item, PathDecision, is_wanted, taken_over
from engines.rclone.point import digests_of_source, looks_same
from external.processes.runner import StopSignal
from storage.points.entries import Entry

TOGETHER = 2_000
"""Items whose content is checked at a time."""
ASKS_BY_NAME = ("webdav",)
"""Kinds whose listings silently leave out a file that a server does not show for a moment: a status of 403 within its
answer.
"""


def asks_by_name(source: SourceSpec) -> bool:
    """True if a file that is not listed is gone only if the source confirms it by name."""
    kind = source.options.get("type") if source.kind == "rclone" else source.kind
    return kind in ASKS_BY_NAME


class Likeness:
    """The comparison of one source's files with the last point."""

    def __init__(self, task: BackupTask, stop: StopSignal) -> None:
        self._task, self._stop = task, stop
        self._asks = asks_by_name(task.source)

    @property
    def is_checked(self) -> bool:
        """True if each file has to be checked with `is_same`: the beginning of its line is not enough."""
        options = self._task.options
        return bool(self._task.damaged or options.get("ignore_ctime") or options.get("checksum"))

    def is_same(self, entry: Entry, old: Entry) -> bool:
        """True if a file is unchanged: by size and time, and in a folder on this host by ctime and inode, unless the
        policy leaves these out. If the policy wants digests, they decide; a folder on this host has none, so its files
        are read (`looked_at`).
        """
        if self._task.options.get("checksum"):
            return bool(entry.told) and entry.told == old.told and not self._is_to_be_brought(old)
        if (entry.size, entry.modified) != (old.size, old.modified) or self._is_to_be_brought(old):
            return False
        if self._task.options.get("ignore_ctime"):
            return True
        if None not in (entry.changed, old.changed) and entry.changed != old.changed:
            return False
        return entry.inode == old.inode or None in (entry.inode, old.inode) or not self._has_stable_inodes

    def is_same_as_planned(self, entry: Entry, planned: Entry) -> bool:
        """True if the file that a run was about to bring is the one that is there now."""
        if self._task.options.get("checksum") and (self._is_local or not entry.told):
            return False
        return looks_same(entry, planned) and (entry.inode, entry.told) == (planned.inode, planned.told)

    def is_asked(self, old: Entry) -> bool:
        """True if the source has to confirm by name that a file which it does not list is gone."""
        return self._asks or bool(old.as_of)

    def looked_at(self, items: Iterator[Item]) -> Iterator[Item]:
        """The items, after a look into the files of a folder on this host: a file of the same size and time about which
        something else has changed is read; it is copied only if its content differs.
        """
        if not self._is_local:
            yield from items
            return
        while piece := list(islice(items, TOGETHER)):
            doubtful = [each for each in piece if is_wanted(each) and self._may_be_the_same(each)]
            if not doubtful:
                yield from piece
                continue
            found = digests_of_source(Path(self._task.source.path), [each.entry for each in doubtful], self._stop)
            same = {each.path for each in doubtful if each.old and found.get(each.path) == each.old.digest}
            for item in piece:
                if item.path in same and item.old:
                    yield item._replace(state=PathDecision.KEPT, entry=taken_over(item.entry, item.old))
                else:
                    yield item

    def _may_be_the_same(self, item: Item) -> bool:
        entry, old = item.entry, item.old
        return (
            old is not None
            and old.kind == "file"
            and bool(old.folder and old.digest and not old.why)
            and (entry.size, entry.modified) == (old.size, old.modified)
            and old.place not in self._task.damaged
        )

    def _is_to_be_brought(self, old: Entry) -> bool:
        return old.doubtful or old.place in self._task.damaged

    @property
    def _is_local(self) -> bool:
        return self._task.source.kind == "local"

    @cached_property
    def _has_stable_inodes(self) -> bool:
        return local.has_stable_inodes(Path(self._task.source.path))
