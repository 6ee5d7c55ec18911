"""Fleets for tests: sources under policies, and what a handler sees of them."""

from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

from django.utils import timezone

from jobs import settling
from jobs.models import BacklogRecord, Origin
from jobs.outcomes import ClaimedRecord, Failed, Handoff, Outcome
from jobs.states import Status, WaitingFor
from schedules.models import Schedule
from sources import planning
from sources.models import Assignment, Policy, Repository, Source
from sources.planning import AVAILABILITY, KIND, subject_of
from tests.factories import claim_ready, make_claimed

MONDAY = datetime(2026, 3, 2, tzinfo=UTC)
"""Midnight of a Monday in March, winter time in Berlin."""
HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDi05lLkTafyNw2eJg4nE2VQpKOm0H9cDDMvixIkCD/S"

_numbers = count(1)
SCHEDULE_FIELDS = ("cron", "zone", "priority", "throttle", "retry_policy", "enabled", "next_trigger_at")


def make_policy(**fields: Any) -> Policy:
    """Daily at nine, UTC, always open. Takes fields of the policy and of its schedule."""
    number = next(_numbers)
    of_schedule = {name: fields.pop(name) for name in SCHEDULE_FIELDS if name in fields}
    schedule = Schedule.objects.create(
        **({"name": f"policy {number}", "cron": "0 9 * * *", "kind": KIND, "provider": "assignments"} | of_schedule)
    )
    if "repository" not in fields:
        fields["repository"] = Repository.objects.create(name=f"repository {number}", location="/srv/backups")
    return Policy.objects.create(schedule=schedule, **fields)


def policy_into(place: Path, name: str = "", **fields: Any) -> Policy:
    """A policy whose repository is this folder, which is there; it has the folder's name, or another."""
    place.mkdir(parents=True, exist_ok=True)
    return make_policy(repository=Repository.objects.create(name=name or place.name, location=str(place)), **fields)


def policy_named(name: str) -> Policy:
    policy = make_policy()
    Origin.objects.filter(pk=policy.schedule_id).update(name=name)
    return policy


def make_source(**fields: Any) -> Source:
    """A local folder."""
    values = {"name": f"source {next(_numbers)}", "kind": "local", "path": "/srv/files"}
    return Source.objects.create(**(values | fields))


def make_assignment(policy: Policy | None = None, source: Source | None = None, **fields: Any) -> Assignment:
    """A source under a policy, never backed up."""
    return Assignment.objects.create(source=source or make_source(), policy=policy or make_policy(), **fields)


def backed_up(policy: Policy, started_at: datetime, seconds: float = 60.0, **fields: Any) -> Assignment:
    """An assignment whose last backup started at `started_at`."""
    return make_assignment(
        policy,
        last_backup_at=started_at,
        last_backup_for=seconds,
        last_backup_size=1000,
        next_backup_at=policy.schedule.period.next_after(started_at),
        **fields,
    )


def record_of(assignment: Assignment) -> BacklogRecord:
    """Its one unfinished record."""
    return BacklogRecord.objects.unfinished().get(kind=KIND, subject=subject_of(assignment.pk))


def failed_before(assignment: Assignment) -> Assignment:
    """Its backup, which is due, has failed three times and waits for a day."""
    planning.emit_due(now := timezone.now())
    BacklogRecord.objects.filter(pk=record_of(assignment).pk).update(
        status=Status.WAITING, waiting_for=WaitingFor.BACKOFF, run_after=now + timedelta(days=1), failures=3,
        first_failure_at=now, last_failure_at=now,
    )  # fmt: skip
    return assignment


def claimed_for(assignment: Assignment, **fields: Any) -> ClaimedRecord:
    """A claimed backup record of an assignment as a value, as a handler gets it. No row stands behind it."""
    values = {
        "kind": KIND,
        "queue": AVAILABILITY,
        "subject": subject_of(assignment.pk),
        "payload": {"assignment": assignment.pk, "title": assignment.source.name},
        "lease_token": uuid4(),
    }
    return make_claimed(**(values | fields))


def claim(queue: str, now: datetime) -> ClaimedRecord:
    """The one record that is ready in `queue`, claimed at `now` by a worker of its own."""
    [claimed] = claim_ready(1, queue, now)
    return claimed


def settle(claimed: ClaimedRecord, outcome: Outcome, now: datetime) -> None:
    """Raises: LeaseLost."""
    settling.settle([(claimed, outcome)], now=now).raise_if_lost()


def handed_on(assignment: Assignment, now: datetime) -> ClaimedRecord:
    """Its record, claimed by an execution unit at `now`."""
    settle(claim("availability", now), Handoff("backups", assignment.source.exclusive_key), now)
    return claim("backups", now)


def error_of(outcome: object) -> str:
    """The text of a failure."""
    assert isinstance(outcome, Failed), outcome
    return outcome.error


def unfinished() -> int:
    return BacklogRecord.objects.unfinished().count()
