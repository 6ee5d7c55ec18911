"""Restores that users ask for: checked, stored, and put on the backlog as records of the kind `restore`."""

from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db.models.functions import Now

from backups import holdings
from backups.restores import process
from declarations.problems import validated
from declarations.service import Service
from declarations.unknown import no_such
from engines.kinds import RULES
from engines.restores.pg import leftover
from external.processes.programs import ProgramMissing
from jobs import backlog, decisions
from jobs.clock import database_clock
from jobs.models import BacklogRecord
from jobs.states import Status
from sealing.lookup import problem_with_stored
from sources.declarations import reach, resources
from sources.models import Assignment, Repository, Restore, RestoreOutcome, Source, To
from sources.models.source import ON_THIS_HOST, SourceKind
from sources.planning import names
from storage import layout
from storage.points.known import FOREIGN
from storage.points.store import StorageFailed
from storage.points.trees import NotThere
from storage.restoring import moments

KIND, QUEUE = names.RESTORE, names.RESTORES
NONE_THERE = (
    "none of the {} points that repository {} has according to our records is in {}: was it moved, or is another disk "
    "mounted there?"
)
ACCOUNT = ("user", "secret")
ALLOWED = ("overwrite", "foreign", "dry_run", "trusted", "roles_with_rights")
"""The terms of one restore that a user may agree to."""
MAY_RESTORE = "sources.restore_source"


class NotHeldThere(ValueError):
    """A repository that has nothing of an assignment, or a name that no repository has. The message is for users."""


