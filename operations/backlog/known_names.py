"""Kinds and queues that are known: one that is not is a mistake, and finds nothing."""

from django.db import transaction

from declarations.surfaces.patience import by_index
from jobs import conf
from jobs.handlers import registry
from jobs.models import BacklogRecord
from operations.backlog.selection import LATEST, Rows, conditions_of_few
from operations.backlog.walking import is_large

NOT_FOUND = f"is not in the settings, nor in a record that has not succeeded or is among the latest {LATEST:,}"
"""The refusal of a name in a large table."""


def check_names(kind: str | None, queue: str | None, *, of_large: bool = True) -> None:
    """Raises: ValueError for a kind or queue that neither the settings nor any record knows. Of a large table only the
    records that have not succeeded are asked, and the latest. Without `of_large` each name may be known there.
    """
    for name, asked, known in (("kind", kind, sorted(registry.kinds)), ("queue", queue, list(conf.queue_rules()))):
        if not asked or asked in known or ((large := is_large()) and not of_large):
            continue
        rows = BacklogRecord.objects.filter(**{name: asked}).order_by()
        if not (_is_in_few(rows) if large else rows.exists()):
            words = f"{name} {asked!r} {NOT_FOUND}" if large else f"no {name} {asked!r}"
            raise ValueError(f"{words}; there are {', '.join(known)}")


def _is_in_few(rows: Rows) -> bool:
    """Each part is looked up by its index: the planner would walk through the table, expecting to meet a row soon."""
    with transaction.atomic(), by_index():
        return any(rows.filter(each).exists() for each in conditions_of_few())
