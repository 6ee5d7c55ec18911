"""Breakers over hours, in steps of two minutes: trials that take long to fail, and clocks that were wrong."""

from datetime import datetime, timedelta

import pytest

from jobs import breakers, settling
from jobs.breakers import verbs
from jobs.outcomes import ClaimedRecord
from tests.factories import NOON, claim_ready
from tests.jobs.breaking import MINUTE, OFFICE, SECOND, breaker, fail, hold, open_it, succeed, tick

pytestmark = pytest.mark.django_db

STEP = 2 * MINUTE
TEN_MINUTES = 10 * MINUTE


def let_through(now: datetime) -> list[ClaimedRecord]:
    """The records that a worker begins at `now`, after handlers have asked the breaker."""
    tick(now)
    begun = []
    for record in claim_ready(now=now):
        if held := breakers.refusal(OFFICE, record):
            settling.settle([(record, held)], now=now)
        else:
            begun.append(record)
    return begun


@pytest.mark.slow
@pytest.mark.parametrize(("waiting", "at_most"), [(1, 20), (9, 40)])
def test_trials_that_take_ten_minutes_to_fail_come_less_and_less(waiting: int, at_most: int) -> None:
    open_it()
    hold(waiting)
    running: list[tuple[datetime, ClaimedRecord]] = []
    begun, now = 0, NOON
    while now < NOON + timedelta(hours=6):
        started = let_through(now)
        begun += len(started)
        running += [(now + TEN_MINUTES, record) for record in started]
        fail([record for ends_at, record in running if ends_at <= now], now)
        running = [(ends_at, record) for ends_at, record in running if ends_at > now]
        now += STEP
    assert breaker().trials > 5
    assert begun <= at_most


def test_a_clock_that_was_a_year_ahead_keeps_no_breaker_open_until_then() -> None:
    open_it(NOON + timedelta(days=365))
    hold(3, NOON)
    assert breakers.correct_clocks(NOON) > 0
    due = NOON + 14 * MINUTE
    verbs.probe_now([breaker().pk], now=due)
    assert breakers.correct_clocks(NOON) == 0
    assert breaker().probe_at == due
    now = NOON
    while breaker().is_open and now < NOON + timedelta(hours=1):
        succeed(let_through(now), now + SECOND)
        now += STEP
    assert not breaker().is_open
