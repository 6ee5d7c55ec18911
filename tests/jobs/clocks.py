"""The database's clock, set forward inside a transaction."""

from django.db import connection


def step_the_databases_clock(seconds: float) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            CREATE SCHEMA IF NOT EXISTS stepped;
            CREATE OR REPLACE FUNCTION stepped.clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE sql
            RETURN pg_catalog.clock_timestamp() + interval '{seconds} seconds';
            SET LOCAL search_path = stepped, pg_catalog, public;
            """
        )
