"""Notifications of a backup's outcome: an event to the endpoint that its policy names, and a dead-man ping.

Both are records on the backlog, made in the transaction that settles the attempt: none is lost, and each is delivered,
signed, throttled and tried again as all others are. No payload holds a secret.
"""

from datetime import datetime, timedelta
from typing import Any

from jobs import backlog
from jobs.backlog import NewRecord
from jobs.handlers import Run
from jobs.outcomes import ClaimedRecord, Failed, Outcome, Succeeded
from jobs.worker.database_threads import ask_database
from sealing.lookup import SecretNotFound, read_secret_in_queue
from sources.models import Assignment, Policy
from sources.planning.names import CALLBACKS as QUEUE
from sources.planning.names import PING

PINGED_FOR = timedelta(hours=1)
"""The time after which an undelivered ping means nothing."""


def follow(assignment: Assignment, record: ClaimedRecord, now: datetime, body: dict[str, Any]) -> None:
    """Put the notifications about an attempt on the backlog. `body["event"]`: backup.succeeded or backup.failed."""
    policy, name = assignment.policy, assignment.source.name
    number = f"{record.id}-{record.attempt}"
    if endpoint := policy.outcomes_endpoint:
        payload = {
            "title": f"outcome of {name}",
            "schedule": str(policy),
            "trigger_at": f"{record.started_at:%Y-%m-%dT%H:%M:%SZ}",
            "event_id": f"outcome-{number}",
            "endpoint": endpoint.pk,
            "url": None,
            "body": {"source": name, "policy": str(policy), "ended_at": now.isoformat(), **body},
        }
        backlog.enqueue(endpoint.kind, [NewRecord(f"outcome-{number}", payload)], now=now)
    if policy.ping_url:
        payload = {"title": f"{policy}: {name}", "policy": policy.pk, "failed": body["event"] != "backup.succeeded"}
        backlog.enqueue(PING, [NewRecord(number, payload, closes_at=now + PINGED_FOR)], queue=QUEUE, now=now)


def wanted_by(assignments: Any) -> Assignment | None:
    """The assignment of a settled attempt, if its policy wants a notification."""
    found = assignments.select_related("policy__schedule", "policy__outcomes_endpoint", "source").first()
    wanted = found is not None and (found.policy.outcomes_endpoint_id or found.policy.ping_url)
    return found if wanted else None


async def ping(run: Run) -> Outcome:
    """Send the ping of a policy. Raises: django.db.Error."""
    from delivery.http.ping import get

    policy = await ask_database(QUEUE, Policy.objects.filter(pk=run.record.payload["policy"]).first)
    if policy is None or not policy.ping_url:
        return Succeeded()  # a user took it away
    try:
        url = await read_secret_in_queue(policy.ping_url, QUEUE)
    except SecretNotFound as error:
        return Failed(f"the URL to ping is not known: {error}")
    if not (url or "").startswith(("http://", "https://")):
        return Failed(f"what {policy.ping_url} holds is not a URL: it begins with neither http:// nor https://")
    problem = await get(url or "", failed=bool(run.record.payload.get("failed")))
    return Failed(problem) if problem else Succeeded()
