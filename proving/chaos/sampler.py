"""Asks the database every 50 ms how many records run against each cap and under each exclusive key."""

import threading
from collections.abc import Sequence
from typing import Any

import psycopg

from jobs.states import Status
from proving.chaos.facts import Samples

EVERY_SECONDS = 0.05
RECONNECT_SECONDS = 0.2

SAMPLE = f"""
SELECT t.id, (
       SELECT count(*)
         FROM jobs_backlogrecord b
         JOIN jobs_lane l ON l.id = b.lane
        WHERE b.status = {Status.RUNNING} AND l.throttle_ids @> ARRAY[t.id] AND b.queue <> ALL(%(feeding)s::text[]))
  FROM jobs_throttle t
"""

DOUBLED = f"""
SELECT exclusive_key
  FROM jobs_backlogrecord
 WHERE status = {Status.RUNNING} AND exclusive_key IS NOT NULL
 GROUP BY exclusive_key
HAVING count(*) > 1
"""


class Sampler(threading.Thread):
    """Samples until `end()`. While the database is down, it waits."""

    def __init__(self, url: str, feeding: Sequence[str]) -> None:
        super().__init__(name="sampler", daemon=True)
        self._url, self._feeding = url, list(feeding)
        self._ended = threading.Event()
        self._count = 0
        self._peaks: dict[int, int] = {}
        self._doubled: set[str] = set()

    def end(self) -> Samples:
        """Stop, and return the samples."""
        self._ended.set()
        self.join(timeout=30)
        return Samples(self._count, dict(self._peaks), frozenset(self._doubled))

    def run(self) -> None:
        while not self._ended.is_set():
            try:
                with psycopg.connect(self._url, autocommit=True) as connection:
                    self._sample(connection)
            except psycopg.Error:
                self._ended.wait(RECONNECT_SECONDS)

    def _sample(self, connection: psycopg.Connection[Any]) -> None:
        while not self._ended.wait(EVERY_SECONDS):
            for throttle, running in connection.execute(SAMPLE, {"feeding": self._feeding}).fetchall():
                self._peaks[throttle] = max(self._peaks.get(throttle, 0), running)
            self._doubled |= {key for (key,) in connection.execute(DOUBLED).fetchall()}
            self._count += 1
