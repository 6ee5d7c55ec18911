"""Alert routes: where alerts go. For superusers to set; the URL is a reference to a stored secret, and never shown."""

from datetime import datetime

from ninja import Schema

from alerting.declarations import Route, Routes
from alerting.models import AlertRoute
from api.fields import Name
from api.resources import Resource


class AlertRouteAnswer(Route):
    """A route. `sent_at`: when its last message was written down."""

    id: int
    sent_at: datetime | None


class AlertRouteFilters(Schema):
    """Which of them."""

    name: Name | None = None
    enabled: bool | None = None


class AlertRoutes(Resource[AlertRoute]):
    """Alert routes."""

    service, tag = Routes, "workers"
    answer, filters = AlertRouteAnswer, AlertRouteFilters
    orderings = ("id", "name")
    moving = ("sent_at",)


router = AlertRoutes().router()
