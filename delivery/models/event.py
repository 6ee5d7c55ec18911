from typing import Any, ClassVar

from django.db import models

from delivery.models import EndpointKind
from jobs.models.record import BacklogRecord, BacklogRecordQuerySet


class EventManager(models.Manager.from_queryset(BacklogRecordQuerySet)):  # type: ignore[misc]
    """Records of the kinds that deliver."""

    def get_queryset(self) -> Any:
        return super().get_queryset().filter(kind__in=EndpointKind.values)


class Event(BacklogRecord):
    """A backlog record that is delivered to an endpoint: as the lists of events show it. The table is the backlog's.

    Who may look at records may look at these; there are no permissions of its own.
    """

    objects: ClassVar[models.Manager["Event"]] = EventManager()  # type: ignore[assignment]

    class Meta:
        proxy = True
        default_permissions = ()

    def __str__(self) -> str:
        return self.subject
