"""Absent sources among present ones: the queue `availability` as a worker finds it at the start of a sweep.

The order is mixed: present sources (folders) are spread evenly over the absent ones (SFTP hosts), since the look-ahead
asks only while units are short of sources that have answered. More present ones come after them, so that units stay
busy to the end.
"""

from pathlib import Path

from jobs import tick
from proving.bench.fleets.deaf_host import address
from schedules.models import Schedule
from sources.models import Assignment, Policy, Repository, Source
from sources.models.source import SourceKind
from sources.planning import KIND

NEVER_SECONDS = 86_400.0


def make(
    absent: int, present: int, behind: int, port: int, directory: str, connect_timeout: float, bandwidth: str
) -> None:
    """Make and emit them. `directory` contains `files` (backed up) and `repository`; `bandwidth` is rclone's limit."""
    home = Path(directory)
    schedule = Schedule.objects.create(name="sweep", cron="0 0 1 1 *", kind=KIND, provider="assignments")
    policy = Policy.objects.create(
        schedule=schedule,
        repository=Repository.objects.create(name="bench", location=str(home / "repository")),
        connect_timeout=connect_timeout,
        recheck_after=NEVER_SECONDS,
        engine_options={"bwlimit": bandwidth},
    )
    addresses = map(address, range(absent))
    sources = [
        _present(number, home) if is_present else _absent(number, next(addresses), port)
        for number, is_present in enumerate(mixed(absent, present) + [True] * behind)
    ]
    Source.objects.bulk_create(sources)
    Assignment.objects.bulk_create(Assignment(source=source, policy=policy) for source in sources)
    tick.tick()


def mixed(absent: int, present: int) -> list[bool]:
    """True for each source in turn that is present: `present` sources, spread evenly from the first on."""
    fleet = absent + present
    return [number * present % fleet < present for number in range(fleet)]


def _present(number: int, home: Path) -> Source:
    return Source(name=f"source {number}", kind=SourceKind.LOCAL, path=str(home / "files"))


def _absent(number: int, where: str, port: int) -> Source:
    return Source(name=f"source {number}", kind=SourceKind.SFTP, address=where, port=port)
