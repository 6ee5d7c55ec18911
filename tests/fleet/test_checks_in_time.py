"""Repositories that are not read within the time that a policy wants are found."""

from datetime import datetime, timedelta

import pytest

from fleet.conditions.repositories import checks
from operations.finding import Look
from sources.models import Assignment, CheckRound
from tests.sources.factories import MONDAY, backed_up, make_assignment, make_policy

DAY = timedelta(days=1)
NOW = MONDAY + 10 * DAY


def inserted(assignment: Assignment, at: datetime) -> Assignment:
    Assignment.objects.filter(pk=assignment.pk).update(inserted_at=at)
    return assignment


@pytest.mark.django_db
def test_only_what_should_have_been_read_since_is_named() -> None:
    daily, monthly, never = (make_policy(check_within=seconds) for seconds in (86_400, 30 * 86_400, None))
    first, second, read = (inserted(backed_up(daily, MONDAY), NOW - days * DAY) for days in (3, 2, 9))
    CheckRound.objects.create(assignment=read, planned_at=NOW, ended_at=NOW - DAY / 2)
    inserted(backed_up(daily, MONDAY), NOW - DAY / 2)
    for policy in (monthly, never):
        inserted(backed_up(policy, MONDAY), NOW - 9 * DAY)
    inserted(make_assignment(daily), NOW - 9 * DAY)  # there is nothing to read yet
    found = checks.examine(Look(NOW))
    assert [each.since for each in found] == [NOW - 3 * DAY, NOW - 2 * DAY]
    assert [each.source.name in finding.text for each, finding in zip((first, second), found, strict=True)] == [
        True
    ] * 2
