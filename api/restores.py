"""Restores: asked for here, run by workers."""

from collections.abc import Sequence
from typing import Annotated, Any

from django.db.models import QuerySet
from ninja import Field

from api.auth import Staff
from api.declared_resources import DeclaredResource
from api.fields import RowAnswer, RowId
from api.models import Scope
from api.record_schemas import ReasonAnswer
from backups.restores.requests import MAY_RESTORE, Restores
from fleet.explaining.restores import UNDER_WAY, WAITING, states_of
from jobs.clock import database_clock
from sources.declarations import resources
from sources.models import Restore, RestoreOutcome


class RestoreAnswer(
    RowAnswer, resources.RestoreDeclaration, of=Restore, names="id assignment asked_by asked_at ended_at error"
):
    """A restore, and its result."""

    at: str = Field(description="The point, by its name")
    record_id: int | None = Field(description="The backlog record it runs as: to look at, or to cancel")
    outcome: str = Field(description=f"{', '.join(RestoreOutcome.values)}; empty until it is over")
    state: str = Field(description=f"{WAITING}, {UNDER_WAY}, or its outcome")
    reasons: list[ReasonAnswer] = Field(description="Why it waits; empty if it does not")
    files: int | None = Field(description="Files that were restored")
    size: int | None = Field(description="Bytes")
    present: int | None = Field(description="Files that were there already, as in the backup")
    not_set: list[str] = Field(
        description="Owners, modes, times, attributes and links that could not be set: a sentence for each kind"
    )
    old: list[str] = Field(description="Files that the point has as of an earlier one: a sentence for each of those")
    missing: list[str] = Field(description="Paths that are not in the point, and why: the first 100")
    failed: list[str] = Field(description="Files that were not restored, and why: the first 100")


class RestoresOfTheApi(DeclaredResource[Restore]):
    service, tag, answer = Restores, "restores", RestoreAnswer
    changes = deletes = False
    edited_by = Staff(Scope.OPERATE, MAY_RESTORE)
    filters = {"assignment": RowId, "source": RowId, "outcome": Annotated[str, Field(max_length=12)]}
    lookups = {"source": "assignment__source"}
    orderings, usual_ordering = ("id", "asked_at"), "-asked_at"

    def rows(self) -> QuerySet[Any]:
        related = ("repository", "assignment__source", "assignment__policy__schedule")
        return Restore.objects.order_by().select_related(*related)

    def facts(self, rows: Sequence[Restore]) -> list[dict[str, Any]]:
        """The answers' fields, with the state of each restore, and the reasons of those that wait."""
        states = states_of(rows, database_clock())
        return [self.own_facts(row) | states[row.pk].as_facts for row in rows]


router = RestoresOfTheApi().router
