"""The rows of a table as an import of a fleet file will leave them: built and checked first, written later."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models

from sources.fleet_format import Problems, Rows


@dataclass
class Table:
    """The rows of a table that the file names, as they will be. `changed`: row → the fields that change."""

    rows: dict[str, Any] = field(default_factory=dict)
    created: list[Any] = field(default_factory=list)
    changed: dict[Any, set[str]] = field(default_factory=dict)

    def write(self, model: Any) -> None:
        """Write what is new and what changes, in batches."""
        if model._meta.parents:  # two tables: Django creates such rows one by one
            for row in self.created:
                row.save(force_insert=True)
        else:
            model.objects.bulk_create(self.created, batch_size=1000)
        if self.changed:
            fields = set().union(*self.changed.values())
            model.objects.bulk_update(list(self.changed), sorted(fields), batch_size=500)


def build(
    model: Any, section: str, rows: Rows, problems: Problems, existing: dict[str, Any] | None = None, **fixed: Any
) -> Table:
    """Set and check the fields of each row of a section, on the existing row of its name or on a new one.

    `existing`: name → row, for a model that has no name of its own; `fixed`: fields that every new row gets. What is
    wrong with a row is added to `problems`. Nothing is written.
    """
    table = Table()
    if existing is None:
        existing = by_name(model.objects.filter(name__in=[row["name"] for row in rows.values()]))
    skipped = [f.name for f in model._meta.concrete_fields if f.is_relation or f.choices]  # checked elsewhere
    for number, row in rows.items():
        instance = existing.get(row["name"]) or model(**fixed)
        values = {key: value for key, value in row.items() if key != "name" or hasattr(instance, "name")}
        before = {key: getattr(instance, key) if instance.pk else None for key in values}
        for key, value in values.items():
            setattr(instance, key, value)
        _check(problems, section, number, row["name"], instance, skipped)
        if instance.pk is None:
            table.created.append(instance)
        elif changed := {key for key in values if before[key] != getattr(instance, key)}:
            table.changed[instance] = changed
        table.rows[row["name"]] = instance
    return table


def _check(
    problems: Problems, section: str, number: int, name: str, instance: models.Model, skipped: list[str]
) -> None:
    try:
        # uniqueness is the file's (checked) and the database's
        instance.full_clean(validate_unique=False, validate_constraints=False, exclude=skipped)
    except ValidationError as error:
        for where, messages in error.message_dict.items():
            problems.add(section, number, name, f"{where}: {' '.join(messages)}")


def by_name(rows: Iterable[Any]) -> dict[str, Any]:
    """The rows by their names."""
    return {row.name: row for row in rows}
