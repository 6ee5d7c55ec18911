"""Disks are not waited for."""

from tests.storage.quick_disks import no_waits_for_disks, waits_for_disks

__all__ = ["no_waits_for_disks", "waits_for_disks"]
