"""The schedule of a policy is not triggered by itself: that would go past what the policy says."""

import pytest

from jobs.models import BacklogRecord
from schedules import verbs
from schedules.models import Trigger
from tests.people import staff
from tests.sources.factories import make_assignment


@pytest.mark.django_db
def test_it_is_refused_with_the_name_of_the_policy_and_puts_nothing_on_the_backlog() -> None:
    policy = make_assignment().policy
    with pytest.raises(ValueError, match=f"the schedule of the policy {policy}"):
        verbs.trigger_now(policy.schedule, "bob")
    operator = staff("change_backlogrecord", "view_schedule")
    answer = operator.post(f"/api/schedules/{policy.schedule_id}/trigger", content_type="application/json")
    assert answer.status_code == 409
    assert not Trigger.objects.exists()
    assert not BacklogRecord.objects.exists()
