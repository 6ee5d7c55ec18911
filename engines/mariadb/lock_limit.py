"""A limit, which mariadb-dump itself lacks, for its wait for a lock.

While a dump has not written anything, a second session asks the server whether a session of the same account waits for
a lock in this database. A dump that waits holds no lock itself, so no application waits for it; without this limit it
would fail much later, for lack of progress.
"""

import time
from collections.abc import Callable

from engines.base import RunEnded, Verdict
from engines.mariadb.catalogue import FACT
from engines.mariadb.verdicts import WAITS

LOCK_WAIT = 10.0
"""Seconds, as for pg_dump."""
ASK_EVERY = 2.0
ASK = f"""
SELECT CONCAT('{FACT}', MAX(p.TIME)) FROM information_schema.PROCESSLIST p, information_schema.PROCESSLIST own
 WHERE own.ID = CONNECTION_ID() AND p.ID <> own.ID AND p.USER = own.USER AND p.DB = own.DB
   AND (p.STATE LIKE 'Waiting for%lock' OR p.STATE = 'Waiting for table flush');
"""
"""An account sees its sessions without any right."""
STAYS_LOCKED = (
    "a table stayed locked for {:g} s, such as by ALTER TABLE or LOCK TABLES of another session: let the window of the "
    f"policy keep clear of migrations and upkeep{WAITS}"
)


class LockLimit:
    """The sign of life of a dump. `size`: its bytes so far; `ask`: runs `ASK`, and returns the server's answer."""

    def __init__(self, size: Callable[[], int], ask: Callable[[], list[str]]) -> None:
        self.size, self.ask = size, ask
        self.last, self.ask_at = -1, 0.0

    def __call__(self) -> int:
        """The bytes so far. Raises: RunEnded, as *not for now*, when the dump waits for a lock for too long; what
        `size` raises.
        """
        size, now = self.size(), time.monotonic()
        if size != self.last:
            self.last, self.ask_at = size, now + LOCK_WAIT
        elif now >= self.ask_at:
            waited = [float(each) for each in self.ask() if each.isdecimal()]
            if max(waited, default=-1) >= int(LOCK_WAIT):
                raise RunEnded(Verdict.NOT_FOR_NOW, STAYS_LOCKED.format(LOCK_WAIT))
            self.ask_at = time.monotonic() + ASK_EVERY
        return size
