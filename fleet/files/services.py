"""Services of sections of a fleet file that differ from those of single edits: many rows, in few statements."""

from collections.abc import Sequence
from typing import Annotated, Any

from django.db.models import Exists, OuterRef, Prefetch, QuerySet
from pydantic import AfterValidator, Field

from declarations.types import Reference
from engines import ENGINES, missing_program
from fleet import edits
from jobs.models import Throttle
from operations import declarations as of_queue
from sources.declarations import resources
from sources.models import Assignment, Backup, Copy, Policy, Source

Row = dict[str, Any]


class SourceOfFleet(resources.Source):
    """A source, with all policies that it is under. Left out, they stay as they are."""

    policies: Annotated[list[Reference], AfterValidator(lambda names: sorted(set(names)))] = Field(
        default_factory=list, description="Names of the policies that it is under"
    )


class ThrottlesOfFleet(of_queue.Throttles):
    def declared_rows(self) -> QuerySet[Any]:
        """Those of seeding limits are made with their policies."""
        limits = Policy.objects.filter(seeding_throttle__isnull=False).values("seeding_throttle")
        return Throttle.objects.exclude(pk__in=limits)


class SourcesOfFleet(edits.Sources):
    """Sources with their assignments, in few statements."""

    declaration = SourceOfFleet

    def rows(self) -> QuerySet[Any]:
        backups = Exists(Backup.objects.filter(assignment=OuterRef("pk")))
        copies = Exists(Copy.objects.filter(assignment=OuterRef("pk")).exclude(points=[]))
        assignments = Assignment.objects.select_related("policy__schedule").annotate(has_points=backups | copies)
        return Source.objects.prefetch_related(Prefetch("assignments", assignments))

    def values(self, row: Any) -> Row:
        own = {name: getattr(row, name) for name in resources.Source.model_fields}
        under = row.wanted if hasattr(row, "wanted") else edits.policies_of(row) if row.pk else ()
        return own | {"policies": sorted(under)}

    def problems(self, row: Any, changed: set[str] | None) -> dict[str, str]:
        found = super().problems(row, changed)
        if kept := [str(each.policy) for each in getattr(row, "surplus", ()) if each.has_points]:
            found["policies"] = (
                f"{', '.join(map(repr, kept))} is taken away, but there are backups under it, or copies; "
                "keep it in the file, or delete the assignment in the admin first"
            )
        kinds: set[str] = self.remembered("kinds", set)
        if row.kind in ENGINES.keys() - kinds and (problem := missing_program(row.kind)):
            found["kind"] = problem
        kinds.add(row.kind)  # each is looked at once
        return found

    def write_all(self, edits: Sequence[tuple[Source, set[str] | None]]) -> list[str]:
        own: list[Any] = [(row, None if changed is None else changed - {"policies"}) for row, changed in edits]
        warnings = super().write_all(own)
        rows = [row for row, _ in own if hasattr(row, "wanted")]
        Assignment.objects.filter(pk__in=[each.pk for row in rows for each in row.surplus]).delete()
        ids = self._policies()
        wanted = [(row, name) for row in rows for name in sorted(row.lacking) if name in ids]
        created = [Assignment(source=row, policy_id=ids[name]) for row, name in wanted]
        Assignment.objects.bulk_create(created, batch_size=1000)
        return warnings

    def _put(self, row: Any, values: Row) -> dict[str, str]:
        """What the file says of its policies is kept beside the row until it is written."""
        if "policies" in values:
            under = {each.policy.schedule.name: each for each in (row.assignments.all() if row.pk else ())}
            row.wanted = set(values["policies"])
            row.surplus = [each for name, each in under.items() if name not in row.wanted]
            row.lacking = row.wanted - under.keys()
            if unknown := row.lacking - self._policies().keys() - self.remembered("broken", set[str]):
                return {"policies": f"there is no policy {', '.join(map(repr, sorted(unknown)))}"}
        return super()._put(row, {name: value for name, value in values.items() if name != "policies"})

    def refers(self, row: Source, field: str) -> bool:
        return field == "policies"

    def _policies(self) -> dict[str, int]:
        """All there are, by name."""
        return self.remembered("policies", lambda: dict(Policy.objects.values_list("schedule__name", "pk")))
