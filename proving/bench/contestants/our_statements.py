"""This project's claim and settle statements in a bare psycopg loop, to show the cost of the worker around them.

Batches of BATCH. `statements-serial` claims and settles in turn on one connection; `statements-overlapped` settles one
batch on a second connection while the next is claimed, as the worker does.
"""

import os
import threading
from queue import Queue
from typing import Any
from uuid import UUID, uuid4

import psycopg

from proving.bench.contestant import QUEUE, Connection, Site
from proving.bench.contestants.ours import Ours, set_up

BATCH = 1000
LEASE_SECONDS = 60.0
IDLE_SECONDS = 0.05

Row = tuple[Any, ...]


class OurStatements(Ours):
    """Shares tables, jobs and checks with `Ours`."""

    def __init__(self, name: str, *, overlapped: bool) -> None:
        super().__init__(name, is_async=False)
        self._overlapped = overlapped

    def work(self, site: Site, *, stamp: bool) -> None:
        set_up(site.url)
        token = uuid4()
        claiming = Loop(site.url, token)
        settling = Loop(site.url, token) if self._overlapped else claiming
        claimed: Queue[list[Row]] = Queue(maxsize=2)

        def settle_for_ever() -> None:
            while True:
                settling.settle(claimed.get())

        if self._overlapped:
            threading.Thread(target=settle_for_ever, daemon=True).start()
        tick, idle = site.tally.tick, threading.Event()
        site.gate.wait_at()
        while True:
            rows = claiming.claim()
            for _ in rows:
                tick()
            if not rows:
                idle.wait(IDLE_SECONDS)
            elif self._overlapped:
                claimed.put(rows)
            else:
                settling.settle(rows)


class Loop:
    """A connection, set up as a worker's, and the two statements on it. `token`: the token of all leases."""

    def __init__(self, url: str, token: UUID) -> None:
        from psycopg.types.datetime import TimestamptzLoader
        from psycopg.types.string import TextLoader

        from jobs.claiming import CLAIM
        from jobs.outcomes import RECORD_COLUMNS
        from jobs.prepared_statements import PREPARE_AT_ONCE, session_settings
        from jobs.settling import SETTLE_SUCCEEDED

        self._claim, self._settle = CLAIM, SETTLE_SUCCEEDED
        self._connection: Connection = psycopg.connect(url, autocommit=True)
        self._connection.execute(session_settings(LEASE_SECONDS))
        self._connection.prepare_threshold = PREPARE_AT_ONCE
        self._connection.adapters.register_loader("jsonb", TextLoader)
        self._connection.adapters.register_loader("timestamptz", TimestamptzLoader)
        names = [name.strip() for name in RECORD_COLUMNS.split(",")]
        self._id, self._attempt = names.index("id"), names.index("attempt")
        self._lease = {"worker": os.getpid(), "token": token, "lease": LEASE_SECONDS, "now": None}

    def claim(self) -> list[Row]:
        return self._connection.execute(self._claim, {"queue": QUEUE, "limit": BATCH, **self._lease}).fetchall()

    def settle(self, rows: list[Row]) -> None:
        """Settle as `jobs.claiming` does: in id order, arrays as text."""
        rows.sort(key=lambda row: row[self._id])
        values = {
            "id": "{" + ",".join(str(row[self._id]) for row in rows) + "}",
            "attempt": "{" + ",".join(str(row[self._attempt]) for row in rows) + "}",
            "worker_id": "{" + ",".join([str(self._lease["worker"])] * len(rows)) + "}",
            "lease_token": "{" + ",".join([str(self._lease["token"])] * len(rows)) + "}",
            "facts": None,
            "now": None,
        }
        self._connection.execute(self._settle, values)
