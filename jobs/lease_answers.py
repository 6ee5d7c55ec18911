"""What the database answers to a settle and to a renewal (`jobs/claiming.py`)."""

from dataclasses import dataclass


class LeaseLost(Exception):
    """A result came from an attempt that no longer owns its record; it was dropped."""


@dataclass(frozen=True)
class Settled:
    """What a settle did: record ids whose attempt is in the history now, those whose lease was lost, and those that
    have to be settled again, since others hold what it needs."""

    written: frozenset[int] = frozenset()
    lost: frozenset[int] = frozenset()
    locked: frozenset[int] = frozenset()

    def __or__(self, other: "Settled") -> "Settled":
        return Settled(self.written | other.written, self.lost | other.lost, self.locked | other.locked)

    def raise_if_lost(self) -> None:
        """Raises: LeaseLost when any result was dropped."""
        if self.lost:
            raise LeaseLost(f"the lease of record {', '.join(map(str, sorted(self.lost)))} was lost")


@dataclass(frozen=True)
class Renewed:
    """What a renewal found: ids whose lease was extended, those that another transaction holds locked and that are
    still the worker's, and those of both that a person cancelled. All others are lost."""

    owned: frozenset[int]
    unknown: frozenset[int]
    cancelled: frozenset[int]
