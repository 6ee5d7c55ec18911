"""Which leases stay as they are, by this worker's own clock: no step of the database's clock matters to it.

A lease that was given while the database's clock was set back looks expired as soon as the clock is right again, and
no reading of a clock tells another worker that it is fresh. But a living owner renews it four times in the time of a
lease. So a worker rescues only what it has seen unchanged for longer than an owner goes on without a renewal.
"""

from jobs import claiming, conf
from jobs.clock import boot_seconds


class LeaseWatch:
    """Reads all leases of the fleet eight times in the time of one, so that it delays no rescue."""

    def __init__(self) -> None:
        self._first_seen: dict[claiming.Lease, float] = {}
        self._looked_at = self._read_at = float("-inf")

    def look(self) -> None:
        """To be called at every look of its worker while there are leases. Raises: django.db.Error."""
        now = boot_seconds()
        if now - self._looked_at > conf.lease_seconds() / 2:
            self._first_seen = {}  # the machine slept or the database was away: others could not renew either
        self._looked_at = now
        if now - self._read_at >= conf.lease_seconds() / 8:
            leases, now = claiming.leases(), boot_seconds()
            self._first_seen = {lease: self._first_seen.get(lease, now) for lease in leases}
            self._read_at = now

    def unchanged(self) -> list[claiming.Lease]:
        """Those whose owner would have renewed them by the last look, or else have stopped what ran."""
        until = self._looked_at - conf.deadline_seconds() - conf.ending_seconds()
        return [lease for lease, seen_at in self._first_seen.items() if seen_at <= until]
