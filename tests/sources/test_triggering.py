"""The schedule of a policy is not triggered by itself: that would go past what the policy says."""

import pytest

from jobs.models import BacklogRecord
from schedules import verbs
from schedules.models import Trigger
from sources.models import Policy
from tests.people import staff
from tests.sources.factories import make_assignment, make_policy

pytestmark = pytest.mark.django_db


@pytest.fixture
def policy() -> Policy:
    policy = make_policy()
    make_assignment(policy)
    return policy


def test_by_a_program_it_is_refused_with_the_name_of_the_policy(policy: Policy) -> None:
    with pytest.raises(ValueError, match=f"the schedule of the policy {policy}"):
        verbs.trigger_now(policy.schedule, "bob")
    assert not Trigger.objects.exists()


def test_by_who_may_operate_records_only_it_is_refused_and_puts_nothing_on_the_backlog(policy: Policy) -> None:
    operator = staff("change_backlogrecord", "view_schedule")
    answer = operator.post(f"/api/schedules/{policy.schedule_id}/trigger", content_type="application/json")
    assert answer.status_code == 409
    assert not BacklogRecord.objects.exists()
