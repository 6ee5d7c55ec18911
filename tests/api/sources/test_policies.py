"""Policies over the API, each one thing with its schedule, with what follows from an edit as in the admin."""

import time
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client
from django.utils import timezone

from jobs.models import BacklogRecord
from schedules.models import Schedule
from sources.models import Policy, Repository
from sources.planning import previews
from tests.api.asking import Program, fields_of, make_user, problem_of
from tests.sources.factories import backed_up, make_assignment, make_policy, make_source

pytestmark = pytest.mark.django_db

NIGHTS = [{"days": "mon-sun", "start": "22:00", "end": "06:00"}]


@pytest.fixture
def body() -> dict[str, Any]:
    """The fields that a policy must have."""
    repository = Repository.objects.create(name="vault", location="/srv/backups")
    return {"name": "laptops", "cron": "0 9 * * *", "repository": repository.name}


class TestCreating:
    def test_a_schedules_name_is_taken_too(self, program: Program, body: dict[str, Any]) -> None:
        Schedule.objects.create(name="laptops", cron="0 9 * * *", kind="test", event_count=1)
        assert list(fields_of(program.post("policies", body))) == ["name"]


class TestChanging:
    def test_a_new_cron_moves_next_backup_dates(self, program: Program) -> None:
        policy = make_policy(cron="0 9 * * *", next_trigger_at=timezone.now() + timedelta(days=1))
        assignment = backed_up(policy, timezone.now())
        answer = program.patch(f"policies/{policy.pk}", {"cron": "0 9 1 1 *"})
        assert answer.json()["cron"] == "0 9 1 1 *"
        assignment.refresh_from_db()
        assert assignment.next_backup_at
        assert (assignment.next_backup_at.month, assignment.next_backup_at.day) == (1, 1)
        assert Schedule.objects.get().next_trigger_at is None, "the emitter looks anew"
        Schedule.objects.update(next_trigger_at=timezone.now())
        assert program.get(f"policies/{policy.pk}").json()["next_trigger_at"] is not None
        assert program.patch(f"policies/{policy.pk}", {"enabled": False}).json()["next_trigger_at"] is None


class TestReading:
    def test_by_what_is_its_schedules_too(self, program: Program) -> None:
        make_policy()
        off = make_policy(enabled=False)
        make_assignment(off)
        [item] = program.get("policies", enabled="false").json()["items"]
        assert (item["id"], item["sources"]) == (off.pk, 1)


class TestBackUpNow:
    def test_all_its_sources_but_the_paused_ones_unless_it_is_disabled(self, program: Program) -> None:
        disabled = make_assignment(make_policy(enabled=False)).policy
        problem_of(program.post(f"policies/{disabled.pk}/back-up-now"), 409)
        assert not BacklogRecord.objects.exists()
        policy = make_policy()
        make_assignment(policy)
        make_assignment(policy)
        make_assignment(policy, make_source(paused_at=timezone.now()))
        make_assignment()
        assert program.post(f"policies/{policy.pk}/back-up-now").json() == {"moved": 2}
        assert BacklogRecord.objects.count() == 2


def named(name: str, **fields: Any) -> Policy:
    policy = make_policy(**fields)
    Schedule.objects.filter(pk=policy.schedule.pk).update(name=name)
    return policy


def get(client: Client, name: str, **query: Any) -> Any:
    return client.get(f"/api/policies/{quote(name, safe='')}/preview", query)


def test_the_next_periods_with_their_openings(admin_client: Client) -> None:
    named("laptops", cron="0 9 * * *", zone="Europe/Berlin", window=NIGHTS)
    answer = get(admin_client, "laptops", count=2, **{"from": "2026-03-28T00:00:00+01:00"})
    assert answer.status_code == 200
    first, second = answer.json()["periods"]
    assert datetime.fromisoformat(first["begins_at"]) == datetime.fromisoformat("2026-03-28T08:00:00+00:00")
    [night] = first["openings"]
    assert night["seconds"] == timedelta(hours=7).total_seconds()  # the clocks go forward in it
    assert second["begins_at"] > first["begins_at"]


def test_what_cannot_be_previewed_is_refused(admin_client: Client) -> None:
    policy = named("laptops")
    for name in ("nothing", "LAPTOPS"):
        problem_of(get(admin_client, name), 404)
    for field, value in (("count", "0"), ("count", "9" * 5000), ("from", "10000-01-01T00:00:00Z")):
        assert list(fields_of(get(admin_client, "laptops", **{field: value}))) == [field]
    assert get(admin_client, str(policy.pk)).status_code == 200, "by its id, when none has that name"
    program = Program(make_user("view_policy"), scopes=("read",))
    assert list(fields_of(program.get(f"policies/{policy.pk}/preview", count=101))) == ["count"]
    assert program.get(f"policies/{policy.pk}/preview", count=100).status_code == 200
    Policy.objects.update(window=[{"days": "never"}])
    assert "correct the policy" in problem_of(get(admin_client, "laptops"), 422)["hint"]


@pytest.mark.slow
def test_a_preview_that_would_take_long_is_ended(admin_client: Client) -> None:
    """A period of four years has 1,461 openings."""
    policy = named("laptops", cron="0 0 29 2 *", window=NIGHTS)
    began = time.process_time()
    answer = get(admin_client, "laptops", count=1000)
    assert "ask for fewer" in answer.content.decode(), answer.content[:300]
    assert time.process_time() - began < 4 * previews.LONGEST_SECONDS
    with pytest.raises(ValueError, match="ask for fewer"):
        previews.preview(policy, seconds=-1)