class Restores(Service[Restore]):
    """A restore is requested, and then runs; it is not edited."""

    model, declaration = Restore, resources.RestoreDeclaration
    place = ""
    """The place on this host to which the row that was checked last is restored, as `place_of` returns it."""

    def values(self, row: Restore) -> dict[str, Any]:
        return {
            "source": row.assignment.source.name, "policy": row.assignment.policy.schedule.name, "at": row.point,
            "repository": row.repository and row.repository.name, "paths": row.paths, "to": row.to,
            "target": row.target, **{name: getattr(row, name) for name in (*ACCOUNT, *ALLOWED)},
        }  # fmt: skip

    def ids(self, row: Restore) -> dict[str, int | None]:
        ids = {"source": row.assignment.source_id, "policy": row.assignment.policy_id}
        return ids | {"repository": row.repository_id}

    def fill(self, row: Restore, sent: dict[str, Any]) -> set[str] | None:
        wish = dict(validated(self.declaration, sent))
        try:
            row.assignment = assignment_of(self._source(wish["source"]), wish["policy"])
        except ValueError as error:
            raise ValidationError({"source": str(error)}) from None
        for name in ("paths", "to", "target", *ACCOUNT, *ALLOWED):
            setattr(row, name, wish[name])
        self.place = self.place_of(row)
        self._check_account(row)
        row.asked_at, row.asked_by = database_clock(), self.by
        try:
            how = {"only": wish["repository"], "foreign": wish["foreign"]}
            row.point, points = choose(row.assignment, wish["at"], row.asked_at, **how)
            row.repository = points[row.point]
        except NotHeldThere as error:
            raise ValidationError({"repository": str(error)}) from None
        except ValueError as error:
            raise ValidationError({"at": str(error)}) from None
        except (StorageFailed, ProgramMissing) as error:
            raise ValidationError({"at": str(error)}) from None
        return None

    def write(self, row: Restore, changed: set[str] | None) -> list[str]:
        row.save()
        title = f"{'(dry run) ' if row.dry_run else ''}{row} to {describe_target(row)}"
        facts = {"restore": row.pk, "source": row.assignment.source_id, "title": title, "place": self.place}
        backlog.enqueue(KIND, [(str(row.pk), facts)], now=row.asked_at)
        record = BacklogRecord.objects.filter(kind=KIND, subject=str(row.pk)).values_list("pk", flat=True)
        row.record_id = record.first()
        row.save(update_fields=["record_id"])
        line = decisions.DecisionLine("asked for", f"{row.asked_by} asked to restore {title}", KIND, str(row.pk))
        decisions.log_all([line], row.asked_at)
        return []

    def _source(self, name: str) -> Source:
        source = Source.objects.filter(name=name).first()
        if source is None:
            raise ValueError(
                no_such("source", name, list(Source.objects.order_by("name").values_list("name", flat=True)))
            )
        return source

    def _check_account(self, row: Restore) -> None:
        """Raises: ValidationError for another account of the server if this one may not name any, or if the source has
        none.
        """
        if not row.user:
            return
        if "user" not in {each.name for each in RULES[row.assignment.source.kind].options}:
            raise ValidationError({"user": f"{row.assignment.source.name} has no accounts"})
        if self.account and not self.account.has_perm(reach.SET_SECRET):
            text = "your account may not set where passwords are found; ask an administrator"
            raise ValidationError({"secret": text})
        if problem := problem_with_stored(row.secret):
            raise ValidationError({"secret": problem})

    def place_of(self, row: Restore) -> str:
        """The place of a restore on this host, as links lead now: the folder; for a source its path; for a new database
        file the folder that gets it. Empty if it is not on this host. Raises: ValidationError for a place that this
        account, or any restore, may not write to.
        """
        source = row.assignment.source
        is_database = RULES[source.kind].is_database
        if (row.to == To.DATABASE) is not is_database and row.to != To.FOLDER:
            what = "a new database at the source" if is_database else "its own path"
            raise ValidationError({"to": f"{source.name} is restored to a folder, or to {what}"})
        if row.to == To.SOURCE and source.kind == SourceKind.IMAP:
            raise ValidationError({"to": f"{source.name} is a mailbox, which is restored to a folder, as Maildirs"})
        if row.to == To.DATABASE and "/" in row.target:
            raise ValidationError({"target": "must be the name of a new database, or of a file next to the source's"})
        folder = row.target if row.to == To.FOLDER else source.path if source.kind in ON_THIS_HOST else ""
        if not folder:
            return ""
        within = Path(folder).parent if row.to == To.DATABASE else Path(folder)
        place, below = within.resolve(), "" if row.to == To.FOLDER else row.target
        folder = str(within / below)
        for form in (Path(folder), place / below):
            ours = [
                settings.VAR_DIR,
                *(Path(each) for each in Repository.objects.filter(remote={}).values_list("location", flat=True)),
            ]
            if inside := next((each for each in ours if form.is_relative_to(each)), None):
                raise ValidationError(
                    {"target": f"{folder} is in {inside}, which holds backups or data of the scheduler"}
                )
        if self.account:
            # back to where it came from; a folder for restores is not a place that sources read from
            roots = settings.RESTORE_FOLDERS if row.to == To.FOLDER else settings.FOLDERS
            reach.check_folder(self.account, "target", folder, roots, place / below)
        return str(place)


def end_cancelled() -> int:
    """Each minute: end the restores whose record was cancelled while it waited, since no settle does. Returns their
    number.
    """
    records = BacklogRecord.objects.filter(kind=KIND, status=Status.CANCELLED)
    waiting = Restore.objects.filter(ended_at=None, record_id__in=records.values("pk"))
    return waiting.update(
        outcome=RestoreOutcome.CANCELLED, ended_at=Now(), error="cancelled while it waited", secret=""
    )


def prune(before: datetime) -> int:
    """Delete restores that ended before that instant, as their records are. Returns how many."""
    leftover.prune(Path(settings.VAR_DIR), before)
    return Restore.objects.filter(ended_at__lt=before).delete()[0]


def assignment_of(source: Source, policy_name: str | None) -> Assignment:
    """The assignment of a source that has backups. Raises: ValueError when there is none, or several."""
    rows = Assignment.objects.select_related("source", "policy__schedule", "policy__repository")
    rows = rows.filter(source=source).exclude(directory="").order_by("pk")
    names = [each.policy.schedule.name for each in rows]
    if not names:
        raise ValueError(f"{source.name} has not been backed up yet: there is nothing to restore")
    if policy_name is None and len(names) > 1:
        raise ValueError(f"{source.name} is backed up under several policies; name one: {', '.join(names)}")
    for each in rows:
        if policy_name in (None, each.policy.schedule.name):
            return each
    raise ValueError(
        f"{source.name} has no backups under a policy {policy_name!r}; it has some under {', '.join(names)}"
    )


