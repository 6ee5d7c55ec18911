"""Not backed up for too long: raised once, cleared by a success, in one statement for all assignments."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.base import EngineResult, Verdict
from jobs import periodic
from jobs.models import Decision
from jobs.outcomes import Succeeded
from schedules.models import Schedule
from sources import planning
from sources.domain.overdue import thresholds
from sources.models import Assignment
from sources.protection import overdue_assignments
from tests.sources.factories import MONDAY, backed_up, handed_on, make_assignment, make_policy, make_source, settle
from tests.sources.planning.planned import DAY, HOUR, NINE

pytestmark = pytest.mark.django_db


def since(assignment: Assignment) -> datetime | None:
    assignment.refresh_from_db()
    return assignment.overdue_since


def test_it_is_raised_once_a_whole_period_was_missed_and_told() -> None:
    assignment = backed_up(make_policy(), NINE - 2 * DAY)
    assert overdue_assignments.look(NINE - timedelta(seconds=1)) == 0
    assert overdue_assignments.look(NINE) == 1
    assert overdue_assignments.look(NINE + HOUR) == 0
    assert since(assignment) == NINE
    line = Decision.objects.get(what="overdue")
    assert (line.subject, line.at) == (planning.subject_of(assignment.pk), NINE)
    assert "has not been backed up since 2026-02-28 09:00 UTC" in line.text


def test_a_success_clears_it_in_its_own_settle() -> None:
    assignment = backed_up(make_policy(), NINE - 3 * DAY, overdue_since=NINE - DAY)
    planning.emit_due(NINE)
    settle(handed_on(assignment, NINE), Succeeded(EngineResult(Verdict.SUCCEEDED, size=1, files=1)), NINE + HOUR)
    assert since(assignment) is None


def test_a_policys_own_limit_counts_instead() -> None:
    assignment = backed_up(make_policy(alert_after=7 * 86_400.0), NINE - 6 * DAY)
    assert overdue_assignments.look(NINE) == 0
    assert overdue_assignments.look(NINE + DAY) == 1
    assert since(assignment) == NINE + DAY


def test_a_weekend_without_an_opening_raises_none() -> None:
    """The last backup was of Friday, and a record waits since Saturday for Monday's opening."""
    policy = make_policy(window=[{"days": "mon-fri", "start": "12:00", "end": "18:00"}])
    assignment = backed_up(policy, MONDAY - 2 * DAY - 14 * HOUR)
    assert [overdue_assignments.look(MONDAY + hours * HOUR) for hours in (-14, 10, 30)] == [0, 0, 0]
    assert overdue_assignments.look(NINE + DAY) == 1
    assert since(assignment) == NINE + DAY


def test_a_paused_source_or_a_disabled_policy_raises_none() -> None:
    backed_up(make_policy(), NINE - 9 * DAY, source=make_source(paused_at=NINE))
    backed_up(make_policy(enabled=False), NINE - 9 * DAY)
    assert overdue_assignments.look(NINE) == 0


def test_all_policies_are_one_statement(django_assert_max_num_queries) -> None:  # type: ignore[no-untyped-def]
    for _ in range(5):
        backed_up(make_policy(), NINE - 9 * DAY)
    with django_assert_max_num_queries(5):  # with the transaction's own, and the lines of the log
        assert overdue_assignments.look(NINE) == 5


def test_the_task_of_each_minute_does_it() -> None:
    assignment = backed_up(make_policy(), MONDAY - 900 * DAY)
    periodic.tick()
    assert since(assignment) is not None


INSTANTS = st.timedeltas(-12 * DAY, timedelta()).map(lambda age: NINE + age)
FACTS = st.fixed_dictionaries(
    {
        "inserted_at": INSTANTS,
        "last_backup_at": st.none() | INSTANTS,
        "overdue_since": st.none() | INSTANTS,
    }
)


def expected(assignment: Assignment, alert_after: float | None) -> datetime | None:
    limits = thresholds(assignment.policy.schedule.period, alert_after, NINE)
    last, following = assignment.last_backup_at, assignment.next_backup_at
    counted_from = min(last, following) if last and following else assignment.inserted_at
    if assignment.overdue_since:
        return None if last and counted_from > limits.clear_after else assignment.overdue_since
    return NINE if counted_from < limits.raise_before else None


@given(rows=st.lists(FACTS, min_size=1, max_size=8), alert_after=st.none() | st.floats(60, 12 * 86_400.0))
def test_the_statement_raises_and_clears_by_the_thresholds(
    rows: list[dict[str, datetime]], alert_after: float | None
) -> None:
    Assignment.objects.all().delete()
    policy = make_policy(alert_after=alert_after)
    wanted = {}
    for row in rows:
        last = row["last_backup_at"]
        next_at = policy.schedule.period.next_after(last) if last else None
        assignment = make_assignment(policy, next_backup_at=next_at, **row)
        wanted[assignment.pk] = expected(assignment, alert_after)
    overdue_assignments.look(NINE)
    assert dict(Assignment.objects.values_list("pk", "overdue_since")) == wanted


def test_a_policy_that_cannot_be_read_hides_no_other() -> None:
    bad, good = backed_up(make_policy(), NINE - 9 * DAY), backed_up(make_policy(), NINE - 9 * DAY)
    Schedule.objects.filter(pk=bad.policy.schedule_id).update(cron="nonsense")
    assert overdue_assignments.look(NINE) == 1
    assert since(good) == NINE


def test_what_a_round_has_no_time_for_is_found_by_the_next_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overdue_assignments, "AT_ONCE", 1)
    policy = make_policy()
    for _ in range(3):
        backed_up(policy, NINE - 9 * DAY)
    policies = {policy.pk: thresholds(policy.schedule.period, None, NINE)}
    monkeypatch.setattr(overdue_assignments, "_limits", lambda *_: (policies, {}))
    assert [overdue_assignments.look(NINE, seconds=0) for _ in range(4)] == [1, 1, 1, 0]


def test_a_database_that_is_slow_to_answer_leaves_a_round_its_time(slow_database) -> None:  # type: ignore[no-untyped-def]
    slow_database(overdue_assignments)
    backed_up(make_policy(), NINE - 9 * DAY)
    assert overdue_assignments.look(NINE) == 1
