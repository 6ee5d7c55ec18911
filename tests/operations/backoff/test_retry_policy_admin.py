"""Retry policies in the admin: what the list says, the live picture, what a save does, and what keeps one."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client
from django.utils import timezone
from django.utils.html import escape
from pytest_django import DjangoCaptureOnCommitCallbacks

from jobs import rescheduling
from jobs.models import BacklogRecord, RetryPolicy
from jobs.retries import ALGORITHMS
from jobs.states import Status, WaitingFor
from tests.factories import make_record, make_retry_policy
from tests.forms import sent

pytestmark = pytest.mark.django_db

POLICIES = "/admin/jobs/retrypolicy/"


def form(parameters: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    return sent("parameters", [{"base": "60"} if parameters is None else parameters]) | {
        "name": "x", "algorithm": "constant", "max_delay": "86400", "max_failures": "", "give_up_after": "", **fields,
    }  # fmt: skip


def make_waiting(policy: RetryPolicy, **fields: Any) -> BacklogRecord:
    """Failed a minute ago, and waits for an hour."""
    failed_at = timezone.now() - timedelta(minutes=1)
    values = {
        "waiting_for": WaitingFor.BACKOFF, "retry_policy": policy, "failures": 1, "first_failure_at": failed_at,
        "last_failure_at": failed_at, "run_after": failed_at + timedelta(hours=1), **fields,
    }  # fmt: skip
    return make_record(Status.WAITING, **values)


def test_the_list_opens_with_a_policy_that_was_stored_past_its_form(admin_client: Client) -> None:
    for algorithm, parameters in (("constant", {"unit": 3}), ("magic", {}), ("constant", [1])):
        policy = make_retry_policy(algorithm=algorithm, parameters=parameters)
        assert admin_client.get(f"{POLICIES}{policy.pk}/change/").status_code == 200
    assert "its parameters are wrong" in admin_client.get(POLICIES).content.decode()


@pytest.mark.parametrize("parameters", [{"base": "9" * 5_000}, {"base": "1e400"}, {"bäse": "7"}, {"base": "\0"}])
def test_odd_parameters_are_named_beside_their_field(parameters: dict[str, str], admin_client: Client) -> None:
    page, preview = (
        admin_client.post(f"{POLICIES}{each}/", form(parameters=parameters)) for each in ("add", "preview")
    )
    assert (page.status_code, preview.status_code) == (200, 200)
    assert "parameters" in page.context["adminform"].errors
    assert not RetryPolicy.objects.filter(name="x").exists()


class TestThePicture:
    def test_of_a_policy_is_on_its_page_with_a_way_to_compare(self, admin_client: Client) -> None:
        policy = make_retry_policy(name="often", algorithm="constant", parameters={"base": 60}, max_failures=5)
        page = admin_client.get(f"{POLICIES}{policy.pk}/change/").content.decode()
        assert "Backoff: often" in page
        assert "First waits: 1 min, 1 min, 1 min, 1 min." in page
        assert "It gives up at failure 5" in page
        address = "/backoff/?algorithm=constant&base=60&max_delay=86400&max_failures=5"
        assert escape(address) in page
        assert admin_client.get(address).status_code == 200
        assert f'hx-post="{POLICIES}{policy.pk}/preview/" hx-trigger="input from:#retrypolicy_form ' in page
        assert 'id="retrypolicy_form"' in page
        assert f'href="/backoff/?policy={policy.pk}"' in page

    def test_is_of_what_is_typed_and_not_saved_and_gives_way_to_what_is_wrong(self, admin_client: Client) -> None:
        policy = make_retry_policy(name="old")
        typed = form(name="typed", algorithm="phased", parameters={})
        for path in ("preview/", f"{policy.pk}/preview/"):
            page = admin_client.post(POLICIES + path, typed).content.decode()
            assert "Backoff: typed" in page
            assert escape(ALGORITHMS["phased"].formula) in page
        assert RetryPolicy.objects.get(pk=policy.pk).name == "old"
        page = admin_client.post(f"{POLICIES}preview/", form(parameters={"unit": "3"})).content.decode()
        assert "parameters: constant has no parameter" in page
        assert "<img" not in page

    def test_is_asked_for_by_post_and_of_what_there_is(self, admin_client: Client) -> None:
        assert admin_client.get(f"{POLICIES}preview/").status_code == 405
        assert admin_client.post(f"{POLICIES}999999/preview/").status_code == 404
        assert admin_client.post(f"{POLICIES}x/preview/").status_code == 404


class TestSaving:
    def save(self, client: Client, policy: RetryPolicy, **fields: Any) -> None:
        response = client.post(f"{POLICIES}{policy.pk}/change/", form(**fields))
        assert response.status_code == 302, response.context["errors"]

    @pytest.mark.django_db(transaction=True)
    def test_gives_a_changed_policy_to_what_waits_by_it(self, admin_client: Client) -> None:
        policy, other = make_retry_policy(parameters={"base": 3600}), make_retry_policy()
        records = [make_waiting(policy) for _ in range(3)]
        beside = make_waiting(other)
        self.save(admin_client, policy, parameters={"base": "600"})
        for record in records:
            record.refresh_from_db()
            assert record.last_failure_at is not None
            assert record.run_after == record.last_failure_at + timedelta(minutes=10)
        run_after = beside.run_after
        beside.refresh_from_db()
        assert beside.run_after == run_after

    def test_moves_records_after_its_commit_and_only_for_what_decides_a_wait(
        self, admin_client: Client, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
    ) -> None:
        policy = make_retry_policy(parameters={"base": 60}, name="x")
        for base in (60, 61):
            with django_capture_on_commit_callbacks() as callbacks:
                self.save(admin_client, policy, parameters={"base": f"{base}"})
            assert len(callbacks) == base - 60

    @pytest.mark.django_db(transaction=True)
    def test_stands_when_the_records_cannot_follow(self, admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        def away(policy: RetryPolicy) -> int:
            raise OperationalError("canceling statement due to lock timeout")

        monkeypatch.setattr(rescheduling, "apply", away)
        policy = make_retry_policy(parameters={"base": 3600})
        self.save(admin_client, policy, parameters={"base": "600"})
        policy.refresh_from_db()
        assert policy.parameters == {"base": 600}
