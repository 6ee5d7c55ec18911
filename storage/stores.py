"""The choice of the `Store` for a location: no other module knows it."""

from external.processes.runner import StopSignal
from storage.places.location import Location
from storage.points.known import Known
from storage.points.store import Store


def store_of(
    location: Location, stop: StopSignal, inherited: tuple[int, ...] = (), known: Known | None = None
) -> Store:
    """The `Store` for a repository of any format."""
    if location.is_restic:
        from storage.restic.store import ResticStore  # each backup's process would load it

        return ResticStore(location, stop, inherited=inherited, known=known)
    return Store(location, stop, inherited=inherited, known=known)
