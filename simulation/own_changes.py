"""Changes to the fleet of this installation: their problems are found before its history is read, which takes long and
may be missing."""

from declarations.unknown import nothing_named
from simulation.changes import Changes, ImpossibleChange
from simulation.fleet_file import SimulatedFleet
from simulation.own_history import RecordedFleet
from simulation.recorded_sources import UNDER
from simulation.samples import in_sample
from sources.models import Policy, Source


def check(changes: Changes) -> None:
    """Raises: ImpossibleChange for a number or a setting that is impossible in any fleet, and for an unknown name."""
    changes.check()
    for name, _ in changes.policies:
        if not Policy.objects.filter(schedule__name=name).exists():
            raise ImpossibleChange("policy", nothing_named(Policy, "schedule__name", name))
    for _, name in changes.added:
        if not Source.objects.filter(name__in=sources_called(name)).exists():
            raise ImpossibleChange("like", nothing_named(Source, "name", name))


def sources_called(name: str) -> tuple[str, str]:
    """The names that a source may have that is called so in a recorded fleet, perhaps with its policy; one may be
    empty."""
    return name, name.rpartition(UNDER)[0]


def made_to(recorded: RecordedFleet, changes: Changes) -> SimulatedFleet:
    """The recorded fleet with the changes, in its size. Raises: ImpossibleChange, also if nothing is known of what they
    name.
    """
    known, policies = {each.name for each in recorded.fleet.sources}, {each.policy for each in recorded.fleet.sources}
    for name, _ in changes.policies:
        if name not in policies:
            raise ImpossibleChange(
                "policy",
                f"nothing is known of sources under policy {name!r}: none of them was seen there in these days, or it "
                "is disabled, cannot be read, or has only paused and retired ones",
            )
    for _, name in changes.added:
        if name not in known:
            raise ImpossibleChange(
                "like",
                f"nothing is known of source {name!r}: it was not seen there in these days, no backup of it is known, "
                "or it is paused, retired, or under no policy that is enabled",
            )
    return in_sample(changes, recorded.share).made_to(recorded.fleet)
