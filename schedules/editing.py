"""Editing of schedules. The schedule of a policy is edited with the policy."""

from collections.abc import Collection
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from declarations.service import Service
from delivery import addresses
from delivery.models import EndpointKind
from jobs import rescheduling
from jobs.handlers import registry
from jobs.models import Origin
from schedules import declarations, providers, verbs
from schedules.cron_doubts import doubts
from schedules.declarations import OF_POLICIES
from schedules.models import Schedule, Trigger
from schedules.obstacles import obstacle_to_deleting, obstacle_to_editing, owners

GOES_THERE = {"kind", "endpoint", "provider"}
"""A change of these, or that it is enabled, asks whether its events may be delivered there: the address may be allowed
where the workers run, and unknown to the shell in which something else is edited."""


class Schedules(Service[Schedule]):
    model, declaration = Schedule, declarations.ScheduleDeclaration

    def rows(self) -> QuerySet[Any]:
        """The rows, each with the row that it is a part of, which an edit asks for."""
        return super().rows().select_related(*owners())

    def declared_rows(self) -> QuerySet[Any]:
        return super().rows().exclude(provider=OF_POLICIES)

    def obstacle(self, row: Schedule) -> str:
        return obstacle_to_editing(row)

    def fill(self, row: Schedule, sent: dict[str, Any]) -> set[str] | None:
        """A batch that comes from a provider is no longer counted."""
        if row.pk and sent.get("provider"):
            sent = {"event_count": None} | sent
        return super().fill(row, sent)

    def problems(self, row: Schedule, changed: set[str] | None) -> dict[str, str]:
        if not row.kind:
            row.kind = row.endpoint.kind if row.endpoint else EndpointKind.HTTP_CALLBACK
        found: dict[str, str] = {}
        if row.provider and row.provider not in providers.known:
            found["provider"] = f"no provider {row.provider!r} is registered here; {_known(providers.known)}"
        elif row.provider and changed and "provider" in changed and _is_in_mid_batch(row):
            found["provider"] = "a batch of events is being put on the backlog; try again when it is there"
        if row.kind not in registry.kinds:
            found["kind"] = f"no kind {row.kind!r} is registered here; {_known(registry.kinds)}"
        elif not row.provider and not takes_events(row.kind):
            found["kind"] = f"records of the kind {row.kind!r} come from a provider, which knows what each is about"
        asks = changed is None or bool(changed & GOES_THERE) or (row.enabled and "enabled" in changed)
        if problem := _problem_of_endpoint(row, asks):
            found["endpoint"] = problem
        return found

    def write(self, row: Schedule, changed: set[str] | None) -> list[str]:
        """Save a row. Its watermark follows, and the retry policy of the records that it has emitted."""
        super().write(row, changed)
        verbs.saved(row, changed)
        if changed and "retry_policy" in changed:
            transaction.on_commit(lambda: rescheduling.follow(row), robust=True)
        return doubts(row.cron) if changed is None or "cron" in changed else []

    def uses(self, row: Schedule) -> list[str]:
        found = obstacle_to_deleting(row)
        return [found] if found else []

    def _taken(self, names: Collection[str]) -> Collection[str]:
        """The names that are taken, also by the schedules of policies, and by any other origin of records."""
        return Origin.objects.filter(name__in=names).values_list("name", flat=True)


def takes_events(kind: str) -> bool:
    """True if counted events may be of this kind: its records have no openings, and nothing follows their settle."""
    return registry.kind(kind).next_opening is None and registry.kind(kind).after_settle is None


def _is_in_mid_batch(schedule: Schedule) -> bool:
    """True if a counted batch is begun and not complete: its provider would not be asked at that launch time."""
    begun = Trigger.objects.filter(schedule=schedule.pk, finished_at=None, emitted_at=None, frozen_config__isnull=False)
    return begun.exists()


def _problem_of_endpoint(schedule: Schedule, asks_whether_allowed: bool) -> str:
    kind, endpoint = schedule.kind, schedule.endpoint
    if schedule.provider:
        if endpoint is None or schedule.provider not in providers.known:
            return ""
        return f"is not for this schedule: its batch comes from {schedule.provider}; leave it empty"
    if kind not in EndpointKind.values:
        if endpoint is None:
            return ""
        deliver = " and ".join(EndpointKind.values)
        return f"is not for records of the kind {kind!r}: only {deliver} deliver; leave it empty"
    if endpoint is None:
        return f"is missing: where is each {EndpointKind(kind).label} delivered?"
    if endpoint.kind != kind:
        return (
            f"{endpoint} is for {EndpointKind(endpoint.kind).label}, and this schedule's kind is {kind}; choose "
            "another endpoint or kind"
        )
    problem = addresses.problem_with(endpoint.url) if asks_whether_allowed else ""
    return f"{endpoint} cannot be delivered to: {problem}" if problem else ""


def _known(names: Collection[str]) -> str:
    return f"there are {', '.join(sorted(names))}" if names else "there is none"
