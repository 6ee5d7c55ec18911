"""Services of sections of a fleet file that differ from those of single edits: many rows, in few statements."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.expressions import RawSQL
from pydantic import AfterValidator, Field

from declarations.types import Reference
from engines import ENGINES, missing_program
from fleet import source_edits
from jobs.models import Throttle
from operations import declarations as of_queue
from sources.declarations import resources
from sources.models import Assignment, Backup, Copy, Policy, Source

Row = dict[str, Any]


COLUMNS = ("name", "kind", "address", "port", "path", "options", "secret", "secrets", "host_key", "wake_allowed",
           "mac_address", "wake_address", "wake_port", "retired_at", "real_path")  # fmt: skip
"""The columns of a source that are declared, or written with these."""


class SourceOfFleet(resources.SourceDeclaration):
    """A source, with all policies that it is under. Left out, they stay as they are."""

    policies: Annotated[list[Reference], AfterValidator(lambda names: sorted(set(names)))] = Field(
        default_factory=list, description="Names of the policies that it is under"
    )


class ThrottlesOfFleet(of_queue.Throttles):
    def declared_rows(self) -> QuerySet[Any]:
        """The declared throttles, without those of seeding limits, which are made with their policies."""
        limits = Policy.objects.filter(seeding_throttle__isnull=False).values("seeding_throttle")
        return Throttle.objects.exclude(pk__in=limits)


def array_of(ids: Iterable[int]) -> RawSQL:
    """Ids as one value of a statement: psycopg takes its time for each value."""
    return RawSQL("SELECT unnest(%s::bigint[])", [list(ids)])


class SourcesOfFleet(source_edits.Sources):
    """Sources with their assignments, in few statements."""

    declaration = SourceOfFleet
    _sources: Sequence[int] = ()
    _kept: set[int] | None = None

    def rows(self) -> QuerySet[Any]:
        """All sources, without the columns that machines write: more than half, which take their time for 100,000."""
        return Source.objects.only(*COLUMNS)

    def together(self, rows: list[Any]) -> list[Any]:
        """Give each source `under`: the name of each policy that it is under → the id of the assignment."""
        policies = {pk: name for name, pk in self._policies().items()}
        under: dict[int, dict[str, int]] = {row.pk: {} for row in rows}
        found = Assignment.objects.filter(source__in=array_of(under)).values_list("source_id", "policy_id", "pk")
        for source, policy, pk in found:
            under[source][policies[policy]] = pk
        for row in rows:
            row.under = under[row.pk]
        self._sources, self._kept = list(under), None
        return rows

    def values(self, row: Any) -> Row:
        own = {name: getattr(row, name) for name in resources.SourceDeclaration.model_fields}
        under = row.wanted if hasattr(row, "wanted") else getattr(row, "under", {})
        return own | {"policies": sorted(under)}

    def problems(self, row: Any, changed: set[str] | None) -> dict[str, str]:
        found = super().problems(row, changed)
        if kept := [name for name, pk in getattr(row, "surplus", {}).items() if pk in self._with_points()]:
            found["policies"] = (
                f"{', '.join(map(repr, kept))} is taken away, but there are backups under it, or copies; "
                "keep it, or delete the assignment in the admin first"
            )
        kinds: set[str] = self.remembered("kinds", set)
        if row.kind not in kinds and row.kind in ENGINES and (problem := missing_program(row.kind)):
            found["kind"] = problem
        kinds.add(row.kind)  # each is looked at once
        return found

    def write_all(self, edits: Sequence[tuple[Source, set[str] | None]]) -> list[str]:
        own: list[Any] = [(row, None if changed is None else changed - {"policies"}) for row, changed in edits]
        warnings = super().write_all(own)
        self._put_under([row for row, _ in own if hasattr(row, "wanted")])
        return warnings

    def _put_under(self, rows: Sequence[Any]) -> None:
        """Write the policies that they are under."""
        Assignment.objects.filter(pk__in=[pk for row in rows for pk in row.surplus.values()]).delete()
        ids = self._policies()
        wanted = [(row, name) for row in rows for name in sorted(row.lacking) if name in ids]
        created = [Assignment(source=row, policy_id=ids[name]) for row, name in wanted]
        Assignment.objects.bulk_create(created, batch_size=1000)

    def _put(self, row: Any, values: Row) -> dict[str, str]:
        """Keep the policies of the file with the row until it is written."""
        if "policies" in values:
            under = getattr(row, "under", {})
            row.wanted = set(values["policies"])
            row.surplus = {name: pk for name, pk in under.items() if name not in row.wanted}
            row.lacking = row.wanted - under.keys()
            if unknown := row.lacking - self._policies().keys() - self.remembered("broken", set[str]):
                return {"policies": f"there is no policy {', '.join(map(repr, sorted(unknown)))}"}
        return super()._put(row, {name: value for name, value in values.items() if name != "policies"})

    def refers(self, row: Source, field: str) -> bool:
        return field == "policies"

    def _policies(self) -> dict[str, int]:
        """All policies: name → id."""
        return self.remembered("policies", lambda: dict(Policy.objects.values_list("schedule__name", "pk")))

    def _with_points(self) -> set[int]:
        """The assignments with backups or copies, among those of the rows that were read last: looked up for all at
        once, and only if one is taken away.
        """
        if self._kept is None:
            backups = Exists(Backup.objects.filter(assignment=OuterRef("pk")))
            copies = Exists(Copy.objects.filter(assignment=OuterRef("pk")).exclude(points=[]))
            rows = Assignment.objects.filter(backups | copies, source__in=self._sources)
            self._kept = set(rows.values_list("pk", flat=True))
        return self._kept


class SourcesUnderPolicies(SourcesOfFleet):
    """One source and the policies that it is under, edited together."""

    def rows(self) -> QuerySet[Any]:
        return Source.objects.all()

    def fill(self, row: Any, sent: dict[str, Any]) -> set[str] | None:
        if row.pk:
            self.together([row])
        return super().fill(row, sent)

    def write(self, row: Any, changed: set[str] | None) -> list[str]:
        warnings = source_edits.Sources.write(self, row, changed and changed - {"policies"})
        if hasattr(row, "wanted"):
            self._put_under([row])
            source_edits.emit_after_commit(row.assignments.values_list("pk", flat=True))
        return warnings
