"""Rows of a model from one statement: columns that are not given get the model's defaults."""

from typing import Any, cast

from django.db import connection, models


def insert(model: type[models.Model], rows: str, values: dict[str, Any], **expressions: str) -> str:
    """The statement that makes one row of `model` for each of `rows`, the text after a FROM. `expressions`: column →
    SQL. Defaults are added to `values`, its parameters."""
    columns: dict[str, str] = {}
    for field in cast("list[Any]", model._meta.local_concrete_fields):
        if field.column in expressions:
            columns[field.column] = expressions[field.column]
        elif not (field.primary_key or field.null or _is_of_database(field)):
            name = f"{model._meta.model_name}_{field.column}"
            values[name] = field.get_db_prep_save(field.get_default(), connection)
            columns[field.column] = f"%({name})s::{field.db_type(connection)}"
    chosen = ",\n       ".join(columns.values())
    return f"INSERT INTO {model._meta.db_table} ({', '.join(columns)})\nSELECT {chosen}\n  FROM {rows}"


def run(sql: str, values: dict[str, Any]) -> None:
    """Run one of this package's statements."""
    with connection.cursor() as cursor:
        cursor.execute(sql, values)


def _is_of_database(field: Any) -> bool:
    return bool(field.has_db_default())
