"""Fleet files: everything that a person declares, in one file, made true in one transaction.

Rows are matched by name, so applying a file again changes only what the file changed; fields that a row does not name
keep their values. Each section is read, checked and written by its service before the next one, which may refer to it.
Everything that is wrong is found and reported at once, with row and field; then nothing is kept. The number of
statements does not grow with the number of sources.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from django.core.exceptions import ValidationError
from django.db import IntegrityError, connection, transaction
from django.db.models import Exists, OuterRef, Prefetch, ProtectedError, QuerySet
from pydantic import AfterValidator, BaseModel, Field
from pydantic_core import to_jsonable_python

from declarations.problems import lines_of
from declarations.service import InUse, Service
from declarations.types import STRICT, Reference
from delivery import declarations as of_delivery
from delivery.endpoints import Endpoints
from jobs.models import Throttle
from operations import declarations as of_queue
from schedules import declarations as of_schedules
from schedules.editing import Schedules
from sources import declarations, edits, planning, repository_edits
from sources.engines import ENGINES, missing_program
from sources.models import Assignment, Backup, Policy, Source

Row = dict[str, Any]


class SourceOfFleet(declarations.Source):
    """A source, with all policies that it is under. Left out, they stay as they are."""

    policies: Annotated[list[Reference], AfterValidator(lambda names: sorted(set(names)))] = Field(
        default_factory=list, description="Names of the policies that it is under"
    )


class Fleet(BaseModel):
    """A fleet file: lists of what is declared. A section that is left out is left alone."""

    model_config = STRICT

    repositories: list[declarations.Repository] = []
    retry_policies: list[of_queue.RetryPolicy] = []
    throttles: list[of_queue.Throttle] = []
    endpoints: list[of_delivery.Endpoint] = []
    schedules: list[of_schedules.Schedule] = []
    policies: list[declarations.Policy] = []
    sources: list[SourceOfFleet] = []


class FleetError(ValueError):
    """The file cannot be applied; nothing was. `errors`: one line each, naming file, row and field."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__("\n".join(errors))
        self.errors = errors


@dataclass(frozen=True)
class Change:
    """One row that is created, changed or deleted. `fields`: of one that changes, what it was and what it will be."""

    action: str
    section: str
    title: str
    name: str
    fields: dict[str, tuple[Any, Any]] = field(default_factory=dict)


@dataclass
class FleetReport:
    """What was done. `unchanged`: rows by section; `emitted`: backlog records; `warnings`: of what may not be meant."""

    changes: list[Change] = field(default_factory=list)
    unchanged: dict[str, int] = field(default_factory=dict)
    emitted: int = 0
    warnings: list[str] = field(default_factory=list)

    def count(self, action: str, section: str = "") -> int:
        """How many rows were `create`d, `change`d or `delete`d, in a section or in all."""
        return sum(each.action == action and section in ("", each.section) for each in self.changes)


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
        assignments = Assignment.objects.select_related("policy__schedule").annotate(has_backups=backups)
        return Source.objects.prefetch_related(Prefetch("assignments", assignments))

    def values(self, row: Any) -> Row:
        own = {name: getattr(row, name) for name in declarations.Source.model_fields}
        under = row.wanted if hasattr(row, "wanted") else edits.policies_of(row) if row.pk else ()
        return own | {"policies": sorted(under)}

    def problems(self, row: Any, changed: set[str] | None) -> dict[str, str]:
        found = super().problems(row, changed)
        if kept := [str(each.policy) for each in getattr(row, "surplus", ()) if each.has_backups]:
            found["policies"] = (
                f"{', '.join(map(repr, kept))} is taken away, but there are backups under it; keep it in the file, or "
                "delete the assignment in the admin first"
            )
        kinds: set[str] = self.remembered("kinds", set)
        if row.kind in ENGINES.keys() - kinds and (problem := missing_program(row.kind)):
            found["kind"] = problem
        kinds.add(row.kind)  # each is looked at once
        return found

    def write_all(self, edits: Sequence[tuple[Source, set[str] | None]]) -> list[str]:
        own: list[Any] = [(row, None if changed is None else changed - {"policies"}) for row, changed in edits]
        super().write_all(own)
        rows = [row for row, _ in own if hasattr(row, "wanted")]
        Assignment.objects.filter(pk__in=[each.pk for row in rows for each in row.surplus]).delete()
        ids = self._policies()
        wanted = [(row, name) for row in rows for name in sorted(row.lacking) if name in ids]
        created = [Assignment(source=row, policy_id=ids[name]) for row, name in wanted]
        Assignment.objects.bulk_create(created, batch_size=1000)
        return []

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


SECTIONS: dict[str, type[Service[Any]]] = {
    "repositories": repository_edits.Repositories,
    "retry_policies": of_queue.RetryPolicies,
    "throttles": ThrottlesOfFleet,
    "endpoints": Endpoints,
    "schedules": Schedules,
    "policies": edits.Policies,
    "sources": SourcesOfFleet,
}
"""In an order in which each refers to those before it only."""


def export_fleet() -> dict[str, list[Row]]:
    """All that is declared, as `import_fleet` takes it. Secrets are no part of it."""
    services = {section: service() for section, service in SECTIONS.items()}
    return {
        section: [
            {name: _plain(value) for name, value in to_jsonable_python(service.values(row)).items()}
            for row in service.declared_rows().order_by(service.named_by)
        ]
        for section, service in services.items()
    }


