"""The disturbances and their instants, and the work that has to succeed afterwards."""

import json
import multiprocessing
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.context import ForkProcess
from random import Random
from typing import Any

import psutil

from proving.chaos.fleet import die_with_parent
from proving.chaos.small_disk import SmallDisk
from proving.chaos.storage.audit import PointAudit
from proving.chaos.storage.changing import ChangingSources
from proving.chaos.storage.site import FIRST, FOLDERS, SECOND, StorageSite
from proving.chaos.storage.work import Answer, Orders, log_of, work

WORKERS = ("A", "B")
BETWEEN_DEEDS = (0.4, 1, 2, 3, 5, 8)
"""Time between two deeds, in durations of a backup before the storm: on a slow machine most would never end otherwise.
"""
FULL_SECONDS = (0.3, 2.0)
END_SECONDS = 120.0
GONE_SECONDS = 60.0


class StorageStorm:
    def __init__(self, site: StorageSite, seed: int, disk: SmallDisk | None) -> None:
        self.site, self.luck, self.disk = site, Random(seed), disk  # noqa: S311 - no secret
        journal = site.directory / "journal"
        self.sources = ChangingSources(site.sources, journal, tuple(each.partition("-")[0] for each in FOLDERS), seed)
        self.audit = PointAudit(site, journal)
        self.done: Counter[str] = Counter()
        self.processes: dict[str, ForkProcess] = {}

    def run(self, seconds: float) -> dict[str, Any]:
        """Run the storm for so long, then check that all works and all is there. Returns the report."""
        try:
            self.sources.make()
            self.site.make()
            backup_seconds = self._work_at_rest()
            self._start("sources", self.sources.change)
            for name in WORKERS:
                self._start_worker(name)
            end = time.monotonic() + seconds
            while (left := end - time.monotonic()) > 0:
                time.sleep(min(left, self.luck.choice(BETWEEN_DEEDS) * backup_seconds))
                self.luck.choices((self._kill, self._kill_program, self._fill), (7, 2, 1))[0]()
                if self.luck.random() < 0.4:
                    self._verify_one()
            self._end_workers()
            self._work_at_rest()
            points = self._verify_all()
        finally:
            for name in list(self.processes):
                self._end(name)
        return {
            "kind": self.site.kind,
            "deeds": dict(self.done),
            "answers": self._answers(),
            "points": points,
            "verified": self.audit.verified,
            "problems": self.audit.problems,
        }

    def _kill(self) -> None:
        """Send SIGKILL to a worker. Its children have to end with it; then another one may do its work."""
        name = self.luck.choices(WORKERS, (85, 15))[0]
        if self.processes[name].exitcode is not None:
            self.audit.problems.append(f"worker {name} ended by itself, with code {self.processes[name].exitcode}")
        self._end(name)
        self.site.rescue(name)
        self._start_worker(name)
        self.done["workers killed"] += 1

    def _kill_program(self) -> None:
        """Send SIGKILL to a process below a worker: one that executes an order, or the program that it runs."""
        if programs := _below(self.processes[self.luck.choice(WORKERS)]):
            _kill(self.luck.choice(programs))
            self.done["programs killed"] += 1

    def _fill(self) -> None:
        if self.disk:
            self.disk.fill()
            time.sleep(self.luck.uniform(*FULL_SECONDS))
            self.disk.make_room()
            self.done["disk full"] += 1

    def _verify_one(self) -> None:
        which, folder = self.luck.choice((FIRST, SECOND)), self.luck.choice(FOLDERS)
        if points := self.audit.points(which, folder):
            self.audit.verify(which, folder, self.luck.choice(points), at_rest=False)

    def _end_workers(self) -> None:
        self.site.over.touch()
        for name in WORKERS:
            self.processes[name].join(END_SECONDS)
            if self.processes[name].exitcode != 0:
                self.audit.problems.append(f"worker {name} did not end: {self.processes[name].exitcode}")
            self._end(name)
        self._end("sources")

    def _work_at_rest(self) -> float:
        """Check that nothing stays locked, damaged or undone. Returns the seconds of a backup."""
        return sum(map(self._work_at_rest_in, FOLDERS)) / len(FOLDERS)

    def _work_at_rest_in(self, folder: str) -> float:
        orders, began = Orders(self.site), time.monotonic()
        made = orders.back_up(folder)
        backup_seconds = time.monotonic() - began
        self._expect("back up", folder, made, lambda answer: answer.get("verdict") == "succeeded")
        self._remove_oldest(orders, folder, FIRST)
        if self.site.kind == "restic":
            self._expect("prune", folder, orders.prune(folder), lambda answer: "freed" in answer)
        checked = orders.check(folder)
        self._expect("check", folder, checked, lambda answer: answer.get("damaged") == [])
        copied = orders.copy(folder)
        self._expect("copy", folder, copied, lambda answer: "new" in answer and not answer["wrong"])
        self._remove_oldest(orders, folder, SECOND)
        for which in (FIRST, SECOND):
            self.audit.check_named(which, folder)
        return backup_seconds

    def _remove_oldest(self, orders: Orders, folder: str, which: str) -> None:
        """Remove the oldest point, if there are enough, and with it what killed removals have left."""
        if len(points := self.audit.points(which, folder)) > 2:
            removed = orders.remove(folder, which, points[:1], points[1:])
            self._expect("remove", folder, removed, lambda answer: answer.get("points") == points[:1])

    def _expect(self, what: str, folder: str, answer: Answer, is_well: Callable[[Answer], bool]) -> None:
        if not is_well(answer):
            self.audit.problems.append(f"without a storm, {what} {folder}: {json.dumps(answer)}")

    def _verify_all(self) -> int:
        count = 0
        for which in (FIRST, SECOND):
            for folder in FOLDERS:
                for point in self.audit.points(which, folder):
                    self.audit.verify(which, folder, point, at_rest=True)
                    count += 1
        return count

    def _answers(self) -> dict[str, int]:
        found: Counter[str] = Counter()
        for name in WORKERS:
            for line in log_of(self.site, name).read_text().splitlines():
                _, _, do, _, answer = json.loads(line)
                how = answer.get("verdict") or next(
                    (each for each in ("failed", "problem", "busy", "none") if each in answer), ""
                )
                found[f"{do} {how}".strip()] += 1
        return dict(sorted(found.items()))

    def _start_worker(self, name: str) -> None:
        seed = self.luck.randrange(10**9)
        self._start(name, lambda: work(self.site, name, seed))

    def _start(self, name: str, do: Callable[[], None]) -> None:
        process = multiprocessing.get_context("fork").Process(target=_alone, args=(do,), daemon=True)
        process.start()
        self.processes[name] = process

    def _end(self, name: str) -> None:
        """Send SIGKILL to a worker, and wait for the end of its children."""
        process = self.processes.pop(name)
        below = _below(process)
        process.kill()
        process.join()
        deadline = time.monotonic() + GONE_SECONDS
        while left := [each for each in below if _is_alive(each)]:
            if time.monotonic() > deadline:
                self.audit.problems.append(f"children of {name} outlived it: {left}")
                for each in left:
                    _kill(each)
                return
            time.sleep(0.01)


def _alone(do: Callable[[], None]) -> None:
    """Run `do` in a new session, so that only the storm gets Ctrl-C, and end with it."""
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if sys.platform == "linux":
        die_with_parent()
    do()


def _below(process: ForkProcess) -> list[psutil.Process]:
    try:
        return psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _kill(process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):
        process.kill()
