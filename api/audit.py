"""The audit: who changed what, by any way."""

from typing import Annotated, Any, Literal

from ninja import Field

from api.fields import Instant, Name, RowAnswer
from api.resources import Resource
from audit import entries
from audit.models import AuditEntry


class AuditAnswer(RowAnswer, of=AuditEntry, names="id at who via about row_id name text"):
    """A change. `about`: the table, such as `sources.policy`; `row_id`: the id in it; `changes`: field → [before,
    after]. A secret is only marked as changed. `did`: an action that no row shows, described in `text`.
    """

    verb: Literal["created", "changed", "deleted", "did"]
    changes: Annotated[
        dict[str, list[Any]], Field(description="By field: the values before and after; null if there was none")
    ]


class Audit(Resource[AuditEntry]):
    """The audit, the latest first. `since`: from this instant on."""

    model, tag, answer = AuditEntry, "workers", AuditAnswer
    filters = {"about": Name, "row_id": Name, "name": Name, "who": Name, "since": Instant}
    lookups = {"since": "at__gte"}
    usual_ordering = "-id"

    def facts(self, rows: Any) -> list[dict[str, Any]]:
        found = entries.facts(list(rows))
        return [self.own_facts(row) | {"changes": facts["changes"]} for row, facts in zip(rows, found, strict=True)]


router = Audit().router
