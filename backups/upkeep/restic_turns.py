"""Turns in a restic repository: when records wait for each other, and which assignment reads it for all. restic locks
it to remove points, to prune and to check, and a backup locks it against these: whichever comes second finds it busy
and tries again after a minute.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import Exists, Max, OuterRef, Q, QuerySet

from backups.upkeep import retention_decisions
from jobs.models import BacklogRecord
from jobs.states import WaitingFor
from sources import planning
from sources.models import Assignment, Backup, CheckRound, Copy, Format, Repository
from storage import layout
from storage.places.location import RESTIC
from storage.points.checking import GONE, of_manifest

WANTED_ALONE = "repository {} is wanted alone, to remove points or to check it"
PATIENCE_ATTEMPTS = 120
"""The tries, a minute apart, of a record that needs a repository to itself, before new backups wait for it."""
SHARED = ("began_at", "repository", "part", "after", "total", "read", "checked_at", "ended_at")
_STORED_AS_FILES = {"assignment": OuterRef("pk"), "repository__format": Format.RCLONE}
HAS_FILES = Q(Exists(Backup.objects.filter(**_STORED_AS_FILES))) | Q(
    Exists(Copy.objects.filter(**_STORED_AS_FILES).exclude(points=[]))
)
"""A condition on assignments: some of their data is in a repository that is not restic's, such as one that the policy
had before.
"""


def is_wanted_alone(repository: Repository) -> bool:
    """True if backups and copies have to wait, since a record needs the repository to itself and has found it busy for
    too long."""
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


class Turns(NamedTuple):
    """The turns of a check: assignments that should read all their data, and those that only read the part that is not
    restic's.
    """

    whole: list[Assignment]
    files: list[Assignment]
    planned: list[CheckRound]
    """The rounds of all, also of assignments whose part another one reads."""


def turns_of(assignments: list[Assignment], now: datetime, since: datetime | None) -> Turns:
    """Choose which of these assignments read what in a check. One assignment reads a restic repository as a whole, with
    its copy, for all assignments whose backups go there; none does if such a check was planned at or after `since`. If
    `since` is None, one reads in any case.
    """
    turns, pairs = Turns([], [], []), dict[tuple[int, int | None], datetime]()
    if since:
        there = {each.policy.repository_id for each in assignments}
        planned = CheckRound.objects.filter(planned_at__range=(since, now), assignment__policy__repository__in=there)
        columns = ("assignment__policy__repository", "assignment__policy__copy_to")
        for repository, copy_to, at in planned.values_list(*columns).annotate(Max("planned_at")):
            pairs[repository, copy_to] = at
    ids = [each.pk for each in assignments]
    files = set(Assignment.objects.filter(HAS_FILES, pk__in=ids).values_list("pk", flat=True))
    for each in assignments:
        pair = (each.policy.repository_id, each.policy.copy_to_id)
        if each.policy.repository.format != Format.RESTIC or pair not in pairs:
            pairs[pair] = now
            turns.whole.append(each)
        elif each.pk in files:
            turns.files.append(each)
        turns.planned.append(CheckRound(assignment=each, planned_at=pairs[pair]))
    return turns


def read_for(assignment: Assignment) -> QuerySet[Assignment]:
    """The others whose backups go to the same restic repository, and to the same copy."""
    policy = assignment.policy
    ours = Assignment.objects.active().filter(policy__repository=policy.repository, policy__copy_to=policy.copy_to)
    return ours.exclude(pk=assignment.pk)


def recorded_of_others(assignment: Assignment, repository: Repository) -> dict[str, list[str]]:
    """Folder → points that a restic repository has by our rows, for the other assignments for which this
    one reads it.
    """
    if assignment.policy.repository.format != Format.RESTIC or repository.format != Format.RESTIC:
        return {}
    found, there = defaultdict[str, list[str]](list), {"repository": repository, "assignment__in": read_for(assignment)}
    for folder, place in Backup.objects.filter(**there).order_by().values_list("assignment__directory", "snapshot"):
        found[folder] += filter(None, [layout.point_of(place)])
    for folder, points in Copy.objects.filter(**there).values_list("assignment__directory", "points"):
        found[folder] += points
    return found


class Rounds(NamedTuple):
    """The rounds of a check that ends: the round of its assignment and, if it read a restic repository, `of_others`, by
    assignment, whose backups go there, too. All are locked.
    """

    own: CheckRound
    of_others: dict[int, CheckRound]
    others: Sequence[Assignment]
    repository: Repository | None

    def share(self, lost: Mapping[str, list[str]]) -> None:
        """Share the result: the data of a restic repository was read for all. Each keeps the findings about its data
        elsewhere, and its place in the round, if it reads files there itself. `lost`: folder → points of the others
        that are not there, except those that a removal has removed in the meantime.
        """
        if (repository := self.repository) is None:
            return
        own, rows, pks = self.own, self.of_others, [each.pk for each in self.others]
        alone = set(Assignment.objects.filter(HAS_FILES, pk__in=pks).values_list("pk", flat=True))
        damage = [each for each in own.damage if each["place"] == RESTIC]
        for other in self.others:
            each = rows[other.pk] = rows.get(other.pk) or CheckRound(pk=other.pk, planned_at=own.planned_at)
            gone = set(lost.get(other.directory, ()))
            gone = gone and gone.intersection(retention_decisions.to_be_there(other, repository))
            each.damage = [
                known
                for known in each.damage
                if known["place"] != RESTIC and (known.get("repository"), known["why"]) != (repository.pk, GONE)
            ]
            each.damage += [*damage, *(asdict(of_manifest(name, GONE, repository.pk)) for name in sorted(gone))]
            for name in SHARED if other.pk not in alone else ():
                setattr(each, name, getattr(own, name))
        write_rounds([rows[pk] for pk in pks], *SHARED, "damage")


def lock_rounds(assignment_id: int, repository_id: int) -> Rounds | None:
    """The rounds that the end of a check that has read a repository writes. None if its assignment is gone. Notes that
    a copy or a removal makes at the same moment must not be forgotten, and of two checks that end together none must
    wait for the other: the assignment is locked first, as everywhere before its dependent rows are written, and then
    all rounds in one order.
    """
    locked = Assignment.objects.select_for_update(no_key=True, of=("self",)).select_related("policy")
    if (assignment := locked.filter(pk=assignment_id).first()) is None:
        return None
    restic = Repository.objects.filter(pk=repository_id, format=Format.RESTIC).first()
    others = list(read_for(assignment).select_related("source", "policy__schedule").order_by("pk")) if restic else []
    rounds = CheckRound.objects.filter(assignment__in=[assignment, *others]).order_by("pk")
    rows = {each.pk: each for each in rounds.select_for_update(no_key=True)}
    own = rows.pop(assignment.pk, None)
    return Rounds(own, rows, others, restic) if own else None


def write_rounds(rows: Iterable[CheckRound], *fields: str) -> None:
    """Make them, or change these fields of those that are there, which locks them: in the order of `lock_rounds`."""
    ordered = sorted(rows, key=lambda each: each.pk)
    how: dict[str, Any] = {"update_conflicts": True, "unique_fields": ["assignment"], "update_fields": fields}
    CheckRound.objects.bulk_create(ordered, **(how if fields else {"ignore_conflicts": True}))
