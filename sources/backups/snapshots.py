"""What a restic repository wants of the backlog. restic locks all of it to remove points, to prune and to check, and a
backup locks it against these: whichever comes second is busy and looks again after a minute."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from django.db.models import Q

from jobs.models import BacklogRecord
from jobs.states import WaitingFor
from sources import planning
from sources.models import Assignment, CheckRound, Format, Repository
from sources.storage.location import RESTIC

PRUNE_EVERY = timedelta(hours=20)
"""A prune reads what all snapshots hold: not for each source that forgets one."""
WANTED_ALONE = "repository {} is wanted alone, to remove points or to check it"
PATIENCE_ATTEMPTS = 120
"""Looks, a minute apart, of a record that needs a repository alone, before new backups wait for it."""
SHARED = ("planned_at", "began_at", "repository", "part", "after", "total", "read", "checked_at", "ended_at", "damage")


def prunes_now(repository: Repository, now: datetime) -> bool:
    """Whether what is removed frees its room at once."""
    return repository.pruned_at is None or now - repository.pruned_at >= PRUNE_EVERY


def note_pruned(repository: Repository, now: datetime) -> None:
    """Keep when restic last freed room."""
    if repository.format == Format.RESTIC:
        repository.pruned_at = now
        repository.save(update_fields=["pruned_at"])


def is_wanted_alone(repository: Repository) -> bool:
    """Whether a backup, or a copy, is to wait, since what needs the repository alone never finds it so."""
    if repository.format != Format.RESTIC:
        return False
    records = BacklogRecord.objects.unfinished().filter(
        kind__in=(planning.RETENTION, planning.CHECK),
        waiting_for=WaitingFor.RECHECK,
        attempt__gte=PATIENCE_ATTEMPTS,
    )
    ids = [payload["assignment"] for payload in records.values_list("payload", flat=True)[:100]]
    works_there = Q(policy__repository=repository) | Q(policy__copy_to=repository)
    return bool(ids) and Assignment.objects.filter(works_there, pk__in=ids).exists()


def one_a_repository(assignments: Iterable[Assignment]) -> Iterator[Assignment]:
    """Of those in a restic repository, which is checked as a whole with its copy, the first one."""
    seen = set()
    for each in assignments:
        policy = each.policy
        if policy.repository.format != Format.RESTIC or (policy.repository_id, policy.copy_to_id) not in seen:
            yield each
        seen.add((policy.repository_id, policy.copy_to_id))


def share_check(row: CheckRound) -> None:
    """What was read of a restic repository was read for all whose backups go there."""
    policy = row.assignment.policy
    if policy.repository.format != Format.RESTIC:
        return
    ours = Assignment.objects.filter(policy__repository=policy.repository, policy__copy_to=policy.copy_to)
    values = {name: getattr(row, name) for name in SHARED}
    values["damage"] = [each for each in row.damage if each["place"] == RESTIC]
    CheckRound.objects.bulk_create(
        [CheckRound(assignment=each, **values) for each in ours.exclude(pk=row.pk)],
        update_conflicts=True,
        unique_fields=["assignment"],
        update_fields=list(SHARED),
    )
