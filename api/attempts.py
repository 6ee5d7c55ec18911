"""Attempts at records, with what their handlers found."""

from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet

from api.auth import Staff, looking
from api.resources import Resource
from api.schemas import AttemptAnswer, AttemptFilters
from jobs.models import AttemptEntry
from jobs.states import AttemptOutcome
from operations.backlog.facts import attempt_facts


class Attempts(Resource[AttemptEntry]):
    """Those of the newest record first: the key's order, since one by time would need an index."""

    model, name, plural, tag = AttemptEntry, "attempt", "attempts", "backlog"
    answer, filters = AttemptAnswer, AttemptFilters
    orderings, usual_ordering, tie = ("record_id",), "-record_id", "number"
    reads_one = False

    def permits(self, verb: str) -> Staff:
        """As records."""
        return looking()

    def filtered(self, rows: QuerySet[Any], asked: dict[str, Any]) -> QuerySet[Any]:
        """By record and outcome."""
        if "outcome" in asked:
            asked["outcome"] = AttemptOutcome[asked["outcome"].upper()]
        return rows.filter(**asked)

    def facts(self, rows: Sequence[AttemptEntry]) -> list[dict[str, Any]]:
        """The columns by name."""
        return list(map(attempt_facts, rows))


router = Attempts().router()