def _plain(value: Any) -> Any:
    """Whole seconds as whole numbers."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def import_fleet(
    data: object, origin: str, *, folder: Path | None = None, dry_run: bool = False, prune: bool = False
) -> FleetReport:
    """Make a fleet (the parsed content of a fleet file) true. `origin` names it in messages.

    Relative repository locations count from `folder` (none: the current directory). Missing directories of
    repositories are made. With `prune` the rows are deleted that a section of the file does not name. With `dry_run`
    everything is done, and nothing is kept.

    Raises: FleetError with every error found; nothing is kept then.
    """
    work = _Import(origin, folder or Path.cwd())
    try:
        with transaction.atomic():
            report = work.run(data, prune=prune, dry_run=dry_run)
            transaction.set_rollback(dry_run)
    except IntegrityError as error:
        reason = str(error).strip().splitlines()[0]
        raise FleetError([f"{origin}: the same rows were changed meanwhile ({reason}); apply it again"]) from error
    return report


class _Import:
    def __init__(self, origin: str, folder: Path) -> None:
        self.origin, self.folder = origin, folder
        self.errors: list[str] = []
        self.broken: set[str] = set()
        """Names of rows that are wrong: a reference to one is no error of its own."""
        self.report = FleetReport()

    def run(self, data: object, *, prune: bool, dry_run: bool) -> FleetReport:
        # two imports at once would create the same rows; the second waits here
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext('sources.fleet'))")
        if not isinstance(data, dict):
            raise FleetError([f"{self.origin}: is not an object with {', '.join(SECTIONS)}"])
        for unknown in data.keys() - SECTIONS.keys():
            self._add(f"{unknown}", None, None, f"unknown section; there are {', '.join(SECTIONS)}")
        services = {section: service(by="a fleet file") for section, service in SECTIONS.items() if section in data}
        written = {section: self._apply(section, service, data[section]) for section, service in services.items()}
        if prune:
            for section, service in reversed(services.items()):
                self._prune(section, service, {service.values(row)["name"] for row in written[section]})
        if self.errors:
            raise FleetError(self.errors)
        under = Assignment.objects.filter(source__in=written.get("sources", [])).order_by("pk")
        self.report.emitted = planning.emit_due(None, under.values_list("pk", flat=True))
        for section, service in services.items() if not dry_run else ():
            for row in written[section]:
                for text in service.finish(row):
                    self._add(section, None, str(row), f"location: {text}")
        if self.errors:
            raise FleetError(self.errors)
        return self.report

    def _apply(self, section: str, service: Service[Any], rows: object) -> list[Any]:
        """Check and write a section. Returns its rows that are right."""
        if not isinstance(rows, list):
            self._add(section, None, None, "must be a list")
            return []
        names = [row["name"] for row in rows if isinstance(row, dict) and isinstance(row.get("name"), str)]
        existing = service.existing([name for name in names if "\0" not in name])
        service.remembered("broken", lambda: self.broken)
        first: dict[Any, int] = {}
        found: list[tuple[Any, set[str] | None]] = []
        for number, sent in enumerate(rows):
            if not isinstance(sent, dict):
                self._add(section, number, None, "is not an object")
                continue
            name = sent.get("name")
            if isinstance(name, str) and first.setdefault(name, number) != number:
                self._add(section, number, name, f"name: stands twice in the file, first in {section}[{first[name]}]")
                continue
            row = existing.get(name) if isinstance(name, str) else None
            if (edit := self._edit(section, number, service, row or service.new(), sent)) is not None:
                found.append(edit)
        self.report.warnings += service.write_all([edit for edit in found if edit[1] or edit[1] is None])
        return [row for row, _ in found]

    def _edit(
        self, section: str, number: int, service: Service[Any], row: Any, sent: Row
    ) -> tuple[Any, set[str] | None] | None:
        """Give a row what the file says, and note what changes. None: it cannot be so."""
        is_folder = section == "repositories" and not sent.get("remote", row.remote)
        if is_folder and isinstance(sent.get("location"), str):
            sent = sent | {"location": os.path.abspath(self.folder / sent["location"])}
        before = service.values(row) if row.pk else {}
        problems: list[tuple[str, str]] = []
        if obstacle := service.obstacle(row) if row.pk else "":
            problems = [("name", obstacle)]
        else:
            try:
                changed = service.fill(row, sent)
            except ValidationError as error:
                problems = list(lines_of(error))
        if problems:
            for where, text in problems:
                if where == "name" or str(sent.get(where)) not in self.broken:
                    self._add(section, number, sent.get("name"), f"{where}: {text}")
            self.broken.add(str(sent.get("name")))
            return None
        after = service.values(row)
        if changed or changed is None:
            action = "create" if changed is None else "change"
            fields = {each: (before[each], after[each]) for each in sorted(changed or ())}
            self.report.changes.append(Change(action, section, service.title, after["name"], fields))
        else:
            self.report.unchanged[section] = self.report.unchanged.get(section, 0) + 1
        return row, changed

    def _prune(self, section: str, service: Service[Any], names: set[str]) -> None:
        """Delete what the section does not name."""
        for row in service.declared_rows().exclude(**{f"{service.named_by}__in": names}).order_by("pk"):
            name = service.values(row)["name"]
            if name in self.broken:
                continue
            try:
                service.remove([row])
            except (InUse, ProtectedError) as error:
                why = error if isinstance(error, InUse) else "it is in use"
                self._add(section, None, name, f"is not in the file, and cannot be deleted: {why}")
            self.report.changes.append(Change("delete", section, service.title, name))

    def _add(self, section: str, number: int | None, name: object, problem: str) -> None:
        """Note a problem, as `field: what`, of row `number` (from 0) of a section, or of the section itself."""
        row = "" if number is None else f"[{number}]"
        label = f" ({name})" if isinstance(name, str) and name else ""
        self.errors.append(f"{self.origin}: {section}{row}{label}: {problem}")
