"""A backup whose settle waits for a lock until the next period has begun: that period is not lost."""

from collections.abc import Iterator
from datetime import datetime

import pytest
from django.db import connection

from engines.base import EngineResult, Verdict
from jobs import breakers, periodic, settling
from jobs.models import Breaker
from jobs.outcomes import Succeeded
from sources import planning
from sources.availability import repository_breaker
from tests.sources.factories import handed_on, make_assignment, make_policy, record_of
from tests.sources.planning.planned import DAY, NINE, SECOND
from tests.threads import a_lock_is_waited_for, another_connection, beside
from tests.waiting import PATIENCE, eventually

pytestmark = pytest.mark.django_db(transaction=True)

HOLDS = {
    "the record": "SELECT FROM jobs_backlogrecord WHERE id = %(id)s FOR UPDATE",
    "its key": "SELECT pg_advisory_xact_lock(hashtextextended(%(key)s, 0))",
    "the breaker": "SELECT FROM jobs_breaker FOR UPDATE",
}


class Clock:
    """The database's clock for sessions that look into its schema first: it stands where it is `set`."""

    SCHEMA = "stopped"

    def __init__(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                f"""
                CREATE SCHEMA {self.SCHEMA};
                CREATE TABLE {self.SCHEMA}.clock AS SELECT now() AS at;
                CREATE FUNCTION {self.SCHEMA}.clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE sql
                RETURN (SELECT at FROM {self.SCHEMA}.clock)
                """
            )

    def set(self, at: datetime) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"UPDATE {self.SCHEMA}.clock SET at = %s", [at])

    def is_this_threads(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SET search_path = {self.SCHEMA}, pg_catalog, public")


@pytest.fixture
def clock() -> Iterator[Clock]:
    yield Clock()
    with connection.cursor() as cursor:
        cursor.execute(f"DROP SCHEMA {Clock.SCHEMA} CASCADE; RESET search_path")


@pytest.mark.parametrize("hold", HOLDS)
def test_a_settle_reads_the_clock_after_the_last_lock_that_it_waits_for(clock, hold):
    assignment = make_assignment()
    repository = repository_breaker.guarded_by(assignment.policy.repository)
    Breaker.objects.create(key=breakers.key_of(repository), title="it has failed before", failures=1)
    planning.emit_due(NINE)
    claimed = handed_on(assignment, NINE)
    clock.set(NINE + DAY - SECOND)

    def settle() -> None:
        clock.is_this_threads()
        copied = Succeeded(EngineResult(Verdict.SUCCEEDED), proves=repository)
        settling.settle([(claimed, copied)]).raise_if_lost()

    with another_connection() as other:
        other.execute(HOLDS[hold], {"id": claimed.id, "key": claimed.exclusive_key})
        under_way = beside(settle)
        eventually(a_lock_is_waited_for)
        clock.set(NINE + DAY + SECOND)
        other.commit()
    under_way.result(PATIENCE)
    assert record_of(assignment).trigger_at == NINE + DAY


def test_a_workers_round_of_each_minute_finds_what_a_commit_left_behind_a_trigger(clock):
    assignment = make_assignment(make_policy(), next_backup_at=NINE)  # settled at nine, after the trigger was emitted
    clock.is_this_threads()
    clock.set(NINE + SECOND)
    periodic.run_minutely()
    assert record_of(assignment).trigger_at == NINE
