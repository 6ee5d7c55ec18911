"""Transfers of stored files from one repository into another one."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import Any

from storage import layout
from storage.places.rclone import expected
from storage.points import amiss, confirming
from storage.points.copies import CopyResult, whole_among
from storage.points.entries import Entry
from storage.points.moving import files_of, stay_within
from storage.points.other_names import with_another_name
from storage.points.refusals import CUT_OFF, PATIENTLY, Refusals, is_altered, is_lost, is_of_a_name, without_path
from storage.points.store import PARTIAL_SUFFIX, PIECE, StorageFailed, StorageStopped, Store

QUICK = {"RCLONE_LOCAL_HASHES": "xxh3"}
"""The comparison of the two streams of a copy between folders; MD5 would take most of the time."""

LAST_SECONDS = 5.0
TRIES = 3
FEW_TRIES = f"--low-level-retries={TRIES}"
"""A server may take all of a large file each time before it refuses it."""
OnProgress = Callable[[int, int], None]


@dataclass
class CopyTransfers:
    """The transfers of one copy, counted in `done`. `options`: rclone's.

    `point`: the one that is copied; `is_clean`: True if rclone has named no problem with the last files, and so has
    found them equal right after it copied them; `left_out`, `renamed`: for this point: place → why its file was not
    copied, or its place in the copy. `refused`: the left-out files of all points, which this copy does not send again.
    """

    source: Store
    target: Store
    folder: str
    options: tuple[str, ...]
    on_progress: OnProgress
    done: CopyResult
    point: str = ""
    is_clean: bool = True
    left_out: dict[str, str] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.files, self._over = layout.files_path(self.folder), ""
        roots = (self.source.location.root, self.target.location.root, self.target.location.outside)
        directory = self.target.location.directory
        self.copy = str(directory) if directory and not roots[0].startswith(f"{directory}/") else ""
        self.refusals = Refusals(
            self._brought, self._arrived, self._look_at_both, roots, self.copy, on_altered=self._note
        )

    def bring(self, entries: Sequence[Entry], over: str) -> list[Entry]:
        """Copy new files, and note those that one of the servers refuses. `over`: rclone's option for existing files.
        Returns those of the others that are not whole there.
        """
        self._over, self.is_clean = over, True
        self.left_out |= {each.place: self.refused[each.place] for each in entries if each.place in self.refused}
        entries = [each for each in entries if each.place not in self.refused]
        refused = self.refusals.bring(entries)
        names = [each for each in entries if _is_for_another_name(refused.get(each.place, ""))]
        if names and not self.target.location.directory:
            others = self._bring_renamed(names)
            refused = {place: others.get(place, why) for place, why in refused.items() if place not in self.renamed}
        self.refused |= refused
        self.left_out |= refused
        came = [each for each in entries if each.place not in refused and each.place not in self.renamed]
        return self._not_whole(came, self.files)

    def _brought(self, entries: Sequence[Entry], *how: str) -> dict[str, str]:
        return self._copied(entries, self.files, self._over, *how)

    def _look_at_both(self) -> None:
        for store in (self.source, self.target):
            store.names(f"{self.folder}/{layout.MANIFESTS}")

    def replace(self, entries: Collection[Entry]) -> list[Entry]:
        """Copy files that are whole in the first repository over those that are there, which stay until the new ones
        are whole: they may be better than they seemed. Returns those that are not whole there.
        """
        target, incoming = self.target, f"{self.folder}/{layout.INCOMING}"
        entries = self._whole(self.source, list(entries), self.files)
        if not (entries and target.location.loses_replaced):
            return self._transfer(entries, "--ignore-times", self.files)
        target.delete(incoming)  # of a killed copy
        try:
            left = self._transfer(entries, "--no-check-dest", incoming)
            target.move_over(incoming, self.files, [each.place for each in entries if each not in left])
        finally:
            with suppress(StorageFailed):
                target.delete(incoming)
        return left

    def _transfer(self, entries: Sequence[Entry], over: str, top: str) -> list[Entry]:
        """Copy files to the places that they have in the first repository, in the folder `top`. Returns those that are
        not whole there. Raises: StorageFailed if a file is refused.
        """
        if not entries:
            return []
        for path, why in self._copied(entries, top, over).items():
            if not is_lost(why, self.copy):
                raise StorageFailed(f"{path}: {why}")
        return self._not_whole(entries, top)

    def _copied(self, entries: Sequence[Entry], top: str, *how: str) -> dict[str, str]:
        """Copy files by rclone. Returns the reasons why some were not copied, by path."""
        before, problems = (self.done.files, self.done.size), dict[str, str]()
        is_local = self.source.location.is_plain and self.target.location.is_plain
        tries = () if how[1:] == PATIENTLY else (FEW_TRIES,)

        def on_progress(files: int, size: int) -> None:
            self.on_progress(before[0] + files, before[1] + size)

        try:
            self.source.copy_out(
                self.files, self.target.location.at(top), [each.place for each in entries], on_progress,
                f"--partial-suffix={PARTIAL_SUFFIX}", "--no-update-dir-modtime", *tries, *self.options, *how,
                environment=QUICK if is_local else {}, most=_most(entries), problems=problems,
            )  # fmt: skip
        except (StorageFailed, StorageStopped):
            with suppress(StorageFailed, StorageStopped):
                self._note_last([PIECE.sub("", path) for path, why in problems.items() if _is_amiss(why)])
            raise
        self.is_clean &= not problems
        return problems

    def _note(self, places: Collection[str]) -> None:
        amiss.note(self.target, self.folder, self.point, places)

    def _note_last(self, places: Collection[str]) -> None:
        """Note places even if the copy was stopped, if the server takes the note at once."""
        amiss.note(replace(self.target, stop=Event(), stall_timeout=LAST_SECONDS), self.folder, self.point, places)

    def _bring_renamed(self, entries: Sequence[Entry]) -> dict[str, str]:
        """Copy files under other names, as far as a killed copy has not done so. Returns the reasons why some were not
        copied, by place.
        """
        others = {each.place: other for each in entries if (other := with_another_name(each))}
        there = self.target.sizes(self.files, [each.place for each in others.values()])
        altered = self.refusals.altered
        left = [each for each in others.values() if there.get(each.place) == each.size]
        self.refusals.distrust({each.place for each in left}.difference(self._read_back(left)))
        wanted = {
            place: each for place, each in others.items() if there.get(each.place) != each.size or each.place in altered
        }
        problems = dict[str, str]()
        try:
            self.source.copy_as(
                self.files, self.target.location.at(self.files), {place: each.place for place, each in wanted.items()},
                problems, f"--partial-suffix={PARTIAL_SUFFIX}", FEW_TRIES, "--ignore-times", *self.options,
                most=_most(wanted.values()),
            )  # fmt: skip
        except (StorageFailed, StorageStopped):
            with suppress(StorageFailed, StorageStopped):
                found = [place for place, why in problems.items() if _is_amiss(without_path(why, place))]
                self._note_last([others[place].place for place in found])
            raise
        problems = {place: without_path(why, place) for place, why in problems.items()}
        self.refusals.distrust(others[place].place for place, why in problems.items() if is_altered(why))
        problems |= self.refusals.judged(problems)
        there |= self.target.sizes(self.files, [each.place for each in wanted.values()]) if wanted else {}
        failed = {place for place in problems if others[place].place in altered}
        came = {
            place: each for place, each in others.items() if there.get(each.place) == each.size and place not in failed
        }
        self.renamed |= {place: each.place for place, each in came.items()}
        self.done.files += len(wanted.keys() & came.keys())
        self.done.size += sum(wanted[place].size for place in wanted.keys() & came.keys())
        return problems

    def confirmed(self, sizes: Mapping[str, int]) -> set[str]:
        """The places of the files in a copy on a server, among these (place → bytes), that equal those of the first
        repository. Raises: StorageFailed, StorageStopped.
        """
        source, target, watched = self.source.location, self.target.location, dict[str, Any]()
        if source.is_plain:
            here = Path(source.at(self.files))
            watched["confined"] = stay_within(Path(source.root), here, target.at(self.files))
            sizes = {each: sizes[each] for each in files_of(here, sizes)}
        return confirming.confirmed(self.source, source.at(self.files), target, self.files, sizes, **watched)

    def _read_back(self, entries: Sequence[Entry]) -> set[str]:
        """The places of those files that have their digest in the copy, or their size if it is not known. None if they
        cannot be read.
        """
        with suppress(StorageFailed):
            return {each.place for each in whole_among(entries, self.target, self.files, can_be_read=True)}
        return set()

    def _arrived(self, entries: Sequence[Entry]) -> set[str]:
        """The places of files that arrived on a server in spite of an error. None if it does not report them: all may
        be tried."""
        if self.target.location.directory:
            return set()
        with suppress(StorageFailed):
            sizes = self.target.sizes(self.files, [each.place for each in entries])
            there = {each.place: each.size for each in entries if sizes.get(each.place) == each.size}
            return self.confirmed(there) if there else set()
        return set()

    def _not_whole(self, entries: Sequence[Entry], top: str) -> list[Entry]:
        """Count files that were copied. Returns those that are not whole there."""
        self.done.files += len(entries)
        self.done.size += sum(each.size for each in entries)
        whole = {each.place for each in self._whole(self.target, entries, top)}
        return [each for each in entries if each.place not in whole]

    def _whole(self, store: Store, entries: Sequence[Entry], top: str) -> list[Entry]:
        can_be_read = store.location.is_plain or store is self.source
        return whole_among(entries, store, top, can_be_read=can_be_read)


def _is_for_another_name(why: str) -> bool:
    """True if the file may come under another name: the first one is refused, or keeps a wrong content."""
    return is_of_a_name(why) or is_altered(why)


def _is_amiss(why: str) -> bool:
    return is_altered(why) or CUT_OFF.search(why) is not None


def _most(entries: Iterable[Entry]) -> int:
    """The bytes that may come, with those that are sent again."""
    return TRIES * expected(sum(each.size for each in entries))