def points_of(assignment: Assignment, only: str | None = None, foreign: str | None = None) -> dict[str, Repository]:
    """Its points, the oldest first, each with the repository that holds it: that of its policy, an earlier one, or a
    copy. `only`: the name of the repository to ask; `foreign`: the name of a foreign point that is included.

    If a repository does not answer, its points are taken from the database, unless another one has them, so that no
    older point is chosen in their place. Raises: StorageFailed when none answers; NotHeldThere if the repository
    `only` has no points of the assignment.
    """
    found: dict[str, Repository] = {}
    lost: dict[str, Repository] = {}
    failed: list[StorageFailed] = []
    homes = [each for each in holdings.homes(assignment) if only in (None, each.name)]
    if not homes:
        raise NotHeldThere(_why_not_there(assignment, only or ""))
    for repository in homes:
        try:
            ours, others = process.points_and_foreign(repository, assignment.directory)
            recorded = holdings.recorded(assignment, repository)
            if recorded and not ours:
                raise StorageFailed(NONE_THERE.format(len(recorded), repository, repository.location))
            found = dict.fromkeys([*ours, *(each for each in others if each == foreign)], repository) | found
        except StorageFailed as error:
            failed.append(error)
            lost = dict.fromkeys(holdings.recorded(assignment, repository), repository) | lost
    if len(failed) == len(homes):
        raise failed[0]
    found = lost | found
    return {each: found[each] for each in sorted(found, key=layout.order_of)}


def _why_not_there(assignment: Assignment, name: str) -> str:
    """The reason as text: no repository has that name, or its points of the source belong to another policy."""
    known = list(Repository.objects.order_by("name").values_list("name", flat=True))
    if name not in known:
        return no_such("repository", name, known)
    others = assignment.source.assignments.exclude(pk=assignment.pk).select_related("policy__schedule").order_by("pk")
    there = [
        str(each.policy)
        for each in others
        if name in {home.name for home in (*holdings.holding(each), *holdings.with_copies(each))}
    ]
    what = f"{assignment.source} under {assignment.policy}"
    text = f"repository {name!r} holds neither backups of {what} nor copies of them"
    return f"{text}; it has some under {', '.join(there)}: name that policy" if there else text


def choose(
    assignment: Assignment, at: str | None, now: datetime, only: str | None = None, *, foreign: bool = False
) -> tuple[str, dict[str, Repository]]:
    """The point that `at` means, and all points, as `points_of` returns them; a `foreign` one by its very name. If
    `only` does not answer, or lacks the point of that name, the error names the other repositories that have it.
    Raises: ValueError, StorageFailed.
    """
    zone = assignment.policy.schedule.period.tzinfo
    try:
        points = points_of(assignment, only, at if foreign else None)
        return moments.choose(list(points), at, now, zone, _times_of(assignment) if at else {}), points
    except (StorageFailed, NotThere) as error:
        if isinstance(error, NotThere) and at in points_of(assignment, only, at):
            raise ValueError(f"point {at} is foreign: {FOREIGN}. {process.CONFIRM}") from None
        asked = next((each for each in holdings.homes(assignment) if each.name == only), None)
        if asked is None:
            raise
        point = at or ""
        with suppress(ValueError):  # the lack of an answer is the error to report
            point = moments.choose(sorted(holdings.recorded(assignment, asked), key=layout.order_of), at, now, zone)
        sentence = process.way_out(asked, assignment.directory, point)
        raise type(error)(process.added(str(error), sentence)) from error


def _times_of(assignment: Assignment) -> dict[str, datetime]:
    rows = assignment.backups.order_by().values_list("snapshot", "started_at")
    return {name: started_at for place, started_at in rows if (name := layout.point_of(place))}


def describe_target(row: Restore) -> str:
    """The target as text."""
    if row.to == To.SOURCE:
        return f"the source, into {row.target}" if row.target else "the source, in place"
    return f"the new database {row.target}" if row.to == To.DATABASE else row.target
