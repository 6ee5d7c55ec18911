"""Validates every row by the newest program: run as a file after a migration. Prints the complaints of `full_clean`
about each row, and the tables that have rows."""

import json
import sys

import django
from django.apps import apps
from django.core.exceptions import ValidationError
from django.db import models


def _empty(row: models.Model) -> set[str]:
    """The empty columns: forms require values in them, tables do not."""
    return {each.name for each in row._meta.concrete_fields if getattr(row, each.attname) in each.empty_values}


def main() -> None:
    django.setup()
    found: dict[str, list[str]] = {}
    counts: dict[str, int] = {}
    for model in apps.get_models():
        if not model._meta.managed or model._meta.proxy:
            continue
        for row in model._base_manager.all():
            counts[model._meta.db_table] = counts.get(model._meta.db_table, 0) + 1
            try:
                row.full_clean(exclude=_empty(row))
            except ValidationError as error:
                found.setdefault(model._meta.db_table, []).append(str(error))
    sys.stdout.write(json.dumps({"problems": found, "rows": counts}))


if __name__ == "__main__":
    main()
