"""Thirty days: each day counts each assignment once, is kept when it is over, and says when a repository is full."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from dashboard import days
from dashboard.models import DayTotal
from jobs.models import Attempt
from jobs.states import AttemptOutcome, Status
from sources.models import Assignment, Repository
from sources.planning import AVAILABILITY, BACKUPS, KIND, subject_of
from tests.factories import make_record
from tests.sources.factories import make_assignment, make_policy

pytestmark = pytest.mark.django_db

TODAY = date(2026, 3, 20)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> datetime:
    """Noon of today for the round, too: no midnight comes between two looks."""
    noon = at(TODAY, 12)
    monkeypatch.setattr(days, "database_clock", lambda: noon)
    return noon


def at(day: date, hour: int) -> datetime:
    return datetime.combine(day, time(hour), UTC)


def attempt(assignment: Assignment, outcome: AttemptOutcome, began: datetime, ended: datetime | None = None) -> None:
    record = make_record(Status.SUCCEEDED, kind=KIND, queue=BACKUPS, subject=subject_of(assignment.pk))
    queue = AVAILABILITY if outcome == AttemptOutcome.UNAVAILABLE else BACKUPS
    facts = {"queue": queue, "outcome": outcome, "started_at": began, "ended_at": ended or began}
    Attempt.objects.create(record=record, number=1, **facts)


def totals(day: date) -> tuple[int, int, int]:
    found = days.count(day)
    return found.succeeded, found.failed, found.missed


def test_a_day_counts_each_assignment_once():
    policy, yesterday = make_policy(), TODAY - timedelta(days=1)
    mended, failing, silent = (make_assignment(policy) for _ in range(3))
    attempt(mended, AttemptOutcome.FAILED, at(yesterday, 9))
    attempt(mended, AttemptOutcome.SUCCEEDED, at(yesterday, 10))
    attempt(failing, AttemptOutcome.RESCUED, at(yesterday, 9))
    attempt(failing, AttemptOutcome.UNAVAILABLE, at(yesterday, 11))
    attempt(silent, AttemptOutcome.UNAVAILABLE, at(yesterday - timedelta(days=1), 9), at(TODAY, 9))  # many silences
    assert totals(yesterday) == (1, 1, 1)
    assert totals(TODAY) == (0, 0, 1)
    assert totals(TODAY + timedelta(days=1)) == (0, 0, 0)


def test_a_day_that_is_over_is_kept_and_one_that_is_old_forgotten(now: datetime):
    old = DayTotal.objects.create(date=TODAY - timedelta(days=days.DAYS))
    attempt(make_assignment(), AttemptOutcome.SUCCEEDED, at(TODAY - timedelta(days=1), 9))
    for _ in range(days.DAYS + 1):
        days.keep()
    shown = days.last_days(now)
    assert len(shown) == days.DAYS
    assert (shown[-2].succeeded, shown[-1].date) == (1, TODAY)
    assert not DayTotal.objects.filter(pk=old.pk).exists()
    Attempt.objects.all().delete()
    assert days.last_days(now)[-2].succeeded == 1


def test_a_repository_is_full_on_a_day_only_after_a_week_of_history():
    known, remote = (
        Repository.objects.create(name=name, location="/srv", room_free=free, room_total=free and 1000)
        for name, free in (("known", 500), ("remote", None))
    )

    def rooms(length: int) -> list[dict[str, Any]]:
        added = {str(known.pk): 50, str(remote.pk): 50}
        history = [DayTotal(date=TODAY - timedelta(days=back), added=added) for back in range(length, 0, -1)]
        return days.repositories(history, TODAY)

    assert [(each["full_on"], each["used_share"]) for each in rooms(days.LEAST_DAYS)] == [
        (TODAY + timedelta(days=10), 50),
        (None, None),
    ]
    assert [each["pace"] for each in rooms(days.LEAST_DAYS - 1)] == [None, None]


def test_today_is_counted_by_the_round_where_it_is_much_and_shown_as_old_as_it_is(
    now: datetime, monkeypatch: pytest.MonkeyPatch
):
    for _ in range(days.DAYS):
        days.keep()
    attempt(make_assignment(), AttemptOutcome.SUCCEEDED, now)
    days.keep()
    assert not DayTotal.objects.filter(date=TODAY).exists()  # little is counted at each look
    monkeypatch.setattr(days, "MUCH", 0)
    days.keep()
    attempt(make_assignment(), AttemptOutcome.SUCCEEDED, now)
    with CaptureQueriesContext(connection) as asked:
        shown = days.last_days(now)[-1]
        days.keep()  # another worker's round
    assert (shown.date, shown.succeeded) == (TODAY, 1)
    assert shown.counted_at is not None
    assert not [each for each in asked if "jobs_attempt" in each["sql"]]
    DayTotal.objects.filter(date=TODAY).update(counted_at=now - 2 * days.OLD)
    assert (days.last_days(now)[-1].succeeded, days.last_days(now)[-1].counted_at) == (2, None)  # no round keeps it
    assert days.keep() == 0  # no more is left for the next minute
    assert days.last_days(now)[-1].succeeded == 2
    DayTotal.objects.filter(date=TODAY - timedelta(days=1)).update(counted_at=now)
    days.keep()  # a day that is over is counted to its end
    assert DayTotal.objects.get(date=TODAY - timedelta(days=1)).counted_at is None
