"""The orders at the repositories, each in a separate process as in real workers, and a worker that gives them."""

import json
import time
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

from backups.repository_orders import give
from engines.base import BackupTask, SourceSpec
from engines.repository_process import PROGRAM
from external.processes.orders import NoAnswer
from proving.chaos.storage.site import FIRST, FOLDERS, SECOND, StorageSite
from storage.places.location import RESTIC
from storage.points import runs
from storage.points.store import StorageFailed

SILENT_SECONDS, GRACE_SECONDS = 60.0, 8.0
FEWEST_POINTS, MOST_POINTS = 3, 12
WORDS, WEIGHTS = ("back up", "remove", "copy", "check", "prune"), (6, 3, 2, 1, 1)
IDLE_SECONDS = 0.05

Answer = dict[str, Any]


class Orders:
    """The orders at a site. Each returns the answer, or `none` with the last output of a process without an answer."""

    def __init__(self, site: StorageSite) -> None:
        self.site = site
        self.first = site.location(FIRST).as_json()

    def back_up(self, folder: str) -> Answer:
        name, var = folder.partition("-")[0], self.site.directory
        source = SourceSpec(name, "local", "", None, str(self.site.sources / name), {}, None, "")
        now, staging = datetime.now(UTC), str(var / "staging")
        task = asdict(BackupTask(source, self.site.location(FIRST), folder, now, policy="p", staging=staging))
        ours = asdict(self.site.identity(FIRST))
        return self._give("back_up", task=task | {"location": self.first}, ours=ours, made=True)

    def remove(self, folder: str, which: str, points: list[str], stay: list[str]) -> Answer:
        place = self.site.location(which).as_json()
        return self._give("remove_points", location=place, folder=folder, points=points, stay=stay)

    def check(self, folder: str) -> Answer:
        facts: dict[str, Any] = {"part": "", "share": 1.0, "known": [], "recorded": []}
        if not self.site.location(FIRST).is_restic:
            facts |= {"after": "", "total": 0}
        return self._give("check_files", location=self.first, folder=folder, **facts)

    def copy(self, folder: str) -> Answer:
        target, ours = self.site.location(SECOND).as_json(), asdict(self.site.identity(SECOND))
        facts = {"newest": "", "again": [], "damaged": {}, "bandwidth": "", "zone": "UTC", "reserve": 0.0}
        place = {"location": self.first, "target": target}
        return self._give("copy_points", folder=folder, ours=ours, made=True, **place, **facts)

    def prune(self, folder: str) -> Answer:
        return self._give("prune", location=self.first, folder=folder) if self.site.kind == RESTIC else {}

    def remove_some(self, folder: str, luck: Random) -> Answer:
        """Remove points at random in one of the repositories, down to MOST_POINTS."""
        which = luck.choice((FIRST, SECOND))
        points = runs.points(self.site.store(which), folder)
        if (spare := len(points) - FEWEST_POINTS) < 1:
            return {}
        gone = set(luck.sample(points[:-1], max(min(spare, luck.randint(1, 3)), len(points) - MOST_POINTS)))
        return self.remove(folder, which, sorted(gone), [each for each in points if each not in gone])

    def _give(self, do: str, **facts: Any) -> Answer:
        how: dict[str, Any] = {"silent_for": SILENT_SECONDS, "grace": GRACE_SECONDS}
        try:
            return dict(give(PROGRAM, do, facts, Event(), **how))
        except tuple(PROGRAM.raises.values()) as error:
            return {next(word for word, kind in PROGRAM.raises.items() if isinstance(error, kind)): str(error)}
        except NoAnswer as error:
            return {"none": " ".join(error.ended.last_lines[-2:])}


def work(site: StorageSite, name: str, seed: int) -> None:
    """Give one order after the other, until the storm is over. The answers go to this worker's log."""
    luck, orders = Random(seed), Orders(site)  # noqa: S311 - no secret
    choices = (orders.back_up, partial(orders.remove_some, luck=luck), orders.copy, orders.check, orders.prune)
    with log_of(site, name).open("ab", buffering=0) as log:  # each line is one write: a SIGKILL cuts none in two
        while not site.over.exists():
            folder, number = luck.choice(FOLDERS), luck.choices(range(len(choices)), WEIGHTS)[0]
            with site.lease(folder, name) as is_ours:
                if not is_ours:
                    time.sleep(IDLE_SECONDS)
                    continue
                began = time.time()
                try:
                    answer = choices[number](folder)
                except StorageFailed as error:
                    answer = {"failed": str(error)}
                log.write(f"{json.dumps([began, time.time(), WORDS[number], folder, answer])}\n".encode())


def log_of(site: StorageSite, name: str) -> Path:
    return site.directory / f"log-{name}"
