"""Assignments: a source under a policy, with what the next decision about it knows."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Field, Schema
from pydantic import BaseModel

from api import history
from api.assignment_schemas import MovedAnswer
from api.auth import Staff, operating, user_of, viewing
from api.errors import ApiError
from api.fields import RowId
from api.models import Scope
from api.resources import Resource
from declarations.service import Service
from declarations.types import STRICT, JsonObject
from jobs import states
from jobs.models import BacklogRecord
from jobs.states import WaitingFor
from sources import edits, held_back, planning, repository_edits
from sources.backups import check, copies, deciding
from sources.domain.status import Status
from sources.models import Assignment, Copy, Policy, Source
from sources.restores import drills
from sources.status import with_assignment_status


class AssignmentBody(BaseModel):
    """Which source is to be backed up by which policy."""

    model_config = STRICT

    source: RowId
    policy: RowId


class RecordOfAssignment(Schema):
    """Its unfinished record on the backlog. `GET /api/records/{record_id}` tells why it does not run now."""

    id: int
    status: Literal["waiting", "ready", "running"]
    queue: str
    waiting_for: str | None = Field(description="What a waiting one waits for")
    run_after: datetime
    closes_at: datetime | None
    failures: int


class DamageAnswer(Schema):
    """A file of a point that is not what its manifest says, and why. `place`: where it lies in its folder;
    `repository`: the id of the one that holds it."""

    point: str
    path: str
    place: str
    why: str
    repository: int | None = None


class CopyAnswer(Schema):
    """A second repository (its id) with points of it, and when it last had all of them. `error`: why the last run
    failed, or what is wrong with what it copied."""

    repository: int
    copied_at: datetime | None
    points: list[str]
    error: str


class AssignmentAnswer(Schema):
    """A source under a policy. Instants, durations and numbers are of its last success, but for the failures since."""

    id: int
    source: int
    source_name: str
    policy: int
    policy_name: str
    status: Status
    next_backup_at: datetime | None = Field(description="Null: never backed up, so it is due")
    last_backup_at: datetime | None
    last_backup_for: float | None = Field(description="Seconds")
    last_backup_size: int | None = Field(description="Bytes")
    last_contacted_at: datetime | None
    overdue_since: datetime | None
    failures: int = Field(description="Consecutive, since the last success")
    first_failure_at: datetime | None
    skips: int
    vanished_at: datetime | None
    held_back_since: datetime | None = Field(description="Since when nothing of it is removed: a backup looked wrong")
    held_back_why: str
    proved_at: datetime | None = Field(description="When a drill last proved that it can be restored")
    proved_point: str = Field(description="Of which point")
    drill_error: str = Field(description="Why the last drill proved nothing; empty: it did")
    drill_facts: JsonObject = Field(description="What the last drill restored: files, size, rows of tables")
    directory: str = Field(description="Where in the repository its backups lie")
    checked_at: datetime | None = Field(description="When it was last read in its repository, and compared")
    checked_whole_at: datetime | None = Field(description="When all of it had been read for the last time")
    damage: list[DamageAnswer] = Field(description="What was not as its manifest says")
    to_copy_since: datetime | None = Field(description="Since when a point of it is not in its copy; null: all are")
    copies: list[CopyAnswer]
    inserted_at: datetime
    record: RecordOfAssignment | None


class AssignmentFilters(Schema):
    """Which assignments."""

    source: Annotated[int, Field(ge=1)] | None = None
    policy: Annotated[int, Field(ge=1)] | None = None
    status: Status | None = None
    held_back: bool | None = None


class AssignmentEdits(Service[Assignment]):
    """An assignment is made and deleted; its source and policy are named by their ids."""

    model, declaration = Assignment, AssignmentBody

    def values(self, row: Assignment) -> dict[str, Any]:
        return {"source": row.source_id, "policy": row.policy_id}

    def fill(self, row: Assignment, sent: dict[str, Any]) -> None:
        missing: dict[str, str] = {}
        for name, model in (("source", Source), ("policy", Policy)):
            if (found := model.objects.filter(pk=sent[name]).first()) is None:
                missing[name] = "names what is not there"
            else:
                setattr(row, name, found)
        if not missing and Assignment.objects.filter(source=row.source, policy=row.policy).exists():
            missing["policy"] = "the source is under this policy already"
        if missing:
            raise ValidationError(dict(missing))

    def write(self, row: Assignment, changed: set[str] | None) -> list[str]:
        row.save()
        edits.emit_after_commit([row.pk])
        return []

    def uses(self, row: Assignment) -> list[str]:
        return repository_edits.backups_of(row.backups.all())


class Assignments(Resource[Assignment]):
    service, tag = AssignmentEdits, "assignments"
    answer, filters = AssignmentAnswer, AssignmentFilters
    changes = False
    orderings = ("id", "next_backup_at", "last_backup_at", "failures", "source__name")
    moving = tuple(sorted(set(AssignmentAnswer.model_fields) - {"id", "source", "policy"}))

    def rows(self) -> QuerySet[Any]:
        return with_assignment_status(
            Assignment.objects.select_related("source", "policy__schedule", "check_round").prefetch_related("copies"),
            timezone.now(),
        )

    def filtered(self, rows: QuerySet[Any], asked: dict[str, Any]) -> QuerySet[Any]:
        held = asked.pop("held_back", None)
        if held is not None:
            rows = rows.filter(held_back_since__isnull=not held)
        return rows.filter(**asked)

    def facts(self, rows: Sequence[Assignment]) -> list[dict[str, Any]]:
        records = _unfinished_records(rows)
        return [
            self.own_facts(row)
            | {
                "source_name": row.source.name,
                "policy_name": row.policy.schedule.name,
                "record": records.get(planning.subject_of(row.pk)),
            }
            | _check_of(row)
            | {"copies": [_copy(each) for each in row.copies.all()]}
            for row in rows
        ]


def _check_of(row: Assignment) -> dict[str, Any]:
    found = getattr(row, "check_round", None)
    names = {"checked_at": "checked_at", "checked_whole_at": "ended_at", "damage": "damage"}
    return {name: getattr(found, column, [] if name == "damage" else None) for name, column in names.items()}


def _copy(row: Copy) -> dict[str, Any]:
    return {"repository": row.repository_id} | {name: getattr(row, name) for name in ("copied_at", "points", "error")}


def _unfinished_records(assignments: Sequence[Assignment]) -> dict[str, dict[str, Any]]:
    """By subject: at most one each, found by the index of that promise."""
    subjects = [planning.subject_of(assignment.pk) for assignment in assignments]
    found = BacklogRecord.objects.unfinished().filter(kind=planning.KIND, subject__in=subjects)
    return {
        record.subject: {
            "id": record.pk,
            "status": states.Status(record.status).name.lower(),
            "queue": record.queue,
            "waiting_for": None if record.waiting_for is None else WaitingFor(record.waiting_for).label,
            "run_after": record.run_after,
            "closes_at": record.closes_at,
            "failures": record.failures,
        }
        for record in found
    }


assignments = Assignments()
router = assignments.router()


@assignments.verb(
    router, "back-up-now", Staff(Scope.OPERATE, "sources.change_source"), "Back up now",
    answer=MovedAnswer, named="back_up_assignment_now", has=["conflict"],
)  # fmt: skip
def back_up_now(request: HttpRequest, assignment_id: int) -> dict[str, int]:
    """Out of its period and window; a snooze of its source is over. `moved` is 0 while it is copied already."""
    assignment = assignments.get(assignment_id)
    if assignment.source.retired:
        raise ApiError(409, "its source is retired", 'first PATCH the source with {"retired": false}')
    if assignment.source.paused_at is not None:
        raise ApiError(409, "its source is paused", f"resume it first: POST /api/sources/{assignment.source_id}/resume")
    if not assignment.policy.schedule.enabled:
        raise ApiError(409, "its policy is disabled", "enable the policy first")
    moved = planning.back_up_now([assignment], asked_by=user_of(request).get_username())
    history.noted(request, assignment, "Back up now")
    return {"moved": moved}


class PointAnswer(Schema):
    """A point in time. `because`: the rules that keep it; empty: it goes."""

    point: str
    at: datetime
    stays: bool
    because: list[str]


class RetentionAnswer(Schema):
    """What becomes of the points of an assignment, the newest first. `held_back`: why none of them goes for now."""

    source: str
    policy: str
    held_back: str
    points: list[PointAnswer]


@router.get(
    f"{assignments.one_path}/retention",
    auth=viewing("sources.assignment"),
    response=RetentionAnswer,
    operation_id="preview_retention",
    summary="Which of its points stay, why, and which go",
)
def preview_retention(request: HttpRequest, assignment_id: int) -> dict[str, Any]:
    """By its policy as it is saved. What goes is removed after its next backup."""
    return deciding.facts_of(assignments.get(assignment_id))


@assignments.verb(router, "drill", operating(), "Drill now", answer=MovedAnswer, has=["conflict"])
def drill(request: HttpRequest, assignment_id: int) -> dict[str, int]:
    """Restore its newest point into scratch space and compare, whatever its window."""
    return _asked(request, assignment_id, "drill", "drilled", drills.drill_now)


@assignments.verb(router, "check", operating(), "Check now", answer=MovedAnswer, has=["conflict"])
def check_now(request: HttpRequest, assignment_id: int) -> dict[str, int]:
    """Read all that its round has left, then its other repositories, and compare that with the manifests, whatever
    its window."""
    return _asked(request, assignment_id, "check", "checked", check.check_now)


@assignments.verb(router, "copy", operating(), "Copy now", answer=MovedAnswer, has=["conflict"])
def copy(request: HttpRequest, assignment_id: int) -> dict[str, int]:
    """Bring what is not there yet into the second repository of its policy, whatever the window of copies."""
    return _asked(request, assignment_id, "copy", "copied", copies.copy_now)


def _asked(request: HttpRequest, assignment_id: int, verb: str, done: str, do: Callable[..., int]) -> dict[str, int]:
    assignment = assignments.get(assignment_id)
    if not (moved := do([assignment_id], by=user_of(request).get_username())):
        raise ApiError(409, f"there is nothing to {verb}, or it is {done} already", "see its policy, and its records")
    history.noted(request, assignment, f"{verb.capitalize()} now")
    return {"moved": moved}


@assignments.verb(router, "accept", operating(), "Its backup is meant so", has=["conflict"])
def accept(request: HttpRequest, assignment_id: int) -> HttpResponse:
    """A person has looked at a backup that looked wrong: what is kept is removed again as its policy says."""
    assignment = assignments.get(assignment_id)
    if not held_back.accept([assignment_id], by=user_of(request).get_username()):
        raise ApiError(409, "nothing of it is held back", "there is nothing to do")
    history.noted(request, assignment, "Accepted its backup")
    return assignments.respond(assignments.get(assignment_id))
