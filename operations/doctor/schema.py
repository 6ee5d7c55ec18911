"""Whether the database has what the models declare, valid and in use, and what the migrations made beside it.

The locking design is made of them. A migration marked as applied, a restore that went on after an error, or a
`CREATE INDEX CONCURRENTLY` that failed leaves a database that runs, slowly or wrongly.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.apps import apps
from django.db import connection
from django.db.backends.utils import CursorWrapper
from django.db.models import CheckConstraint, F, Index, Model, UniqueConstraint
from django.db.models.expressions import OrderBy

from audit import triggers
from declarations.surfaces.finding import Answer, condition, listed, ok, problem, rows
from jobs.conf import PROGRAM

# Only of ordinary ones: what a UNIQUE field makes has a name of the database's own choice.
INDEXES = """
SELECT t.relname, c.relname, i.indisvalid AND i.indisready, i.indisprimary, i.indisunique, i.indpred IS NOT NULL,
       ARRAY(SELECT pg_get_indexdef(i.indexrelid, key, true) FROM generate_series(1, i.indnkeyatts) AS key),
       string_to_array(i.indoption::text, ' ')::int[]
  FROM pg_index i
  JOIN pg_class c ON c.oid = i.indexrelid
  JOIN pg_class t ON t.oid = i.indrelid
 WHERE t.relname = ANY(%(tables)s) AND pg_table_is_visible(t.oid)
"""

CHECKS = """
SELECT t.relname, c.conname, c.convalidated
  FROM pg_constraint c
  JOIN pg_class t ON t.oid = c.conrelid
 WHERE c.contype = 'c' AND t.relname = ANY(%(tables)s) AND pg_table_is_visible(t.oid)
"""

OURS = ("jobs", "delivery", "schedules", "operations", "sources", "alerting", "dashboard", "api", "audit")
"""Apps whose tables are looked at, as far as they are installed."""

MADE_BY_MIGRATIONS = {
    "operations_attempt_entry": "operations 0002", "jobs_claim_beside_throttles": "jobs 0002", "jobs_room": "jobs 0002",
    "jobs_tokens": "jobs 0002", "jobs_throttle_edited": "jobs 0002", "backups_of_subject": "sources 0002",
}  # fmt: skip
"""Views, functions and indexes, which no model declares, and the migrations that made them."""

VIEWS_AND_FUNCTIONS = """
SELECT relname FROM pg_class WHERE relname = ANY(%(names)s) AND pg_table_is_visible(oid)
UNION
SELECT proname FROM pg_proc WHERE proname = ANY(%(names)s) AND pg_function_is_visible(oid)
"""

DESCENDING, NULLS_FIRST = 1, 2
"""As `pg_index.indoption` has them."""

Built = dict[tuple[str, str], tuple[Any, ...]]
"""(table, index) → valid, primary, unique, partial, keys with their options; or (table, check) → valid."""

Fault = tuple[str, str, str]
"""The name of an index or constraint, what is wrong with it, and the statements that put it right."""


@condition("")
def schema(cursor: CursorWrapper, now: datetime) -> Answer:
    """Whether every index and constraint that a model of ours declares is there and holds.

    Of a partial index it is asked that it is partial, not on which condition.
    """
    models = [model for model in apps.get_models() if model._meta.managed and model._meta.app_label in OURS]
    tables = [model._meta.db_table for model in models]
    there = connection.introspection.table_names(cursor)
    if lost := [table for table in tables if table not in there]:
        do = f"stop the workers, `{PROGRAM} migrate`; what that does not make was lost: restore the database"
        return problem(f"the database lacks {listed(lost)}", do, names=lost)
    indexes: Built = {
        (table, name): (*facts, list(zip(columns, options, strict=False)))
        for table, name, *facts, columns, options in rows(cursor, INDEXES, tables=tables)
    }
    checks: Built = {(table, name): (valid,) for table, name, valid in rows(cursor, CHECKS, tables=tables)}
    made = {str(name) for (name,) in rows(cursor, VIEWS_AND_FUNCTIONS, names=list(MADE_BY_MIGRATIONS))}
    faults = [fault for model in models for fault in _faults(model, indexes, checks)]
    faults += [
        (name, "the database is missing", f"run the SQL that {PROGRAM} sqlmigrate {number} prints;")
        for name, number in MADE_BY_MIGRATIONS.items()
        if name not in made
    ]
    if unseen := triggers.missing():
        do = f"`{PROGRAM} migrate` makes the triggers; until then the audit sees no change of these tables"
        return problem(f"the audit has no trigger of {listed(unseen)}", do, names=unseen)
    if not faults:
        return ok(f"all are there and valid: {len(indexes)} indexes, {len(checks)} check constraints")
    what = listed([f"{name} of {wrong}" for name, wrong, _ in faults])
    return problem(what, " ".join(sql for *_, sql in faults), names=[name for name, *_ in faults])


def _faults(model: type[Model], indexes: Built, checks: Built) -> Iterator[Fault]:
    table, key = model._meta.db_table, [str(field.column) for field in model._meta.pk_fields]
    mine = [facts for (owner, _), facts in indexes.items() if owner == table]
    if not any(valid and primary and [name for name, _ in keys] == key for valid, primary, _, _, keys in mine):
        sql = f"ALTER TABLE {table} ADD PRIMARY KEY ({', '.join(key)});"
        yield "the primary key", f"{table} is missing", sql
    for declared in (*model._meta.indexes, *model._meta.constraints):
        name, is_check = declared.name, isinstance(declared, CheckConstraint)
        if not isinstance(declared, CheckConstraint | Index | UniqueConstraint):
            continue
        built = (checks if is_check else indexes).get((table, name))
        if built is None:
            yield name, f"{table} is missing", _create_sql(model, declared)
        elif not built[0]:
            validate = f"ALTER TABLE {table} VALIDATE CONSTRAINT {name};"
            wrong = f"{table} is not valid{' for all rows' if is_check else ''}"
            yield name, wrong, validate if is_check else f"REINDEX INDEX CONCURRENTLY {name};"
        elif not isinstance(declared, CheckConstraint) and built[2:] != _declared(model, declared):
            sql = f"DROP INDEX CONCURRENTLY {name}; {_create_sql(model, declared)}"
            yield name, f"{table} is another index than the one declared", sql


def _declared(model: type[Model], declared: Index | UniqueConstraint) -> tuple[Any, ...]:
    """Unique, partial, keys, as in `Built`. An expression that is no plain column stands for itself."""
    keys = [_key(model, expression) for expression in declared.expressions or map(F, declared.fields)]
    return isinstance(declared, UniqueConstraint), declared.condition is not None, keys


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


def _create_sql(model: type[Model], declared: Index | UniqueConstraint | CheckConstraint) -> str:
    """The statement that makes it, an index without blocking the workers."""
    statement = str(declared.create_sql(model, connection.schema_editor(collect_sql=True))).rstrip(";")
    for kind in ("CREATE INDEX", "CREATE UNIQUE INDEX"):
        statement = statement.replace(f"{kind} ", f"{kind} CONCURRENTLY ", 1)
    return f"{statement};"
