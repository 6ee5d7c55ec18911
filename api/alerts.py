"""Alerts: what needs a person, and what did. Where they go: `alert_routes`."""

from datetime import datetime
from typing import Annotated, Any

from django.db.models import QuerySet
from ninja import Schema

from alerting.models import Alert, AlertKind
from api.resources import Resource
from declarations.types import Choice


class AlertAnswer(Schema):
    """`since`: since when it is so, as far as that is known; `ended_at` null: it is open. `policy`: an id."""

    id: int
    kind: Annotated[AlertKind, Choice()]
    subject: str
    policy: int | None
    name: str
    text: str
    since: datetime
    raised_at: datetime
    ended_at: datetime | None


class AlertFilters(Schema):
    """`open`: it is not over."""

    kind: Annotated[AlertKind, Choice()] | None = None
    open: bool | None = None


class Alerts(Resource[Alert]):
    """Alerts, the latest first."""

    model, name, plural, tag = Alert, "alert", "alerts", "workers"
    answer, filters = AlertAnswer, AlertFilters
    usual_ordering = "-id"

    def filtered(self, rows: QuerySet[Any], asked: dict[str, Any]) -> QuerySet[Any]:
        """By kind, and by whether they are over."""
        if (is_open := asked.pop("open", None)) is not None:
            rows = rows.filter(ended_at__isnull=is_open)
        return rows.filter(**asked)


router = Alerts().router()
