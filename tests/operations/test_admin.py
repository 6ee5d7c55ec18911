"""The pages of the backlog in the admin."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib import admin
from django.db import connection
from django.db.models import Model
from django.test import Client
from django.utils import timezone
from freezegun import freeze_time
from pytest_django import DjangoAssertNumQueries

from backupsched import urls  # noqa: F401 - loads the pages of the admin
from jobs.models import Attempt, BacklogRecord, RetryPolicy, Worker
from jobs.states import AttemptOutcome, Status
from tests.factories import NOON, make_record, make_retry_policy, make_schedule, make_worker
from tests.people import listed

pytestmark = pytest.mark.django_db

RECORDS = "/admin/jobs/backlogrecord/"
OURS = [
    model
    for model in admin.site._registry
    if model._meta.app_label in ("jobs", "delivery", "schedules", "api", "sources")
]


def add_attempt(record: BacklogRecord, number: int = 1, **fields: Any) -> Attempt:
    values = {"queue": "backups", "outcome": AttemptOutcome.FAILED, "error": "refused <b>us</b>", **fields}
    return Attempt.objects.create(
        record=record, number=number, started_at=NOON, ended_at=NOON + timedelta(seconds=75), **values
    )


@pytest.mark.parametrize("model", OURS, ids=lambda model: model._meta.model_name)
def test_every_list_opens_empty(model: type[Model], admin_client: Client) -> None:
    RetryPolicy.objects.all().delete()  # those that every installation begins with
    assert listed(admin_client, f"/admin/{model._meta.app_label}/{model._meta.model_name}/") == []


class TestRecords:
    def test_shows_a_page_of_records_in_few_queries(
        self, admin_client: Client, django_assert_max_num_queries: DjangoAssertNumQueries
    ) -> None:
        worker, schedule, policy = make_worker(), make_schedule(), make_retry_policy()
        for _ in range(50):
            make_record(Status.RUNNING, worker=worker, origin=schedule, retry_policy=policy)
        with django_assert_max_num_queries(11):
            assert len(listed(admin_client, RECORDS)) == 50

    def test_tells_its_attempts_and_escapes_what_engines_said(self, admin_client: Client) -> None:
        record = make_record(Status.SUCCEEDED)
        add_attempt(record)
        add_attempt(record, 2, outcome=AttemptOutcome.SUCCEEDED, error="", worker=make_worker())
        page = admin_client.get(f"{RECORDS}{record.pk}/change/").content.decode()
        assert "refused &lt;b&gt;us&lt;/b&gt;" in page
        assert "1 min 15 s" in page
        assert "succeeded" in page

    def test_opens_in_every_status_and_cannot_be_changed(self, admin_client: Client) -> None:
        for status in Status:
            url = f"{RECORDS}{make_record(status, failures=2, last_error='x' * 5000).pk}/"
            page = admin_client.get(f"{url}change/").content.decode()
            assert "at first the day on which it is due" in page
            assert not re.search(r">[^<]*\b[a-z]+_day\b", page), "the names of fields"
            assert admin_client.post(f"{url}change/", {"priority": 9}).status_code == 403
            assert admin_client.post(f"{url}delete/", {"post": "yes"}).status_code == 403
        assert admin_client.get(f"{RECORDS}add/").status_code == 403
        assert listed(admin_client, RECORDS)


class TestWorkers:
    def test_say_whether_they_live(self, admin_client: Client) -> None:
        now = timezone.now()
        make_worker("alive:1", queues={"backups": 16, "availability": 200})
        make_worker("silent:2", heartbeat_at=now - timedelta(hours=1))
        make_worker("stopped:3", stopped_at=now)
        with freeze_time(now + timedelta(hours=1)):  # the clock of the host that serves the page
            page = admin_client.get("/admin/jobs/worker/")
            model_admin: Any = admin.site._registry[Worker]
            lives = [model_admin.life(worker) for worker in page.context["cl"].result_list]
        assert lives == ["stopped", "silent", "alive"]
        assert "backups 16, availability 200" in page.content.decode()


def test_a_retry_policy_shows_its_first_ten_delays(admin_client: Client) -> None:
    RetryPolicy.objects.create(name="fib", algorithm="fibonacci", parameters={"unit": 60}, max_delay=1800)
    page = admin_client.get("/admin/jobs/retrypolicy/").content.decode()
    assert ", ".join(f"{n} min" for n in (1, 1, 2, 3, 5, 8, 13, 21, 30, 30)) in page


def test_a_password_is_asked_for(client: Client) -> None:
    assert client.get(RECORDS).headers["Location"].startswith("/admin/login/")
    assert connection.vendor == "postgresql"
