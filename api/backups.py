"""Backups: every completed run, to look at."""

from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet
from ninja import Field

from api.fields import Instant, RowAnswer, RowId
from api.large_tables import LargeTable
from fleet.past_backups import is_small, of_policy
from sources.models import Backup

TOO_MANY = "there are too many backups to sort by that; name a source, an assignment or a policy, or a later `since`"


class BackupAnswer(
    RowAnswer, of=Backup, names="id assignment repository attempt engine started_at ended_at files unchanged"
):
    """One completed run. Sizes are in bytes."""

    source: int
    source_name: str
    policy: int
    policy_name: str
    record_id: int | None = Field(
        description="The backlog record that it ran as, which may have been pruned since. None if its result "
        "was lost, and its point was found in the repository"
    )
    size: int = Field(description="Bytes that it protects")
    new: int | None = Field(description="Files that the last backup did not have; null here and below: unknown")
    changed: int | None = Field(description="Files that differ from those of the last backup")
    removed: int | None = Field(description="Files of the last backup that are gone")
    read: int | None = Field(description="Bytes from the source")
    added: int | None = Field(description="Bytes to the repository")
    snapshot: str = Field(description="The name of the point that it made, in the repository")
    warnings: list[str] = Field(description="The first 20")
    not_kept: list[str] = Field(description="Things of the source that no backup of its kind keeps, such as sockets")


class Backups(LargeTable[Backup]):
    """`since`: those that ended then or later."""

    model, tag, answer = Backup, "backups", BackupAnswer
    filters = {"source": RowId, "assignment": RowId, "policy": RowId, "repository": RowId, "since": Instant}
    lookups = {"source": "assignment__source", "policy": of_policy, "since": "ended_at__gte"}
    computed = {
        "source": "assignment.source_id", "source_name": "assignment.source.name",
        "policy": "assignment.policy_id", "policy_name": "assignment.policy.schedule.name",
    }  # fmt: skip
    orderings, usual_ordering = ("id", "ended_at", "started_at", "size"), "-ended_at"

    by_end, since, too_many = "ended_at", "since", TOO_MANY

    def is_of_few(self, asked: Mapping[str, Any], field: str) -> bool:
        return bool({"source", "assignment"} & set(asked)) or is_small(asked.get("policy"))

    def rows(self) -> QuerySet[Any]:
        return Backup.objects.order_by().select_related("assignment__source", "assignment__policy__schedule")


router = Backups().router
