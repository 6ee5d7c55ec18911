"""A database error is answered by the code of the server, not by the class of the exception."""

import psycopg
import pytest
from django.db import connection
from django.db.migrations.exceptions import MigrationSchemaMissing
from django.db.migrations.recorder import MigrationRecorder
from django.db.utils import Error, IntegrityError, InterfaceError, InternalError, OperationalError
from psycopg import errors

from jobs.database_errors import DatabaseTrouble, code_of, describe, trouble_of

AWAY = ["08006", "08001", "25006", "25P03", "53100", "53300", "57P01", "57P02", "57P03", "57P05", "58000", "58030"]
BUSY = ["40001", "40P01", "55P03", "57014", "53200"]
OURS = ["23505", "42P01", "22P02", "25P02", "23514"]


def raised_by_the_server(code: str) -> Error:
    """Django's exception for an error with this code."""
    with pytest.raises(Error) as raised, connection.wrap_database_errors:
        raise errors.lookup(code)("no")
    return raised.value


@pytest.mark.parametrize(
    ("code", "trouble"),
    [(code, trouble) for trouble, codes in zip(DatabaseTrouble, (AWAY, BUSY, OURS), strict=True) for code in codes],
)
def test_the_servers_code_decides_for_djangos_error_and_for_psycopgs(code: str, trouble: DatabaseTrouble) -> None:
    assert trouble_of(raised_by_the_server(code)) is trouble
    assert trouble_of(errors.lookup(code)("no")) is trouble
    assert code_of(raised_by_the_server(code)) == code


@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        *((lost("cut"), DatabaseTrouble.AWAY) for lost in (OperationalError, InterfaceError, psycopg.OperationalError)),
        *((ours("no"), DatabaseTrouble.OURS) for ours in (ValueError, IntegrityError, InternalError)),
    ],
)
def test_an_error_without_a_code_of_a_connection_means_that_nothing_answered(error: Exception, trouble) -> None:
    assert trouble_of(error) is trouble


@pytest.mark.django_db(transaction=True)
def test_a_real_server_that_refuses_writes_is_away_though_it_says_internal_error() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET default_transaction_read_only = on")
        try:
            with pytest.raises(InternalError) as refused:
                cursor.execute("DELETE FROM jobs_worker")
        finally:
            cursor.execute("SET default_transaction_read_only = off")
    assert trouble_of(refused.value) is DatabaseTrouble.AWAY


@pytest.mark.django_db(transaction=True)
def test_any_error_on_a_connection_that_was_cut_means_away() -> None:
    connection.ensure_connection()
    connection.connection.close()
    try:
        assert trouble_of(InternalError("what it was doing just then")) is DatabaseTrouble.AWAY
    finally:
        connection.close()


@pytest.mark.django_db
def test_a_role_that_may_make_no_tables_is_named_with_the_grant() -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE ROLE maker; CREATE SCHEMA bare; GRANT USAGE ON SCHEMA bare TO maker")
        cursor.execute("SET LOCAL search_path = bare; SET LOCAL ROLE maker")
    with pytest.raises(MigrationSchemaMissing) as missing:
        MigrationRecorder(connection).ensure_schema()
    connection.set_rollback(True)
    said = describe(missing.value)
    assert "lacks a right in the database" in said
    assert "permission denied for schema bare" in said
    assert "GRANT USAGE, CREATE ON schema bare TO" in said
