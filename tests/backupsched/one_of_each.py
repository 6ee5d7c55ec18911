"""One row of everything that the API tells of, so that its ids and names can be asked for."""

from contextlib import suppress
from datetime import timedelta
from typing import Any

from django.db import DatabaseError, models
from django.utils import timezone

from alerting.models import Alert, AlertRoute
from audit.models import AuditEntry
from delivery.models import Endpoint
from jobs.models import Attempt, Breaker
from jobs.states import AttemptOutcome, Status
from schedules.models import Schedule, Trigger
from sealing.models import StoredSecret
from sources.agents import tokens
from sources.models import Assignment, Restore
from tests.api.sources.making import add_backup
from tests.factories import make_record, make_retry_policy, make_throttle, make_worker
from tests.sources.factories import make_assignment, make_policy, make_source


def make_one_of_each() -> tuple[dict[str, Any], Assignment]:
    """Values by what parameters and fields of bodies are called, and an assignment whose source has an agent."""
    throttle, retry_policy, worker = make_throttle(3), make_retry_policy(), make_worker()
    now = timezone.now()
    schedule = Schedule.objects.create(
        name="hooks", cron="0 * * * *", kind="http_callback", event_count=3, throttle=throttle,
        endpoint=Endpoint.objects.create(name="receiver", url="https://hooks.example.org/in"),
        next_trigger_at=now + timedelta(hours=1),
    )  # fmt: skip
    trigger = Trigger.objects.create(schedule=schedule, trigger_at=now, emitted_at=now, events=1)
    record = make_record(Status.WAITING, origin=schedule, trigger_at=now, kind="http_callback", queue="callbacks")
    failed = make_record(Status.FAILED, worker=worker, kind="http_callback", queue="callbacks", last_error="refused")
    Attempt.objects.create(
        record=failed, number=1, queue="callbacks", worker=worker, started_at=now, ended_at=now,
        outcome=AttemptOutcome.FAILED, error="refused", facts={"status": 500},
    )  # fmt: skip
    assignment = make_assignment(make_policy(throttle=throttle), make_source(addresses=["192.0.2.5"]))
    free = make_assignment()
    breaker = Breaker.objects.create(
        key="callback:hooks.example.org", title="hooks", failures=3, opened_at=now, probe_at=now
    )
    tokens.issue(assignment.source)
    backup = add_backup(assignment)
    values = {
        "source": assignment.source_id, "policy": free.policy_id, "assignment": free.pk, "backup": backup.pk,
        "repository": assignment.policy.repository_id, "schedule": schedule.pk, "trigger": trigger.pk,
        "throttle": throttle.pk, "retry_policy": retry_policy.pk, "endpoint": schedule.endpoint_id,
        "record": record.pk, "breaker": breaker.pk, "worker": worker.pk,
        "restore": Restore.objects.create(assignment=free, point="20261121T065755Z", to="folder", asked_at=now).pk,
        "alert": Alert.objects.create(kind="worker", subject="worker:1", name="host:1", since=now).pk,
        "alert_route": AlertRoute.objects.create(name="ops", url="env:BACKUP_SECRET_OPS").pk,
        "stored_secret": StoredSecret.objects.create(name="nas", sealed="").pk,
    }  # fmt: skip
    values["audit_entry"] = AuditEntry.objects.order_by("pk").values_list("pk", flat=True).last()
    return values, assignment


SCRIPT = "<script>x"
"""Short: it has to fit."""
SHAPED = ("window", "excluded_dates", "queues")
"""Pages rely on the shape of these."""


def write_everywhere(model: Any, text: str = SCRIPT) -> None:
    """`text` into all text that a row of `model` can hold, past its forms, as agents, engines and people might."""
    for field in model._meta.concrete_fields:
        if isinstance(field, models.CharField | models.TextField | models.JSONField) and not field.choices:
            value: object = text
            if isinstance(field, models.JSONField):
                value = [text] if field.name == "addresses" else {text: text}
            if field.name not in SHAPED:
                with suppress(DatabaseError):  # in a view, or against a constraint
                    model.objects.update(**{field.name: value})
