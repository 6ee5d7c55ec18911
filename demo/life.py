"""A demo that runs on: laptops are closed and opened, files change, and backups are asked for, so that there is always
something to watch."""

import random
import time
from pathlib import Path

from demo.comings import Comings
from demo.hosts import LARGE, LARGE_FILES, Host
from jobs.models import BacklogRecord
from sources.models import Assignment
from sources.planning import back_up_now, subject_of

CHANGE_EVERY, LEAVE_EVERY = 12.0, 20.0
"""Seconds."""
AWAY_SECONDS = (20.0, 50.0)
CHANGED_FILMS = LARGE_FILES // 3


class Life:
    """Events after all sources within reach are protected, or all but the large one."""

    def __init__(self, comings: Comings) -> None:
        self._comings = comings
        self._rng = random.Random()  # noqa: S311 - not for secrets
        self._next_change = self._next_leave = time.monotonic()

    def look(self) -> None:
        """Do everything that is due."""
        now = time.monotonic()
        if now >= self._next_leave:
            self._next_leave = now + LEAVE_EVERY
            self._close_a_lid()
        if now >= self._next_change:
            self._next_change = now + CHANGE_EVERY
            self._change(self._rng.choice([host for host in self._comings.hosts if host.name != LARGE]))
            for host in self._comings.hosts:
                if host.name == LARGE:
                    self._change(host)

    def _close_a_lid(self) -> None:
        there = [host for host in self._comings.hosts if host.has_agent and host.agent is not None]
        if there:
            host = self._rng.choice(there)
            self._comings.say(f"{host.name} is closed")
            self._comings.leave(host, self._rng.uniform(*AWAY_SECONDS))

    def _change(self, host: Host) -> None:
        """Change some of its files, and ask for a backup, unless one is on its way. It may be away: then it waits."""
        assignments = Assignment.objects.filter(source__name=host.name)
        subjects = [subject_of(pk) for pk in assignments.values_list("pk", flat=True)]
        if BacklogRecord.objects.filter(kind="backup", subject__in=subjects).unfinished().exists():
            return
        for file in self._some_files(host):
            file.write_bytes(self._rng.randbytes(file.stat().st_size))
        back_up_now(assignments, asked_by="the demo")

    def _some_files(self, host: Host) -> list[Path]:
        endings, count = ("*.mkv", CHANGED_FILMS) if host.name == LARGE else ("*.dat", 5)
        return self._rng.sample(sorted(host.files.rglob(endings)), count)
