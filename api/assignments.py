"""Assignments: a source under a policy, with the facts for the next decision about it."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from django.core.exceptions import ValidationError
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from ninja import Field, Schema
from pydantic import BaseModel

from api.auth import Staff, name_of, operating, viewing
from api.declared_resources import DeclaredResource
from api.errors import ApiError
from api.fields import MovedAnswer, RowAnswer, RowId
from api.models import Scope
from backups.restores import drills
from backups.upkeep import checks, copies, retention_decisions
from declarations.service import Service
from declarations.types import STRICT, JsonObject
from fleet import repository_edits, source_edits
from fleet.past_backups import is_small
from fleet.status import assignments_in, with_assignment_status
from jobs.models import BacklogRecord
from operations.backlog.facts import record_facts
from sources import planning
from sources.domain.status import ProtectionStatus
from sources.models import Assignment, Copy, Policy, Source
from sources.planning import held_back


class AssignmentBody(BaseModel):
    """The source to back up, and the policy to use."""

    model_config = STRICT

    source: RowId
    policy: RowId


class RecordOfAssignment(RowAnswer, of=BacklogRecord, names="id queue run_after closes_at failures"):
    """Its unfinished record on the backlog. `GET /api/records/{record_id}` has the reasons why it does not run now."""

    status: Literal["waiting", "ready", "running"]
    waiting_for: str | None = Field(description="What its record waits for")


class DamageAnswer(Schema):
    """A file that differs from its manifest, and why. `point`: the newest that holds it, `oldest`: the oldest;
    `place`: where it is stored below `files`; `repository`: the id of the one that holds it."""

    point: str
    path: str
    place: str
    why: str
    repository: int | None = None
    oldest: str = ""


class CopyAnswer(RowAnswer, of=Copy, names="repository copied_at error"):
    """A second repository (its id) with points of the assignment, and when it last had all of them. `error`: why the
    last run failed, or the problem with the copied data.
    """

    points: list[str]
    incomplete: dict[str, list[str]] = Field(description="Points that lack files which a server refused: the warnings")


class AssignmentAnswer(
    RowAnswer,
    of=Assignment,
    names="id source policy last_backup_at last_contacted_at overdue_since first_failure_at skips losses "
    "vanished_at held_back_why inserted_at",
):
    """A source under a policy. Instants, durations and numbers are of its last success, but for the failures since."""

    source_name: str
    policy_name: str
    status: ProtectionStatus
    next_backup_at: datetime | None = Field(description="Null: never backed up, so it is due")
    last_backup_for: float | None = Field(description="Seconds")
    last_backup_size: int | None = Field(description="Bytes")
    failures: int = Field(description="Consecutive, since the last success")
    held_back_since: datetime | None = Field(description="Since when its points are kept because a backup looked wrong")
    proved_at: datetime | None = Field(description="When a drill last proved that it can be restored")
    proved_point: str = Field(description="The point that was restored")
    drill_error: str = Field(description="Why the last drill proved nothing; empty if it did")
    drill_facts: JsonObject = Field(description="Files, size and rows of tables that the last drill restored")
    directory: str = Field(description="The folder of the repository that holds its backups")
    checked_at: datetime | None = Field(description="When it was last read in its repository, and compared")
    checked_whole_at: datetime | None = Field(description="When everything in it was last read")
    damage: list[DamageAnswer] = Field(description="Files that differ from the manifest")
    to_copy_since: datetime | None = Field(
        description="Since when its copy lacks one of its points; null if it has all"
    )
    copies: list[CopyAnswer]
    record: RecordOfAssignment | None


class AssignmentEdits(Service[Assignment]):
    """An assignment is made and deleted; its source and policy are named by their ids."""

    model, declaration = Assignment, AssignmentBody

    def values(self, row: Assignment) -> dict[str, Any]:
        return {"source": row.source_id, "policy": row.policy_id}

    def fill(self, row: Assignment, sent: dict[str, Any]) -> None:
        missing: dict[str, str] = {}
        for name, model in (("source", Source), ("policy", Policy)):
            if (found := model.objects.filter(pk=sent[name]).first()) is None:
                missing[name] = "names an unknown source or policy"
            else:
                setattr(row, name, found)
        if not missing and Assignment.objects.filter(source=row.source, policy=row.policy).exists():
            missing["policy"] = "the source is under this policy already"
        if missing:
            raise ValidationError(dict(missing))

    def write(self, row: Assignment, changed: set[str] | None) -> list[str]:
        row.save()
        source_edits.emit_after_commit([row.pk])
        return []

    def uses(self, row: Assignment) -> list[str]:
        over = f"or its source: DELETE /api/sources/{row.source_id} with `backups`"
        then = f"delete it on its page in the admin, which names what stays in its repository, {over}"
        return repository_edits.points_of(row.backups.all(), row.copies.all(), then)


class Assignments(DeclaredResource[Assignment]):
    service, tag, answer = AssignmentEdits, "assignments", AssignmentAnswer
    changes = False
    filters = {"source": RowId, "policy": RowId, "status": ProtectionStatus, "held_back": bool}
    lookups = {"held_back": lambda held: Q(held_back_since__isnull=not held)}
    computed = {
        "source_name": "source.name", "policy_name": "policy.schedule.name",
        "copies": lambda row: [_copy(each) for each in row.copies.all()],
    }  # fmt: skip
    orderings = ("id", "next_backup_at", "last_backup_at", "failures", "source__name")

    def rows(self) -> QuerySet[Any]:
        return with_assignment_status(
            Assignment.objects.select_related("source", "policy__schedule", "check_round").prefetch_related("copies"),
            timezone.now(),
        )

    def filtered(self, rows: QuerySet[Any], asked: Mapping[str, Any]) -> QuerySet[Any]:
        """The status is found for all at once, unless a source or a policy has been named that has few."""
        if "status" not in asked or "source" in asked or is_small(asked.get("policy")):
            return super().filtered(rows, asked)
        others = {name: value for name, value in asked.items() if name != "status"}
        plain = Assignment.objects.order_by()  # without the tables of a status that is known
        return super().filtered(plain, others).filter(assignments_in({asked["status"]}, timezone.now()))

    def facts(self, rows: Sequence[Assignment]) -> list[dict[str, Any]]:
        records = _unfinished_records(rows)
        return [
            self.own_facts(row) | _check_of(row) | {"record": records.get(planning.subject_of(row.pk))} for row in rows
        ]


def _check_of(row: Assignment) -> dict[str, Any]:
    found = getattr(row, "check_round", None)
    names = {"checked_at": "checked_at", "checked_whole_at": "ended_at", "damage": "damage"}
    return {name: getattr(found, column, [] if name == "damage" else None) for name, column in names.items()}


def _copy(row: Copy) -> dict[str, Any]:
    return {"repository": row.repository_id} | {
        name: getattr(row, name) for name in ("copied_at", "points", "error", "incomplete")
    }


def _unfinished_records(assignments: Sequence[Assignment]) -> dict[str, dict[str, Any]]:
    """Subject → its unfinished record, at most one each, found by the index that guarantees this."""
    subjects = [planning.subject_of(assignment.pk) for assignment in assignments]
    found = BacklogRecord.objects.unfinished().filter(kind=planning.KIND, subject__in=subjects)
    return {
        facts["subject"]: {name: facts[name] for name in RecordOfAssignment.model_fields}
        for facts in record_facts(found)
    }


resource = Assignments()
router = resource.router


@resource.verb(
    "back-up-now", Staff(Scope.OPERATE, "sources.change_source"), "Back up now", answer=MovedAnswer,
    named="back up assignment now", has=["conflict"], noted="Back up now",
)  # fmt: skip
def back_up_now(request: HttpRequest, assignment: Assignment) -> dict[str, int]:
    """Regardless of its period and window. `moved` is 0 if it is being copied already."""
    if assignment.source.retired:
        raise ApiError(409, "its source is retired", 'first PATCH the source with {"retired": false}')
    if assignment.source.paused_at is not None:
        raise ApiError(409, "its source is paused", f"resume it first: POST /api/sources/{assignment.source_id}/resume")
    if not assignment.policy.schedule.enabled:
        raise ApiError(409, "its policy is disabled", "enable the policy first")
    return {"moved": planning.back_up_now([assignment], asked_by=name_of(request))}


class PointAnswer(Schema):
    """A point in time. `because`: the rules that keep it; empty if it will be removed."""

    point: str
    at: datetime
    stays: bool
    because: list[str]


class RetentionAnswer(Schema):
    """The fate of the points of an assignment, the newest first. `held_back`: why none is removed for now."""

    source: str
    policy: str
    held_back: str
    points: list[PointAnswer]


@resource.verb(
    "retention", viewing("sources.assignment"), "The points that are kept, why, and those that are removed",
    answer=RetentionAnswer, named="preview retention", method="get",
)  # fmt: skip
def preview_retention(request: HttpRequest, assignment: Assignment) -> dict[str, Any]:
    """The fate of its points by its saved policy. Points are removed after the next backup."""
    return retention_decisions.facts_of(assignment)


@resource.verb("drill", operating(), "Drill now", answer=MovedAnswer, has=["conflict"], noted="Drill now")
def drill(request: HttpRequest, assignment: Assignment) -> dict[str, int]:
    """Restore its newest point into scratch space and compare, outside of its window as well."""
    return _moved(request, assignment, drills.drill_now, "there is nothing to drill, or it is drilled already")


@resource.verb("check", operating(), "Check now", answer=MovedAnswer, has=["conflict"], noted="Check now")
def check_now(request: HttpRequest, assignment: Assignment) -> dict[str, int]:
    """Read the rest of its round, then its other repositories, and compare that with the manifests, outside of its
    window as well."""
    return _moved(request, assignment, checks.check_now, "there is nothing to check, or it is checked already")


@resource.verb("copy", operating(), "Copy now", answer=MovedAnswer, has=["conflict"], noted="Copy now")
def copy(request: HttpRequest, assignment: Assignment) -> dict[str, int]:
    """Bring the missing points into the second repository of its policy, outside of the window of copies as well."""
    return _moved(request, assignment, copies.copy_now, "there is nothing to copy, or it is copied already")


def _moved(request: HttpRequest, assignment: Assignment, do: Callable[..., int], otherwise: str) -> dict[str, int]:
    if moved := do([assignment.pk], by=name_of(request)):
        return {"moved": moved}
    raise ApiError(409, otherwise, "see its policy, and its records")


@resource.verb(
    "accept", operating(), "Accept its backup, which looked wrong", has=["conflict"], noted="Accepted its backup"
)
def accept(request: HttpRequest, assignment: Assignment) -> None:
    """Confirms that a user has looked at a backup that looked wrong: removal by the policy resumes."""
    if not held_back.accept([assignment.pk], by=name_of(request)):
        raise ApiError(409, "it is not held back", "there is nothing to do")
