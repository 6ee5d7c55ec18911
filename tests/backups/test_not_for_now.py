"""A source that answers and cannot be read for now."""

from datetime import timedelta

import pytest

from backups.copying.not_for_now import put_off
from jobs import tick
from jobs.clock import database_clock
from jobs.models import BacklogRecord
from jobs.outcomes import Failed, Postponed, Unavailable
from jobs.states import Status, WaitingFor
from sources import planning
from tests.sources.factories import handed_on, make_assignment, settle

pytestmark = pytest.mark.django_db
REASON = "a table stayed locked"


def test_it_is_put_off_twice_without_a_failure_and_fails_the_third_time_in_a_row() -> None:
    assignment, now = make_assignment(), database_clock()
    planning.emit_due(now)
    for attempt in range(1, 9):
        claimed = handed_on(assignment, now)
        outcome = put_off(claimed, REASON, 60) if attempt != 3 else Unavailable("it vanished", 60)
        assert isinstance(outcome, Failed if attempt == 6 else (Postponed, Unavailable)), attempt
        settle(claimed, outcome, now)
        record = BacklogRecord.objects.get()
        if attempt == 6:
            assert (record.failures, REASON in record.last_error, "3 times in a row" in record.last_error) == (
                1,
                True,
                True,
            )
        else:
            waits_for = (record.status, record.waiting_for, record.failures)
            assert waits_for == (Status.WAITING, WaitingFor.RECHECK, int(attempt > 6)), attempt
        now += timedelta(hours=2)
        tick.tick(now, rescue=False)
