"""Histories of a small source: changed, backed up, removed from, copied, checked, restored, and killed before any step
of it."""

import os
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any
from unicodedata import normalize

import pytest

from engines.base import EngineResult, Verdict
from engines.rclone import bringing, renaming, transfer
from storage import layout
from storage.places.location import Location, of_directory
from storage.points import checking, copying, manifests, removal, runs
from storage.points.manifests import Entry
from storage.points.store import Store
from storage.restoring.base import Wish
from storage.restoring.into_folder import restore
from tests.engines.history_steps import Backup, Check, Copy, Removal, Restore, Step
from tests.engines.peers import local_folder, run, task_for
from tests.engines.small_trees import Seen, edit, hard_links, seen

FOLDER = "nas-7/nightly"
FILES = layout.files_path(FOLDER)
BEGAN = datetime(2100, 1, 1, tzinfo=UTC)
"""After whatever these tests write, so that no file is doubtful, and what is as it was is taken over."""
STEPS = (
    "put", "put_all", "remove", "delete", "names", "walk", "fetch", "flush", "remove_empty_folders", "copy_out", "read",
    "sizes",
)  # fmt: skip


class Killed(BaseException):
    """Nothing catches it, and so nothing cleans up."""


@dataclass
class History:
    """`location`: of the repository, whose files are `at` a folder of this host, also where they are served;
    `expected`: what each point that ever was has to hold, and its hard links, None where an earlier file stands for one
    of them; `broken`: places that are damaged; `read`: the manifest of each point, by the folder of its repository."""

    top: Path
    location: Location
    expected: dict[str, tuple[Seen, set[frozenset[str]] | None]] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    synced: set[Path] = field(default_factory=set)
    began: int = 0
    boots: int = 0
    left: int | None = None
    step: Backup = field(default_factory=lambda: Backup([]))
    hidden: list[str] = field(default_factory=list)
    read: dict[tuple[Path | None, str], dict[str, Entry]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.source, self.copies = self.top / "source", self.top / "copies"
        self.at = self.location.directory or self.top / "repository"
        for each in (self.source, self.copies, self.at, self.top / "away"):
            each.mkdir(exist_ok=True)
        self.store = Store(self.location, Event())
        self.copied = Store(of_directory(self.copies), Event())

    def play(self, step: Step) -> EngineResult | None:
        """One step; None: it was killed, or there is nothing to say of it."""
        if isinstance(step, Backup):
            return self._back_up(step)
        if isinstance(step, Copy):
            if not self.broken:
                self._killed(step, lambda: copying.copy(self.store, self.copied, FOLDER))
            return None
        if isinstance(step, Restore):
            return self._restore(step)
        store = self.copied if step.of_the_copy else self.store
        if isinstance(step, Check):
            self._check(step, store)
        elif runs.points(store, FOLDER):
            chosen = self.chosen(step)
            for each in (step, Removal(step.points)):
                self._killed(each, lambda: removal.remove(store, FOLDER, chosen))
            assert not {*chosen} & {*runs.points(store, FOLDER)}
        return None

    def chosen(self, step: Removal) -> list[str]:
        """The points that a removal is for; never the newest one."""
        points = runs.points(self.copied if step.of_the_copy else self.store, FOLDER)
        return [each for number, each in enumerate(points[:-1]) if number in step.points]

    def _check(self, step: Check, store: Store) -> None:
        """Raises: AssertionError, where it does not find what is damaged, or finds what is not."""
        named = {place for each in runs.points(store, FOLDER) for place in self._places(store, each)}
        for each in (step, Check()):
            found = self._killed(each, lambda: checking.check(store, FOLDER, part="", after="", total=0, share=1.0))
        broken = self.broken & named if store is self.store else set()
        assert {each.place for each in found.damaged} == broken, found.damaged

    def _restore(self, step: Restore) -> None:
        if points := runs.points(self.store, FOLDER):
            point = points[step.point % len(points)]
            wish = Wish(FOLDER, point, self.top / "restored")
            self._killed(step, lambda: restore(wish, self.store, self.top / "cache"))
            self._check_point(self.store, point, self.entries(self.store, point))

    def _places(self, store: Store, point: str) -> set[str]:
        return {each.place for each in self.entries(store, point).values() if each.folder}

    def _back_up(self, step: Backup) -> EngineResult | None:
        self.began += 1
        for number, (what, name, more) in enumerate(step.edits):
            edit(self.source, what, name, more, self.began * 7 + number if more != b"one" else 0)
        points = runs.points(self.store, FOLDER) if step.damage is not None else []
        places = {place for name in points[-1:] for place in self._places(self.store, name)}
        for place in sorted(places)[step.damage : (step.damage or 0) + 1]:
            self.broken.add(place)
            self.store.remove(f"{FILES}/{place}")
        self.step, now, linked = step, seen(self.source), hard_links(self.source)
        more = set().union(*linked)
        files = sorted(name for name, each in now.items() if each[0] == "file" and name not in more)
        self.hidden = sorted({files[number % len(files)] for number in step.away}) if files else []
        task = task_for(
            local_folder(self.source),
            self.at,
            location=self.store.location,
            folder=FOLDER,
            started_at=BEGAN + timedelta(hours=self.began),
            damaged=frozenset(self.broken),
        )
        result: EngineResult | None = self._killed(step, lambda: run(task))
        self._show()
        for point in set(runs.points(self.store, FOLDER)).difference(self.expected):
            self._expect(point, now, linked)
        if result is not None and not (self.hidden and result.verdict is Verdict.SOURCE_FAILED):
            assert result.verdict in (Verdict.SUCCEEDED, Verdict.WARNINGS), result
            assert result.snapshot == runs.points(self.store, FOLDER)[-1]
        return result

    def _expect(self, point: str, now: Seen, linked: set[frozenset[str]]) -> None:
        """Raises: AssertionError, where its manifest does not say what was not copied."""
        header, entries = self.store.header(FOLDER, point), self.entries(self.store, point)
        assert header is not None
        before = self.expected[header.base][0] if header.base else {}
        excepted = [name for name, each in entries.items() if each.why]
        assert set(excepted) <= set(self.hidden), entries
        assert header.complete is not bool(excepted)
        for name in excepted:
            if before.get(name, ("folder",))[0] != "folder":
                assert entries[name].as_of, f"{name}: what the last point has of it is kept"
                now = now | {name: before[name]}
            else:
                now = {each: what for each, what in now.items() if each != name}
        assert set(now) <= set(entries)
        again = [each for each in entries.values() if each.folder and not each.why and each.place in self.broken]
        assert not again, "what is damaged is not taken over"
        self.expected[point] = now, None if excepted else linked

    def check(self, *, only: Collection[str] = ()) -> None:
        """Every point restores; `only`: these."""
        for store in (self.store, self.copied):
            spelled: dict[str, str] = {}
            for point in runs.points(store, FOLDER):
                is_checked, key = point in only or not only, (store.location.directory, point)
                if is_checked or key not in self.read:  # for a served repository, a program is started to read it
                    self.read[key] = self.entries(store, point)
                for entry in self.read[key].values():
                    _note_spelling(entry.place if entry.folder else "", spelled)
                if is_checked:
                    self._check_point(store, point, self.read[key])

    def _check_point(self, store: Store, point: str, entries: dict[str, Entry]) -> None:
        expected, linked = self.expected[point]
        broken = self.broken if store is self.store else set()
        lost = {name for name, each in entries.items() if each.folder and each.place in broken}
        target = self.top / "restored"
        report = restore(Wish(FOLDER, point, target), store, self.top / "cache")
        found, links = seen(target) if target.exists() else {}, hard_links(target) if target.exists() else set()
        for each in (target, self.top / "cache"):
            shutil.rmtree(each, ignore_errors=True)
        assert bool(report.failed_files) is bool(lost), report.failed
        assert found == {name: each for name, each in expected.items() if name not in lost}, point
        assert linked is None or lost or links == linked

    def check_nothing_else_stays(self) -> None:
        for store in (self.store, self.copied):
            named = {place for each in runs.points(store, FOLDER) for place in self._places(store, each)}
            assert set(store.sizes(FILES)) == (named - self.broken if store is self.store else named)

    def entries(self, store: Store, point: str) -> dict[str, Entry]:
        file = self.top / "manifest"
        assert store.manifest(FOLDER, point, file)
        return {each.path: each for each in manifests.read(file)}

    def _killed(self, step: Step, do: Callable[[], Any]) -> Any:
        self.left = step.kill
        try:
            return do()
        except Killed:
            if step.is_cut:
                self._cut_the_power()
            return None
        finally:
            self.left = None

    def _cut_the_power(self) -> None:
        """Cut the power: files that were not flushed keep their size and time, and lose their contents, as on some file
        systems."""
        self.boots += 1
        for file in self._files():
            if file not in self.synced and file.name != "lock":
                facts = file.stat()
                file.write_bytes(bytes(facts.st_size))
                os.utime(file, ns=(facts.st_mtime_ns, facts.st_mtime_ns))

    def _files(self) -> set[Path]:
        """All stored files, on the disks of this host."""
        tops = (self.copies, self.at) if self.location.directory else (self.copies,)
        return {each for top in tops for each in top.rglob("*") if each.is_file()}

    def check_stop(self) -> None:
        """Raises: Killed."""
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Killed

    @contextmanager
    def stepped(self) -> Iterator[None]:
        """Each step of it can be the last."""
        with pytest.MonkeyPatch.context() as patch:
            for name in STEPS:
                patch.setattr(Store, name, self._step(getattr(Store, name), name))
            patch.setattr(bringing, "bring", self._bringing(bringing.bring))
            patch.setattr(transfer, "bring_renamed", self._bringing(renaming.bring_renamed))
            patch.setattr(runs, "check_base", self._checking(runs.check_base))
            patch.setattr(runs, "boot", lambda: f"boot {self.boots}")
            yield

    def _step(self, do: Callable[..., Any], name: str) -> Callable[..., Any]:
        def step(store: Store, *given: Any, **named: Any) -> Any:
            self.check_stop()
            if name == "flush":
                at = store.location.directory
                self.synced |= {each for each in self._files() if at and each.is_relative_to(at)}
                return None
            before = self._files()
            done = do(store, *given, **named)
            self.synced |= self._files() - before if name == "put" else set()
            return done

        return step

    def _bringing(self, bring: Callable[..., Any]) -> Callable[..., Any]:
        def brought(*given: Any, **how: Any) -> Any:
            self.check_stop()
            for number, name in enumerate(self.hidden):
                with suppress(FileNotFoundError):
                    os.rename(self.source / name, self.top / f"away/{number}")
            before = set((top := self.at).rglob("*"))
            done = bring(*given, **how)
            if self.left == 0:
                came = sorted(each for each in set(top.rglob("*")) - before if each.is_file())
                for number, file in enumerate(came):
                    if number in self.step.pieces:
                        file.unlink() if number % 2 else os.truncate(file, file.stat().st_size // 2)
            self.check_stop()
            return done

        return brought

    def _checking(self, check: Callable[..., Any]) -> Callable[..., Any]:
        def checked(store: Store, folder: str, begun: runs.BegunRun, **how: bool) -> None:
            self._show()
            left, self.left = self.left, None
            if self.step.overtaken and begun.base and len(runs.points(self.store, FOLDER)) > 1:
                self.step = replace(self.step, overtaken=False)
                removal.remove(self.store, FOLDER, [begun.base])
            self.left = left
            check(store, folder, begun, **how)

        return checked

    def _show(self) -> None:
        """Put back what was away."""
        for number, name in enumerate(self.hidden):
            with suppress(FileNotFoundError):
                os.rename(self.top / f"away/{number}", self.source / name)


def _note_spelling(place: str, spelled: dict[str, str]) -> None:
    """Raises: AssertionError, where a disk would take two stored names for one."""
    parts = place.split("/") if place else []
    for number in range(1, len(parts) + 1):
        path = "/".join(parts[:number]) + ("/" if number < len(parts) else "")
        key = normalize("NFC", normalize("NFC", path.rstrip("/")).casefold())
        assert spelled.setdefault(key, path) == path
