"""Whether the database has what the models declare, valid and in use, and what the migrations made beside it.

The locking design is made of them. A migration marked as applied, a restore that went on after an error, or a
`CREATE INDEX CONCURRENTLY` that failed leaves a database that runs, slowly or wrongly.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from django.apps import apps
from django.db.backends.utils import CursorWrapper
from django.db.models import CheckConstraint, Index, Model, UniqueConstraint

from operations.doctor.asking import rows
from operations.doctor.declared import Keys, create_sql, keys_of, name_of_key
from operations.doctor.finding import Finding, listed, ok, problem

# Only of ordinary ones: what a UNIQUE field makes has a name of the database's own choice.
INDEXES = """
SELECT t.relname, c.relname, i.indisvalid AND i.indisready, i.indisunique, i.indpred IS NOT NULL,
       ARRAY(SELECT pg_get_indexdef(i.indexrelid, key, true) FROM generate_series(1, i.indnkeyatts) AS key),
       string_to_array(i.indoption::text, ' ')::int[], i.indisprimary
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

OURS = ("jobs", "delivery", "schedules", "operations", "api", "sources")
"""Apps whose tables are looked at, as far as they are installed."""

MADE_BY_MIGRATIONS = {
    "jobs_attempt_entry": "0002", "jobs_claim_beside_throttles": "0002", "jobs_room": "0002",
    "jobs_tokens": "0002", "jobs_throttle_edited": "0002",
}  # fmt: skip
"""Views and functions, which no model declares, and the migrations that made them."""

VIEWS_AND_FUNCTIONS = """
SELECT relname FROM pg_class WHERE relname = ANY(%(names)s) AND pg_table_is_visible(oid)
UNION
SELECT proname FROM pg_proc WHERE proname = ANY(%(names)s) AND pg_function_is_visible(oid)
"""


@dataclass(frozen=True)
class Built:
    """An index as it stands in the database."""

    table: str
    name: str
    valid: bool
    unique: bool
    partial: bool
    keys: Keys
    primary: bool


@dataclass(frozen=True)
class Fault:
    """What is wrong with one index or constraint, and the statements that put it right."""

    name: str
    wrong: str
    sql: str


def schema(cursor: CursorWrapper, now: datetime) -> Finding:
    """Whether every index and constraint that a model of the backlog declares is there and holds.

    Of a partial index it is asked that it is partial, not on which condition.
    """
    models = [model for model in apps.get_models() if model._meta.managed and model._meta.app_label in OURS]
    tables = {"tables": [model._meta.db_table for model in models]}
    built = [
        Built(table, name, valid, unique, partial, tuple(zip(columns, options, strict=False)), primary)
        for table, name, valid, unique, partial, columns, options, primary in rows(cursor, INDEXES, tables)
    ]
    checks = {(table, name): bool(valid) for table, name, valid in rows(cursor, CHECKS, tables)}
    made = {str(name) for (name,) in rows(cursor, VIEWS_AND_FUNCTIONS, {"names": list(MADE_BY_MIGRATIONS)})}
    faults = [fault for model in models for fault in _faults(model, built, checks)]
    faults += [
        Fault(name, "the database is missing", f"run the SQL that manage.py sqlmigrate jobs {number} prints;")
        for name, number in MADE_BY_MIGRATIONS.items()
        if name not in made
    ]
    if not faults:
        return ok("schema", f"all are there and valid: {len(built)} indexes, {len(checks)} check constraints")
    return problem(
        "schema",
        listed([f"{fault.name} of {fault.wrong}" for fault in faults]),
        " ".join(fault.sql for fault in faults),
        names=[fault.name for fault in faults],
    )


def _faults(model: type[Model], built: list[Built], checks: dict[tuple[str, str], bool]) -> Iterator[Fault]:
    table = model._meta.db_table
    mine = {index.name: index for index in built if index.table == table}
    yield from _fault_of_key(model, list(mine.values()))
    for declared in (*model._meta.indexes, *model._meta.constraints):
        if isinstance(declared, CheckConstraint):
            yield from _fault_of_check(model, declared, checks.get((table, declared.name)))
        elif isinstance(declared, Index | UniqueConstraint):
            yield from _fault_of_index(model, declared, mine.get(declared.name))


def _fault_of_key(model: type[Model], mine: list[Built]) -> Iterator[Fault]:
    table, columns = model._meta.db_table, name_of_key(model)
    if not any(index.primary and index.valid and tuple(name for name, _ in index.keys) == columns for index in mine):
        key = ", ".join(columns)
        yield Fault("the primary key", f"{table} is missing", f"ALTER TABLE {table} ADD PRIMARY KEY ({key});")


def _fault_of_check(model: type[Model], declared: CheckConstraint, valid: bool | None) -> Iterator[Fault]:
    table = model._meta.db_table
    if valid is None:
        yield Fault(declared.name, f"{table} is missing", create_sql(model, declared))
    elif not valid:
        sql = f"ALTER TABLE {table} VALIDATE CONSTRAINT {declared.name};"
        yield Fault(declared.name, f"{table} is not valid for all rows", sql)


def _fault_of_index(model: type[Model], declared: Index | UniqueConstraint, index: Built | None) -> Iterator[Fault]:
    table, name = model._meta.db_table, declared.name
    if index is None:
        yield Fault(name, f"{table} is missing", create_sql(model, declared))
    elif not index.valid:
        yield Fault(name, f"{table} is not valid", f"REINDEX INDEX CONCURRENTLY {name};")
    elif (index.unique, index.partial, index.keys) != (
        isinstance(declared, UniqueConstraint),
        declared.condition is not None,
        keys_of(model, declared),
    ):
        again = f"DROP INDEX CONCURRENTLY {name}; {create_sql(model, declared)}"
        yield Fault(name, f"{table} is another index than the one declared", again)
