"""Restores: asked for here, run by workers."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

from django.db.models import QuerySet
from ninja import Field, Schema

from api.auth import Staff, viewing
from api.models import Scope
from api.resources import Resource
from sources import declarations
from sources.models import Restore, RestoreOutcome
from sources.restores.asking import MAY_RESTORE, Restores

Id = Annotated[int, Field(ge=1)]


class RestoreAnswer(declarations.Restore):
    """A restore, and what came of it."""

    id: int
    assignment: int
    at: str = Field(description="The point, by its name")
    asked_by: str
    asked_at: datetime
    record_id: int | None = Field(description="The backlog record it runs as: to look at, or to cancel")
    ended_at: datetime | None
    outcome: str = Field(description=f"{', '.join(RestoreOutcome.values)}; empty: it is not over")
    error: str
    files: int | None = Field(description="That were restored")
    size: int | None = Field(description="Bytes")
    present: int | None = Field(description="Files that were there already, as in the backup")
    not_set: list[str] = Field(description="Modes, times and links that could not be set: the first 100")
    failed: list[str] = Field(description="Files that were not restored, and why: the first 100")


class RestoreFilters(Schema):
    """Which restores."""

    assignment: Id | None = None
    source: Id | None = None
    outcome: Annotated[str, Field(max_length=12)] | None = None


class RestoresOfTheApi(Resource[Restore]):
    service, tag = Restores, "restores"
    answer, filters = RestoreAnswer, RestoreFilters
    changes = deletes = False
    orderings = ("id", "asked_at")
    usual_ordering = "-asked_at"
    moving = tuple(sorted(set(RestoreAnswer.model_fields) - {"id", "assignment"}))

    def rows(self) -> QuerySet[Any]:
        return Restore.objects.order_by().select_related("assignment__source", "assignment__policy__schedule")

    def filtered(self, rows: QuerySet[Any], asked: dict[str, Any]) -> QuerySet[Any]:
        columns = {"source": "assignment__source"}
        return rows.filter(**{columns.get(name, name): value for name, value in asked.items()})

    def facts(self, rows: Sequence[Restore]) -> list[dict[str, Any]]:
        return [self.own_facts(row) for row in rows]

    def permits(self, verb: str) -> Staff:
        return viewing("sources.restore") if verb == "view" else Staff(Scope.OPERATE, MAY_RESTORE)


restores = RestoresOfTheApi()
router = restores.router()
