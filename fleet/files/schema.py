"""The schema of fleet files: all declarations, in one file.

Rows are named, and a section refers only to those before it. `fleet/files/apply.py` applies a file.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from django.db import connection, transaction
from django.utils.module_loading import import_string
from pydantic import BaseModel, Field, create_model
from pydantic_core import to_jsonable_python

from declarations import fleet_sections
from declarations.service import Service
from declarations.types import STRICT
from delivery.endpoints import Endpoints
from fleet import policy_edits, repository_edits
from fleet.files.services import Row, SourcesOfFleet, ThrottlesOfFleet
from operations import declarations as of_queue
from schedules.editing import Schedules

SECTIONS: dict[str, type[Service[Any]]] = {
    "repositories": repository_edits.Repositories,
    "retry_policies": of_queue.RetryPolicies,
    "throttles": ThrottlesOfFleet,
    "endpoints": Endpoints,
    "schedules": Schedules,
    "policies": policy_edits.Policies,
    "sources": SourcesOfFleet,
    **{section: import_string(service) for section, service in fleet_sections.items()},
}
"""Sections in an order in which each refers only to those before it."""

RENAMED_FROM = "renamed_from"
"""The key of a row for its earlier name. A row with that name is renamed; if there is none, the key has no effect."""


def _row_of(declaration: type[BaseModel]) -> type[BaseModel]:
    """The declaration as a row of a fleet file."""
    described = Field(None, description="The name that it had before: it is renamed, and keeps all that it has")
    fields: Any = {RENAMED_FROM: (str | None, described)}
    return create_model(f"{declaration.__name__}InAFile", __base__=declaration, **fields)


Fleet: type[BaseModel] = create_model(
    "Fleet",
    __config__=STRICT,
    __doc__="A fleet file: lists of declarations. A section that is left out is left alone.",
    **cast(Any, {section: (list[_row_of(service.declaration)], []) for section, service in SECTIONS.items()}),  # type: ignore[misc]
)


class FleetError(ValueError):
    """The file cannot be applied; nothing was. `errors`: one line each, naming file, row and field."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__("\n".join(errors))
        self.errors = errors


@dataclass(frozen=True)
class Change:
    """One row that is created, changed or deleted. `fields`: for one that changes, the old and the new values."""

    action: str
    section: str
    title: str
    name: str
    fields: dict[str, tuple[Any, Any]] = field(default_factory=dict)


@dataclass
class FleetReport:
    """The result of applying a file. `unchanged`: rows by section; `emitted`: backlog records; `warnings`: about values
    that may not be intended.
    """

    changes: list[Change] = field(default_factory=list)
    unchanged: dict[str, int] = field(default_factory=dict)
    emitted: int = 0
    warnings: list[str] = field(default_factory=list)

    def count(self, action: str, section: str = "") -> int:
        """The number of rows that were `create`d, `change`d or `delete`d, in a section or in all."""
        return sum(each.action == action and section in ("", each.section) for each in self.changes)

    def note(self, section: str, title: str, changed: set[str] | None, before: Row, after: Row) -> None:
        """Note an edit of a row: the fields that differ (None if it is new), and its old and new declaration."""
        if changed or changed is None:
            fields = {each: (before[each], after[each]) for each in sorted(changed or ())}
            action = "create" if changed is None else "change"
            self.changes.append(Change(action, section, title, after["name"], fields))
        else:
            self.unchanged[section] = self.unchanged.get(section, 0) + 1


def export_fleet() -> dict[str, list[Row]]:
    """All declarations, as `apply` takes them. Secrets are not included."""
    return {section: list(rows) for section, rows in exported()}


def exported() -> Iterator[tuple[str, Iterator[Row]]]:
    """The same section by section and row by row; each must be read before the next one."""
    with one_snapshot():
        for section, service in SECTIONS.items():
            yield section, _rows_of(service())


def _rows_of(service: Service[Any]) -> Iterator[Row]:
    for row in service.by_name():
        yield {name: _plain(value) for name, value in to_jsonable_python(service.values(row)).items()}


@contextmanager
def one_snapshot() -> Iterator[None]:
    """Read all as it is at one instant, unless a transaction has begun: a row that is renamed in the meantime would be
    read twice, or not at all."""
    if connection.in_atomic_block:
        yield
        return
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


def _plain(value: Any) -> Any:
    """Whole seconds as whole numbers."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
