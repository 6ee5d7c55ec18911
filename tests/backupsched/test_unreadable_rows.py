"""A zone, cron or window that was written past the forms and cannot be read is named, and no page, answer or command
fails."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from alerting import digest
from alerting.models import AlertRoute
from jobs.models import Attempt
from jobs.outcomes import Failed
from jobs.states import AttemptOutcome
from schedules.models import Schedule
from sources import planning
from sources.models import Policy
from tests.api.asking import Program
from tests.commands import command
from tests.sources.factories import backed_up, handed_on, make_policy, make_source, settle

pytestmark = [pytest.mark.django_db, pytest.mark.slow, pytest.mark.usefixtures("orders_run_here")]

NOW = timezone.now()
LISTS = (
    "/", "/matrix/", "/what-if/?units=2", "/admin/sources/source/", "/admin/sources/assignment/",
    "/admin/sources/policy/",
    "/admin/jobs/backlogrecord/", "/admin/schedules/schedule/", "/api/sources", "/api/assignments", "/api/policies",
    "/api/schedules",
)  # fmt: skip
PAGES = (
    "/matrix/{source}/{day}", "/admin/sources/source/{source}/change/",
    "/admin/sources/assignment/{id}/change/", "/admin/sources/policy/{policy}/change/",
    "/api/assignments/{id}/retention",
)  # fmt: skip
COMMANDS = (("sources",), ("backlog",), ("schedules",), ("sources", "export"))

WRITTEN: dict[str, tuple[Any, dict[str, Any], str]] = {
    "laptop": (Schedule, {"zone": "Europe"}, "unknown time zone 'Europe'"),
    "share": (Schedule, {"cron": "99 * * * *"}, "'99' is not a valid minute"),
    "bucket": (Policy, {"window": [{"days": "never"}]}, "range 1: 'end' is missing"),
}
"""Source → what stands in its policy, and the reason that is given."""


def test_what_cannot_be_read_is_named_and_nothing_fails(admin_client: Client) -> None:
    addresses = set(LISTS)
    for name, (model, values, _) in WRITTEN.items():
        policy = make_policy()
        assignment = backed_up(policy, NOW - timedelta(days=2), source=make_source(name=name))
        planning.emit_due(NOW)
        copied = handed_on(assignment, NOW)
        model.objects.filter(pk=policy.schedule_id if model is Schedule else policy.pk).update(**values)
        settle(copied, Failed(f"the disk of {name} is full"), NOW)
        ids = {"source": assignment.source_id, "policy": policy.pk, "id": assignment.pk, "day": NOW.date()}
        addresses |= {page.format(**ids) for page in PAGES}
    assert Attempt.objects.filter(outcome=AttemptOutcome.FAILED).count() == len(WRITTEN)
    program = Program()
    answers = {each: program.get(each) if "/api/" in each else admin_client.get(each) for each in addresses}
    assert {each: answer.status_code for each, answer in answers.items()} == dict.fromkeys(addresses, 200)
    for name, *verb in COMMANDS:
        command(name)[0](*verb)
    reasons = {each["name"]: each["reason"] for each in answers["/api/sources"].json()["items"]}
    needs = {each["name"]: each["reason"] for each in answers["/"].context["needs"]}
    for name, (_, _, reason) in WRITTEN.items():
        for text in (command("sources")[0]("show", name), reasons[name], needs[name]):
            assert "backs up nothing until it is corrected" in text
            assert reason in text
    AlertRoute.objects.create(name="ops", url="env:BACKUP_SECRET_OPS", digest="daily", zone="Mars/Olympus")
    digest.is_due(AlertRoute.objects.get(), NOW)
