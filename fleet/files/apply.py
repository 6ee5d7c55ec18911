"""The application of fleet files, in one transaction.

Rows are matched by name, so applying a file again changes only the values that the file changed; fields that a row does
not name keep their values. Each section is read, checked and written by its service before the next one, which may
refer to it, a thousand rows at a time. All problems are found and reported at once, with row and field; then nothing is
kept. The number of statements does not grow with the number of sources.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from django.db import IntegrityError, connection, transaction
from django.db.models import ProtectedError

from declarations.problems import lines_of
from declarations.service import InUse, Service
from fleet.files.schema import RENAMED_FROM, SECTIONS, Change, FleetError, FleetReport
from fleet.files.services import array_of
from fleet.repository_edits import Repositories
from fleet.source_edits import Sources
from sources import planning
from sources.declarations.validation import not_a_folder
from sources.models import Assignment

OnProgress = Callable[[str, int, int], object]


def apply_fleet(
    data: object,
    origin: str,
    *,
    folder: Path | None = None,
    dry_run: bool = False,
    prune: bool = False,
    force: bool = False,
    on_progress: OnProgress = lambda section, done, total: None,
) -> FleetReport:
    """Apply the parsed content of a fleet file, `data`. `origin` names it in messages. Relative repository locations
    count from `folder`, or without one from the current directory. Missing directories of repositories are made.
    `prune`: rows that a section of the file does not name are deleted. `dry_run`: everything is done, and nothing is
    kept. `force`: for repositories, as in `Repositories`. `on_progress` gets the name of a long section, the number of
    its finished rows, and their total.

    Raises: FleetError with every error found; nothing is kept then.
    """
    work = _Application(origin, folder or Path.cwd(), force, on_progress)
    try:
        with transaction.atomic():
            report = work.run(data, prune=prune, dry_run=dry_run)
            transaction.set_rollback(dry_run)
    except IntegrityError as error:
        reason = str(error).strip().splitlines()[0]
        raise FleetError(
            [f"{origin}: the same rows were changed in the meantime ({reason}); apply it again"]
        ) from error
    return report


AT_ONCE = 1_000
"""Rows of a section that are read, checked and written together: so more rows take no more memory."""
RENAMED = f"; if it was renamed, give its new row `{RENAMED_FROM}`"


@dataclass
class _WrittenRows:
    """The rows of a section that were written: their names, and the rows themselves if `finish` needs them. `first`:
    name → the number of the row of the file that has it. `made`: names that are new; `gone`: names that renamed rows
    had before.
    """

    names: set[str] = field(default_factory=set)
    rows: list[Any] = field(default_factory=list)
    first: dict[str, int] = field(default_factory=dict)
    made: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)

    def note(self, service: Service[Any], rows: list[Any]) -> None:
        self.names.update(map(service.name_of, rows))
        if type(service).finish is not Service.finish:
            self.rows += rows


class _Application:
    def __init__(self, origin: str, folder: Path, force: bool, on_progress: OnProgress) -> None:
        self.origin, self.folder, self.force, self.on_progress = origin, folder, force, on_progress
        self.errors: list[str] = []
        self.assignments: list[int] = []
        """Assignments of the sources of the file."""
        self.broken: set[str] = set()
        """Names of wrong rows: a reference to one is not a separate error."""
        self.report = FleetReport()

    def run(self, data: object, *, prune: bool, dry_run: bool) -> FleetReport:
        # two imports at once would create the same rows; the second waits here
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext('sources.fleet'))")
        if not isinstance(data, dict):
            raise FleetError([f"{self.origin}: is not an object with {', '.join(SECTIONS)}"])
        for unknown in data.keys() - SECTIONS.keys():
            self._add(str(unknown), f"unknown section; there are {', '.join(SECTIONS)}")
        services = {section: service(by="a fleet file") for section, service in SECTIONS.items() if section in data}
        for service in services.values():
            service.remembered("dry_run", lambda: dry_run)
            if isinstance(service, Repositories):
                service.force = self.force
            if isinstance(service, Sources):
                service.looks_again = False  # a file that is applied repeatedly says nothing about links
        written = {section: self._apply(section, service, data[section]) for section, service in services.items()}
        if prune:
            for section, service in reversed(services.items()):
                self._prune(section, service, written[section].names)
        if not self.errors:
            self.report.emitted = planning.emit_due(None, sorted(self.assignments))
            for section, service in services.items() if not dry_run else ():
                self._finish(section, service, written[section].rows)
        if self.errors:
            raise FleetError(self.errors)
        return self.report

    def _apply(self, section: str, service: Service[Any], rows: object) -> "_WrittenRows":
        """Check and write a section, some rows at a time. Returns the rows that are right."""
        found = _WrittenRows()
        if not isinstance(rows, list):
            self._add(section, "must be a list")
            return found
        service.remembered("broken", lambda: self.broken)
        for start in range(0, len(rows), AT_ONCE):
            some = rows[start : start + AT_ONCE]
            edits = self._checked(section, service, some, start, found)
            self.report.warnings += service.write_all([edit for edit in edits if edit[1] or edit[1] is None])
            found.note(service, [row for row, _ in edits])
            if isinstance(service, Sources):
                under = Assignment.objects.filter(source__in=array_of(row.pk for row, _ in edits))
                self.assignments += under.values_list("pk", flat=True)
            if len(rows) > AT_ONCE:
                self.on_progress(section, start + len(some), len(rows))
        self.report.warnings += service.all_written()
        return found

    def _checked(
        self, section: str, service: Service[Any], rows: list[object], start: int, found: "_WrittenRows"
    ) -> list[tuple[Any, set[str] | None]]:
        """Give rows the values of the file, whose rows `rows` are from number `start` on. Returns those that are right,
        each with the fields that differ.
        """
        wanted = [name for field in ("name", RENAMED_FROM) for name in (_name_of(each, field) for each in rows)]
        existing = service.existing([name for name in wanted if name and "\0" not in name])
        for name in found.made & existing.keys():
            del existing[name]  # no row had it before this file
        first, edits = found.first, list[tuple[Any, set[str] | None]]()
        for number, sent in enumerate(rows, start):
            if not isinstance(sent, dict):
                self._add(section, "is not an object", number)
                continue
            if (name := _name_of(sent)) and first.setdefault(name, number) != number:
                self._add(section, f"name: is in the file twice, first in {section}[{first[name]}]", number, name)
                continue
            row, sent = existing.get(name), dict(sent)
            if (old := sent.pop(RENAMED_FROM, None)) is not None and not isinstance(old, str):
                self._add(section, f"{RENAMED_FROM}: must be a name, and is {old!r:.40}", number, name)
                continue
            if old and old != name:
                if (old in existing or old in found.gone) and (row or first.setdefault(old, number) != number):
                    both = f"{old!r} and {name!r} both exist: give one of them another name, or delete it"
                    other = f"another row has {old!r} as its name or {RENAMED_FROM}: only one row may have it"
                    self._add(section, f"{RENAMED_FROM}: {both if row else other}", number, name)
                    continue
                row = row or existing.get(old)
                if row:
                    found.gone.add(old)
            if name and name not in existing:
                found.made.add(name)
            if (edit := self._edit(section, number, service, row or service.new(), sent)) is not None:
                edits.append(edit)
        return edits

    def _edit(
        self, section: str, number: int, service: Service[Any], row: Any, sent: dict[str, Any]
    ) -> tuple[Any, set[str] | None] | None:
        """Give a row the values of the file, and note the changes. None if they are not valid."""
        is_folder = section == "repositories" and not sent.get("remote", row.remote)
        if is_folder and isinstance(sent.get("location"), str) and not not_a_folder(sent["location"]):
            sent = sent | {"location": os.path.abspath(self.folder / sent["location"])}
        try:
            if obstacle := service.obstacle(row) if row.pk else "":
                raise ValidationError({"name": obstacle})
            changed = service.fill(row, sent)
        except ValidationError as error:
            for where, text in lines_of(error):
                if where == "name" or str(sent.get(where)) not in self.broken:
                    self._add(section, f"{where}: {text}", number, _name_of(sent))
            self.broken.add(str(sent.get("name")))
            return None
        differs, before = changed is None or bool(changed), service.before
        self.report.note(section, service.title, changed, before, service.values(row) if differs else before)
        return row, changed

    def _prune(self, section: str, service: Service[Any], names: set[str]) -> None:
        """Delete the rows that the section does not name."""
        for row in service.declared_rows().exclude(**{f"{service.named_by}__in": names}).order_by("pk"):
            name = service.values(row)["name"]
            if name in self.broken:
                continue
            try:
                service.remove([row])
            except (InUse, ProtectedError) as error:
                why = error if isinstance(error, InUse) else "it is in use"
                self._add(section, f"is not in the file, and cannot be deleted: {why}{RENAMED}", name=name)
            self.report.changes.append(Change("delete", section, service.title, name))

    def _finish(self, section: str, service: Service[Any], rows: list[Any]) -> None:
        for row in rows:
            failed, warnings = service.finish(row)
            for text in failed:
                self._add(section, f"location: {text}", name=str(row))
            self.report.warnings += [f"{service.title} {row}: {text}" for text in warnings]

    def _add(self, section: str, problem: str, number: int | None = None, name: str = "") -> None:
        """Note a problem, as `field: problem`, of row `number` (from 0) of a section, or of the section itself."""
        row = "" if number is None else f"[{number}]"
        label = f" ({name})" if name else ""
        self.errors.append(f"{self.origin}: {section}{row}{label}: {problem}")


def _name_of(sent: object, field: str = "name") -> str:
    name = sent.get(field) if isinstance(sent, dict) else None
    return name if isinstance(name, str) else ""
