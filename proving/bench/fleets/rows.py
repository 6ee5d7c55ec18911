"""Many rows from one: the ORM makes the pattern, with all its defaults, and one statement makes the rest."""

from typing import Any

from django.db import connection, models


def up_to(count: int, pattern: models.Model, values: dict[str, Any] | None = None, **expressions: str) -> None:
    """Make rows like `pattern`, which is the first, until there are `count`: numbered n = 2, 3, …

    `expressions`: column → SQL in which `n` is the number, with `values` for its parameters.
    """
    meta = pattern._meta
    columns = [field.column for field in meta.concrete_fields if field.column and not field.primary_key]
    chosen = ", ".join(f"{expressions[name]}" if name in expressions else f"pattern.{name}" for name in columns)
    with connection.cursor() as cursor:
        # the names are the model's, the expressions this package's
        cursor.execute(
            f"INSERT INTO {meta.db_table} ({', '.join(columns)}) "
            f"SELECT {chosen} FROM {meta.db_table} AS pattern, generate_series(2::bigint, %(count)s) AS n "
            "WHERE pattern.id = %(pattern)s ORDER BY n",
            {"count": count, "pattern": pattern.pk, **(values or {})},
        )
