"""What a model declares, as the database would say it."""

from django.db import connection
from django.db.models import CheckConstraint, F, Index, Model, UniqueConstraint
from django.db.models.expressions import OrderBy

Keys = tuple[tuple[str, int], ...]
"""The keys of an index: (column, DESCENDING | NULLS_FIRST), as `pg_index.indoption` has them."""

DESCENDING, NULLS_FIRST = 1, 2


def keys_of(model: type[Model], declared: Index | UniqueConstraint) -> Keys:
    """The keys in their order. An expression that is no plain column stands for itself."""
    expressions = declared.expressions or [F(name) for name in declared.fields]
    return tuple(_key(model, expression) for expression in expressions)


def _key(model: type[Model], expression: object) -> tuple[str, int]:
    options = 0
    if isinstance(expression, OrderBy):
        options = DESCENDING if expression.descending else 0
        # PostgreSQL sorts NULL as the largest value
        if expression.nulls_first or (expression.descending and not expression.nulls_last):
            options |= NULLS_FIRST
        expression = expression.expression
    if isinstance(expression, F):
        name: str = expression.name  # type: ignore[attr-defined]
        return str(model._meta.get_field(name).column), options  # type: ignore[union-attr]
    return str(expression), options


def name_of_key(model: type[Model]) -> tuple[str, ...]:
    """The columns of the primary key."""
    return tuple(str(field.column) for field in model._meta.pk_fields)


def create_sql(model: type[Model], declared: Index | UniqueConstraint | CheckConstraint) -> str:
    """The statement that makes it, an index without blocking the workers."""
    editor = connection.schema_editor(collect_sql=True)
    statement = str(declared.create_sql(model, editor)).rstrip(";")
    for kind in ("CREATE INDEX", "CREATE UNIQUE INDEX"):
        statement = statement.replace(f"{kind} ", f"{kind} CONCURRENTLY ", 1)
    return f"{statement};"
