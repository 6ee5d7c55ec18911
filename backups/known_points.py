"""The points of an assignment in a repository that are ours, as our database has them (`storage.points.known`)."""

from collections.abc import Collection, Iterable
from functools import partial

from django.db.models import QuerySet

from backups import holdings
from sources.models import Assignment, Format, ManifestDigest, Repository
from storage import layout
from storage.points.known import OF_A_MARK, Known


def of(assignment: Assignment, repository: Repository) -> Known:
    """Our points in a repository, with their digests: points with a row, or with a digest that was kept before the
    result of their backup was lost. A point from before digests were kept has none, and is foreign until a user
    accepts it. In a repository of restic the digests are the ids of snapshots."""
    found: dict[str, list[str]] = {each: [] for each in holdings.recorded(assignment, repository)}
    if repository.format == Format.RESTIC:
        rows = assignment.backups.filter(repository=repository).order_by().values_list("snapshot", flat=True)
        pairs = [each.partition("/")[::2] for each in rows]
    else:
        kept = ManifestDigest.objects.filter(assignment=assignment, repository=repository)
        pairs = list(kept.values_list("point", "sha256"))
    for point, digest in pairs:
        if digest:
            found.setdefault(point, []).append(digest)
    return found


def of_folder(folder: str, repository: Repository) -> Known:
    """Our points of the assignment with that folder; none if no such assignment exists."""
    assignment = Assignment.objects.filter(directory=folder).first()
    return of(assignment, repository) if assignment else {}


def keep(assignment_id: int, repository_id: int, point: str, digest: str, *, accepted: bool = False) -> None:
    """Store a digest, next to those that the point has. `accepted`: a user has accepted it, here or in the repository
    from which it was copied, where its manifest may differ."""
    same = ManifestDigest.objects.filter(assignment=assignment_id, point=point, accepted=True)
    row = ManifestDigest(assignment_id=assignment_id, repository_id=repository_id, point=point, sha256=digest)
    row.accepted = accepted or same.exists()
    ManifestDigest.objects.bulk_create([row], ignore_conflicts=True)


def are_chained(assignment: Assignment, repository: Repository, stay: Iterable[str] = ()) -> bool:
    """True if each of the points that `stay` there took over from the one before it. A point that a user has accepted
    may have come between. So may those of another repository, in a copy whose policy was given that one and then the
    first one again: the points of each repository take over from its own. A point without a row may be of any.
    """
    if ManifestDigest.objects.filter(assignment=assignment, repository=repository, accepted=True).exists():
        return False
    rows = assignment.backups.order_by().values_list("snapshot", "repository")
    made_in = {layout.point_of(place): home for place, home in rows}
    homes = {made_in.get(each) for each in stay}
    return None not in homes and len(homes) <= 1


def keeping(assignment: Assignment, repository: Repository) -> partial[None]:
    """`keep`, for an order that works there."""
    return partial(keep, assignment.pk, repository.pk)


def replace(assignment_id: int, repository_id: int, digests: dict[str, str], *, accepted: bool = False) -> None:
    """Keep these digests, by point, and no others of their points: their manifests are written."""
    for point, digest in digests.items():
        keep(assignment_id, repository_id, point, digest, accepted=accepted)
        _of_points(assignment_id, repository_id, [point]).exclude(sha256=digest).delete()


def forget(assignment_id: int, repository_id: int, points: Collection[str]) -> None:
    """Forget the digests of points that are gone."""
    _of_points(assignment_id, repository_id, points).delete()


def give_up(assignment: Assignment, repository: Repository, there: Collection[str]) -> None:
    """Delete names that have only a digest, if all points that are `there` were listed: their runs were killed before
    they wrote a manifest. A removal leaves unknown points alone, so such names postpone its sweeps.

    A name later than the newest point may be that of a run under way. Another one that appears all the same, from a
    frozen process, is foreign: a run that was overtaken makes no point.
    """
    names = ManifestDigest.objects.filter(assignment=assignment, repository=repository, accepted=False)
    alone = set(names.values_list("point", flat=True)).difference(there, holdings.recorded(assignment, repository))
    newest = layout.by_time(there)[-1:]
    never = [each for each in layout.by_time(alone) if newest and layout.is_later(newest[0], each)]
    forget(assignment.pk, repository.pk, never)


def forget_marks(assignment_id: int, repository_id: int) -> None:
    """Forget the marks of runs before a point that is made: no later run takes over the data that they left."""
    kept = ManifestDigest.objects.filter(assignment=assignment_id, repository=repository_id)
    kept.filter(point__endswith=OF_A_MARK).delete()


def _of_points(assignment_id: int, repository_id: int, points: Collection[str]) -> QuerySet[ManifestDigest]:
    kept = ManifestDigest.objects.filter(assignment=assignment_id, repository=repository_id)
    return kept.filter(point__in=points)
