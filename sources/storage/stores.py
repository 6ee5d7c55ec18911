"""The one place that knows which `Store` a location is read by."""

from sources.processes.runner import StopSignal
from sources.storage.known import Known
from sources.storage.location import Location
from sources.storage.store import Store


def store_of(
    location: Location, stop: StopSignal, inherited: tuple[int, ...] = (), known: Known | None = None
) -> Store:
    """A repository at work, whatever its format."""
    if location.is_restic:
        from sources.storage.restic.store import ResticStore  # each backup's process would load it

        return ResticStore(location, stop, inherited=inherited, known=known)
    return Store(location, stop, inherited=inherited, known=known)
