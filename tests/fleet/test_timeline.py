"""The timeline of a source: what it waited for, without gaps. Without a database."""

import time
from datetime import timedelta

from fleet.explaining.timeline import Life, PastAttempt, Span, stretches
from jobs.states import AttemptOutcome, Status
from operations.backlog.reason import Code
from tests.sources.factories import MONDAY

HOUR = timedelta(hours=1)


def test_a_timeline_has_no_gaps_and_puts_pauses_above_windows_above_waits() -> None:
    begins, life = MONDAY, []
    life.append(
        Life(begins + HOUR, begins + 9 * HOUR, Status.FAILED, [
            PastAttempt(begins + 2 * HOUR, begins + 2.1 * HOUR, AttemptOutcome.UNAVAILABLE, copied=False, why="silent"),
            PastAttempt(begins + 5 * HOUR, begins + 6 * HOUR, AttemptOutcome.RELEASED, copied=False, decided="held"),
            PastAttempt(begins + 8 * HOUR, begins + 9 * HOUR, AttemptOutcome.FAILED, copied=True, why="broken"),
        ])
    )  # fmt: skip
    closed = [Span(begins + 3 * HOUR, begins + 4 * HOUR), Span(begins + 8.5 * HOUR, None)]
    idle = [
        (Code.PAUSED, Span(begins + 3.5 * HOUR, begins + 5.5 * HOUR)),
        (Code.ON_HOLD, Span(begins + 10 * HOUR, None)),
    ]
    found = stretches(life, closed, idle, begins, begins + 12 * HOUR)
    assert [(each.code, (each.begins - begins) / HOUR) for each in found] == [
        (Code.NOT_DUE, 0), (Code.READY, 1), (Code.ABSENT, 2), (Code.WINDOW, 3), (Code.PAUSED, 3.5), (Code.BREAKER, 5.5),
        (Code.RUNNING, 8), (Code.FAILED, 9), (Code.ON_HOLD, 10),
    ]  # fmt: skip
    assert [each.ends for each in found[:-1]] == [each.begins for each in found[1:]]
    assert (found[-2].why, found[-1].ends) == ("broken", begins + 12 * HOUR)


def test_a_window_of_many_openings_costs_a_timeline_no_more_than_their_number() -> None:
    """An editor chooses both: how often it opens, and, by retries, how many attempts there are."""
    minute = timedelta(minutes=1)
    closed = [Span(MONDAY + each * 2 * minute, MONDAY + (each * 2 + 1) * minute) for each in range(8_000)]
    attempts = [
        PastAttempt(MONDAY + each * 8 * minute, MONDAY + (each * 8 + 0.5) * minute, AttemptOutcome.FAILED, copied=True)
        for each in range(2_000)
    ]
    began = time.process_time()
    found = stretches([Life(MONDAY, None, Status.WAITING, attempts)], closed, [], MONDAY, MONDAY + 16_000 * minute)
    assert time.process_time() - began < 8
    assert sum(each.seconds for each in found) == 16_000 * 60
