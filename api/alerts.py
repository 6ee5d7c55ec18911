"""Alerts: present and past findings that need an operator. And their routes, which superusers set: the URL of a route
is a reference to a stored secret, and never shown.
"""

from datetime import datetime
from typing import Annotated

from ninja import Router

from alerting.declarations import Route, Routes
from alerting.models import Alert, AlertKind, AlertRoute
from api.declared_resources import DeclaredResource
from api.fields import Name, RowAnswer
from api.resources import Resource
from declarations.types import Choice

Kind = Annotated[AlertKind, Choice()]


class AlertAnswer(RowAnswer, of=Alert, names="id subject policy name text since raised_at ended_at"):
    """`since`: when the problem began, as far as that is known; `ended_at` null: it is open. `policy`: an id."""

    kind: Kind


class Alerts(Resource[Alert]):
    """Alerts, the latest first. `open`: not over."""

    model, tag, answer = Alert, "workers", AlertAnswer
    filters, lookups = {"kind": Kind, "open": bool}, {"open": "ended_at__isnull"}
    usual_ordering = "-id"


class AlertRouteAnswer(Route):
    """A route. `sent_at`: when its last message was recorded."""

    id: int
    sent_at: datetime | None


class AlertRoutes(DeclaredResource[AlertRoute]):
    """Alert routes."""

    service, tag, answer = Routes, "workers", AlertRouteAnswer
    filters, orderings = {"name": Name, "enabled": bool}, ("id", "name")


router = Router()
for each in (Alerts(), AlertRoutes()):
    router.add_router("", each.router)
