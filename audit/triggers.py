"""The trigger of each table that is followed, made after migrations from the list in `tables`.

A trigger names its columns: an update of others costs nothing. Triggers are removed before migrations, since no column
of a trigger can change its type, and changes by a migration are not a user's. A new column needs no migration here.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

from django.db import OperationalError, connections, transaction

from audit.tables import AuditedTable, followed
from jobs.database_errors import LOCK_NOT_HAD, code_of

PREFIX = "audit_of_"

CREATE_FUNCTION = """
CREATE OR REPLACE FUNCTION audit_note_change() RETURNS trigger LANGUAGE plpgsql AS $function$
DECLARE
    -- arguments: label, primary key, what names a row, columns, those that are hidden
    was jsonb := CASE WHEN TG_OP = 'INSERT' THEN NULL ELSE to_jsonb(OLD) END;
    becomes jsonb := CASE WHEN TG_OP = 'DELETE' THEN NULL ELSE to_jsonb(NEW) END;
    this jsonb := COALESCE(becomes, was);
    told jsonb := NULLIF(current_setting('backupsched.actor', true), '')::jsonb;
    names text[] := TG_ARGV[3]::text[];
    hidden text[] := TG_ARGV[4]::text[];
    title text;
    old_values jsonb;
    new_values jsonb;
BEGIN
    SELECT COALESCE(jsonb_object_agg(name, old_value) FILTER (WHERE old_value IS NOT NULL), '{}'),
           COALESCE(jsonb_object_agg(name, new_value) FILTER (WHERE new_value IS NOT NULL), '{}')
      INTO old_values, new_values
      FROM (
        SELECT name,
               CASE WHEN name = ANY(hidden) AND NOT was -> name IS EMPTY THEN '"(hidden)"' ELSE was -> name END,
               CASE WHEN name = ANY(hidden) AND NOT becomes -> name IS EMPTY
                    THEN (CASE TG_OP WHEN 'UPDATE' THEN '"(hidden, another one)"' ELSE '"(hidden)"' END)::jsonb
                    ELSE becomes -> name END
          FROM unnest(names) AS name
         WHERE was -> name IS DISTINCT FROM becomes -> name
           AND (TG_OP = 'UPDATE' OR NOT this -> name IS EMPTY)
      ) AS differs (name, old_value, new_value);
    IF TG_OP = 'UPDATE' AND old_values = '{}' AND new_values = '{}' THEN
        RETURN NULL;
    END IF;
    IF this ? TG_ARGV[2] THEN
        title := this ->> TG_ARGV[2];
    ELSE
        EXECUTE 'SELECT ' || TG_ARGV[2] INTO title USING this;
    END IF;
    INSERT INTO audit_entry (at, who, via, about, row_id, name, verb, before, after, text)
    VALUES (
        clock_timestamp(),
        left(COALESCE(told ->> 'who', session_user || '@' || COALESCE(host(inet_client_addr()), 'this host')), 200),
        left(COALESCE(told ->> 'via', 'SQL, by ' || COALESCE(NULLIF(current_setting('application_name'), ''), '?')),
             200),
        TG_ARGV[0], left(this ->> TG_ARGV[1], 200), left(COALESCE(title, ''), 200),
        CASE TG_OP WHEN 'INSERT' THEN 'created' WHEN 'UPDATE' THEN 'changed' ELSE 'deleted' END,
        old_values, new_values, ''
    );
    RETURN NULL;
END
$function$
""".replace("IS EMPTY", "IN ('null', '\"\"', '{}', '[]')")

DROP_FUNCTION = "DROP FUNCTION IF EXISTS audit_note_change() CASCADE"

OURS = """
SELECT c.relname, COALESCE(obj_description(t.oid, 'pg_trigger'), '')
  FROM pg_trigger AS t
  JOIN pg_class AS c ON c.oid = t.tgrelid
 WHERE t.tgname = %s || c.relname AND c.relnamespace = current_schema()::regnamespace"""

THERE = """
SELECT c.relname, a.attname
  FROM pg_class AS c
  JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
 WHERE c.relname = ANY(%s) AND c.relnamespace = current_schema()::regnamespace"""


def remove_before(using: str, plan: Sequence[Any], **_: Any) -> None:
    """Remove all triggers before migrations that change something."""
    if not plan:
        return
    with connections[using].cursor() as cursor:
        cursor.execute(OURS, [PREFIX])
        for table, _text in cursor.fetchall():
            cursor.execute(f'DROP TRIGGER "{PREFIX}{table}" ON "{table}"')


def install_after(using: str, **_: Any) -> None:
    """Make the missing triggers, and those that have changed. A table whose lock is not available does not stop the
    others. Raises: django.db.utils.OperationalError, the first one, when all have been tried.
    """
    errors: list[OperationalError] = []
    with connections[using].cursor() as cursor:
        cursor.execute(OURS, [PREFIX])
        made: dict[str, str] = dict(cursor.fetchall())
        wanted = {each.table: _statement(each) for each in followed.values()}
        if all(made.get(table) == _digest(sql) for table, sql in wanted.items()):
            return
        cursor.execute(THERE, [["audit_entry", *wanted]])
        there: dict[str, set[str]] = {}
        for table, column in cursor.fetchall():
            there.setdefault(table, set()).add(column)
        if "audit_entry" not in there:  # migrated back
            return
        cursor.execute(CREATE_FUNCTION)
        for table, sql in wanted.items():
            if made.get(table) == _digest(sql) or not set(followed[table].columns) <= there.get(table, set()):
                continue
            try:
                with transaction.atomic(using):
                    cursor.execute(sql)
                    cursor.execute(f'COMMENT ON TRIGGER "{PREFIX}{table}" ON "{table}" IS \'{_digest(sql)}\'')
            except OperationalError as error:
                if code_of(error) != LOCK_NOT_HAD:
                    raise
                errors.append(error)
    if errors:
        raise errors[0]


def missing(using: str = "default") -> list[str]:
    """Tables whose changes are not seen, such as after a migration stopped half-way."""
    with connections[using].cursor() as cursor:
        cursor.execute(OURS, [PREFIX])
        made = {table for table, _ in cursor.fetchall()}
    return sorted(followed.keys() - made)


def _statement(each: AuditedTable) -> str:
    arguments = (each.label, str(each.model._meta.pk.column), each.title, _array(each.columns), _array(each.hidden))
    values = ", ".join("'{}'".format(value.replace("'", "''")) for value in arguments)
    columns = ", ".join(f'"{column}"' for column in each.columns)
    return (
        f'CREATE OR REPLACE TRIGGER "{PREFIX}{each.table}" AFTER INSERT OR DELETE OR UPDATE OF {columns} '
        f'ON "{each.table}" FOR EACH ROW EXECUTE FUNCTION audit_note_change({values})'
    )


def _digest(sql: str) -> str:
    """The digest of a trigger and its function."""
    return hashlib.sha256(f"{sql}{CREATE_FUNCTION}".encode()).hexdigest()[:16]


def _array(columns: Sequence[str]) -> str:
    return "{" + ",".join(columns) + "}"
