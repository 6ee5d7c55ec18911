"""Scratch space for drills; and disks are not waited for."""

from tests.engines.scratch_space import scratch
from tests.storage.quick_disks import no_waits_for_disks, waits_for_disks

__all__ = ["no_waits_for_disks", "scratch", "waits_for_disks"]
