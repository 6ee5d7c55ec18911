"""Who uses a retry policy is told in sentences, without the marks of a page."""

import pytest
from operations.retry_policy_uses import uses_of

from jobs.states import Status
from operations import retry_policy_uses
from tests.factories import make_record, make_retry_policy, make_schedule

pytestmark = pytest.mark.django_db


def test_a_policy_that_nothing_names_has_no_use():
    assert uses_of(make_retry_policy()) == []


def test_a_schedule_is_told_as_it_is_written_and_kept_beside_the_sentence():
    policy = make_retry_policy(name="patient")
    schedule = make_schedule(name="reports & <bills>", retry_policy=policy)
    [use] = uses_of(policy)
    assert str(use) == ("patient: the schedule reports & <bills>; choose another retry policy there, or in its policy")
    assert use.schedule == schedule


def test_records_are_told_by_whether_they_have_ended(monkeypatch):
    policy = make_retry_policy(name="patient")
    make_record(retry_policy=policy)
    for _ in range(3):
        make_record(retry_policy=policy, status=Status.FAILED)
    monkeypatch.setattr(retry_policy_uses, "MOST_COUNTED", 2)
    unfinished, finished = map(str, uses_of(policy))
    assert unfinished == "patient: 1 record on the backlog; let them end, or cancel them"
    assert finished.startswith("patient: more than 2 records that ended under it; each is deleted 90 d after its end")


def test_more_schedules_than_are_named_are_mentioned(monkeypatch):
    policy = make_retry_policy()
    for name in ("a", "b", "c"):
        make_schedule(name=name, retry_policy=policy)
    monkeypatch.setattr(retry_policy_uses, "MOST_NAMES", 2)
    told = uses_of(policy)
    assert [use.schedule and use.schedule.name for use in told] == ["a", "b", None]
    assert str(told[-1]) == "… and further schedules"
