"""Two edits of one policy at once: by the admin's page and by the API."""

from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.test import Client

from fleet.policy_edits import SCHEDULE_FIELDS, Policies
from fleet.repository_edits import Repositories
from schedules.models import Schedule
from sources.models import Policy, Repository
from tests.api.asking import Program
from tests.sources.factories import make_policy
from tests.threads import a_lock_is_waited_for, beside
from tests.waiting import PATIENCE, eventually

pytestmark = pytest.mark.django_db(transaction=True)


def save(policy: Policy, **fields: Any) -> None:
    """Save it as a page of the admin does."""
    for name, value in fields.items():
        setattr(policy.schedule if name in SCHEDULE_FIELDS else policy, name, value)
    with transaction.atomic():
        Policies().save(policy, set(fields))


def read(policy: Policy) -> Policy:
    return Policy.objects.select_related("schedule").get(pk=policy.pk)


class TestTwoEditsOfOnePolicy:
    def test_each_keeps_what_the_other_has_changed_of_the_policy_and_of_its_schedule(self) -> None:
        policy = make_policy()
        first, second = read(policy), read(policy)
        save(first, enabled=False, seeding_limit=3, keep={"last": 7})
        save(second, priority=7, recheck_after=1234)
        found = read(policy)
        assert (found.seeding_limit, found.keep, found.recheck_after) == (3, {"last": 7}, 1234)
        assert found.seeding_throttle is not None
        assert (found.schedule.enabled, found.schedule.priority) == (False, 7)
        assert not second.schedule.enabled  # what is planned anew goes by it

    def test_each_keeps_what_the_other_has_changed_of_a_repository(self, tmp_path: Path) -> None:
        repository = make_policy().repository
        first, second = (Repository.objects.get(pk=repository.pk) for _ in range(2))
        first.name, second.location = "elsewhere", str(tmp_path / "moved")
        Repositories().save(first, {"name"})
        Repositories().save(second, {"location"})
        found = Repository.objects.get()
        assert (found.name, found.location) == ("elsewhere", str(tmp_path / "moved"))

    def test_one_waits_for_the_other_and_both_succeed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        policy, program, check = make_policy(), Program(), Policies.problems
        others = []

        def meet(self: Policies, row: Policy, changed: Any) -> dict[str, str]:
            others.append(beside(lambda: save(read(policy), enabled=False)))
            eventually(a_lock_is_waited_for)
            return check(self, row, changed)

        monkeypatch.setattr(Policies, "problems", meet)
        assert program.patch(f"policies/{policy.pk}", {"priority": 7}).status_code == 200
        others[0].result(PATIENCE)
        schedule = Schedule.objects.get()
        assert (schedule.enabled, schedule.priority) == (False, 7)

    def test_an_etag_is_stale_when_the_schedule_was_edited_meanwhile(self) -> None:
        policy, program = make_policy(), Program()
        etag = program.get(f"policies/{policy.pk}")["ETag"]
        with transaction.atomic():
            schedule = Schedule.objects.select_for_update().get()
            asked = beside(lambda: program.patch(f"policies/{policy.pk}", {"priority": 7}, If_Match=etag))
            eventually(a_lock_is_waited_for)
            schedule.enabled = False
            schedule.save()
        assert asked.result(PATIENCE).status_code == 412
        assert Schedule.objects.get().priority == 0


def test_policies_chosen_in_the_list_are_deleted_with_their_schedules(admin_client: Client) -> None:
    chosen = [make_policy().pk, make_policy().pk]
    question = {"action": "delete_selected", "_selected_action": chosen, "post": "yes"}
    assert admin_client.post("/admin/sources/policy/", question).status_code == 302
    assert not Schedule.objects.exists()
