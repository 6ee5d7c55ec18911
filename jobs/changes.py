"""What a settle changes: the transition of each record, and the columns in which its statement is given them."""

from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

from jobs.handlers import registry
from jobs.models import Origin, RetryPolicy
from jobs.outcomes import Claimed, Failed, Outcome
from jobs.retries import DEFAULT, Rule
from jobs.transitions import Transition, transition

Changes = list[tuple[Claimed, Transition]]


def changes_of(results: Sequence[tuple[Claimed, Outcome]], inserted: dict[int, datetime], now: datetime) -> Changes:
    """What each record becomes at `now` (aware UTC), by its kind, its origin and its retry policy.

    `inserted`: record id → when it was put on the backlog. Two statements, however many the records.
    """
    policies = RetryPolicy.objects.in_bulk({r.retry_policy_id for r, o in results if isinstance(o, Failed)} - {None})
    rules: dict[int | None, Rule] = {pk: policy.usable_rule() for pk, policy in policies.items()}
    origins = Origin.objects.in_bulk({r.origin_id for r, _ in results} - {None})
    return [
        (
            record,
            transition(
                record,
                outcome,
                home_queue=registry.home_of(record.kind, record.queue),
                rule=rules.get(record.retry_policy_id) or DEFAULT,
                zone=origins[record.origin_id].zone if record.origin_id in origins else "UTC",
                usual_priority=origins[record.origin_id].priority if record.origin_id in origins else None,
                inserted_at=inserted.get(record.id),
                now=now,
            ),
        )
        for record, outcome in results
    ]


def columns_of(changes: Changes) -> dict[str, list[Any]]:
    """The values of `SETTLE`: a column of each field of a transition, and of the fence of its claim."""
    columns: dict[str, list[Any]] = {
        field.name: [getattr(change, field.name) for _, change in changes] for field in fields(Transition)
    }
    for name in ("id", "attempt", "worker_id", "lease_token"):
        columns[name] = [getattr(record, name) for record, _ in changes]
    columns["from_queue"] = [record.queue for record, _ in changes]
    return columns
