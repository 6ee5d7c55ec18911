"""What a schedule may be, beyond its single fields: everything that is wrong with it, told by field."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from delivery.models import EndpointKind
from jobs.handlers import registry
from schedules.cron import check_expression, check_zone

if TYPE_CHECKING:
    from schedules.models import Schedule

OF_POLICIES = "assignments"
"""The provider of the schedules of policies, which are made with them."""


def problems_of(schedule: "Schedule") -> dict[str, str]:
    """What is wrong with when it fires, its batch and its delivery, by field. Empty: nothing."""
    return _problems_of_when(schedule) | _problems_of_batch(schedule) | _problems_of_delivery(schedule)


def _problems_of_when(schedule: "Schedule") -> dict[str, str]:
    errors: dict[str, str] = {}
    for field, check in (("cron", check_expression), ("zone", check_zone)):
        try:
            check(getattr(schedule, field) or "")
        except ValueError as error:
            errors[field] = str(error)
    return errors


def _problems_of_batch(schedule: "Schedule") -> dict[str, str]:
    """Of how many events there are, and when they may start."""
    from schedules import providers
    from schedules.models import Late, Stagger

    errors: dict[str, str] = {}
    count = schedule.event_count
    if schedule.provider:
        if schedule.provider not in providers.known:
            errors["provider"] = f"no provider {schedule.provider!r} is registered here; {_known(providers.known)}"
        elif _is_in_mid_batch(schedule):
            errors["provider"] = "a batch of events is being put on the backlog; try again when it is there"
        if count is not None:
            errors["event_count"] = f"is not for this schedule: its batch comes from {schedule.provider}"
        if schedule.catch_up_for is not None:
            errors["catch_up_for"] = (
                f"is not for this schedule: after downtime {schedule.provider} makes up for what is due; leave it empty"
            )
    elif count is None:
        errors["event_count"] = "is missing: how many events does a trigger yield? 1 is plain cron"
    if not schedule.window_for:
        if schedule.stagger == Stagger.EVEN:
            errors["stagger"] = "needs a window to spread the events over; say how long in window_for, or choose none"
        if schedule.late == Late.DROP:
            errors["late"] = "needs a window after which an event is late; say how long in window_for"
    return errors


def _is_in_mid_batch(schedule: "Schedule") -> bool:
    """Whether a counted batch is begun and not complete: its provider would not be asked at that launch time."""
    from schedules.models import Trigger

    begun = Trigger.objects.filter(schedule=schedule.pk, finished_at=None, emitted_at=None, frozen_config__isnull=False)
    return bool(schedule.pk) and begun.exists()


def _problems_of_delivery(schedule: "Schedule") -> dict[str, str]:
    """Of the kind of its records, where they go and what they carry."""
    from schedules import providers

    errors: dict[str, str] = {}
    kind, endpoint = schedule.kind, schedule.endpoint
    if kind and kind not in registry.kinds:
        errors["kind"] = f"no kind {kind!r} is registered here; {_known(registry.kinds)}"
    elif not schedule.provider and not takes_events(kind):
        errors["kind"] = f"records of the kind {kind!r} come from a provider, which knows what each is about"
    if kind in EndpointKind.values and not schedule.provider:
        if endpoint is None:
            errors["endpoint"] = f"is missing: where is each {EndpointKind(kind).label} delivered?"
        elif endpoint.kind != kind:
            errors["endpoint"] = (
                f"{endpoint} is for {EndpointKind(endpoint.kind).label}, and this schedule's kind is {kind}; "
                "choose another endpoint or kind"
            )
        elif (problem := _problem_with(endpoint.url, endpoint.kind)) and not _went_there_before(schedule):
            errors["endpoint"] = f"{endpoint} cannot be delivered to: {problem}"
    elif endpoint is not None and schedule.provider and kind in EndpointKind.values:
        # with an unknown provider nobody can tell
        if schedule.provider in providers.known:
            errors["endpoint"] = f"is not for this schedule: its batch comes from {schedule.provider}; leave it empty"
    elif endpoint is not None and (not schedule.provider or schedule.provider in providers.known):
        deliver = " and ".join(EndpointKind.values)
        errors["endpoint"] = f"is not for records of the kind {kind!r}: only {deliver} deliver; leave it empty"
    if not schedule.provider and (problem := _problem_of_template(schedule.payload_template)):
        errors["payload_template"] = problem
    return errors


def takes_events(kind: str) -> bool:
    """Whether counted events may be of this kind: not of one whose records have openings or a settle of their own."""
    return registry.kind(kind).next_opening is None and registry.kind(kind).after_settle is None


def _problem_with(url: str, kind: str) -> str:
    from delivery import addresses

    return str(addresses.problem_with(url, kind))


def _went_there_before(schedule: "Schedule") -> bool:
    """Whether it was saved with this endpoint and kind, and is not being enabled: no edit of where it goes.

    The address may be allowed where the workers run, and unknown to the shell in which something else is edited.
    """
    from schedules.models import Schedule

    same = {"pk": schedule.pk, "endpoint": schedule.endpoint, "kind": schedule.kind, "provider": ""}
    as_saved = Schedule.objects.filter(**same)
    if schedule.enabled:
        as_saved = as_saved.filter(enabled=True)
    return schedule.pk is not None and as_saved.exists()


def _problem_of_template(template: object) -> str:
    from schedules import templates

    try:
        templates.check(template)
    except ValueError as error:
        return str(error)
    return ""


def _known(names: Collection[str]) -> str:
    return f"there are {', '.join(sorted(names))}" if names else "there is none"


MOST_COUNTED = 1_000


def owner_of(schedule: "Schedule") -> Any:
    """The row that a schedule is a part of, as a policy; None when it stands alone."""
    names = [field.get_accessor_name() for field in schedule._meta.related_objects if field.one_to_one]
    return next((owner for name in names if name and (owner := getattr(schedule, name, None))), None)


def obstacle_to_editing(schedule: "Schedule") -> str:
    """Why a schedule is not edited by itself: what it belongs to; empty: it is."""
    owner = owner_of(schedule)
    if owner is None:
        return ""
    return f"{_describe_owner(schedule, owner)}: edit or delete that"


def obstacle_to_triggering(schedule: "Schedule") -> str:
    """Why a schedule is not triggered by itself, with what is done instead; empty: it is."""
    owner = owner_of(schedule)
    return f"{_describe_owner(schedule, owner)}: use *back up now*" if owner else ""


def _describe_owner(schedule: "Schedule", owner: Any) -> str:
    return f"{schedule} is the schedule of the {owner._meta.verbose_name} {owner}"


def obstacle_to_deleting(schedule: "Schedule") -> str:
    """Why a schedule cannot be deleted now, with what to do about it; empty: it can."""
    from jobs.models import BacklogRecord
    from jobs.states import UNFINISHED
    from schedules.models import Trigger

    if obstacle := obstacle_to_editing(schedule):
        return obstacle
    if Trigger.objects.filter(schedule=schedule, emitted_at=None, finished_at=None).exists():
        return f"{schedule} cannot be deleted now: a batch of it is being emitted or queued. Cancel that batch first"
    unfinished = BacklogRecord.objects.filter(origin=schedule, trigger_at__isnull=False, status__in=UNFINISHED)
    count = unfinished.order_by()[: MOST_COUNTED + 1].count()
    if not count:
        return ""
    told = f"{count:,} of its events {'are' if count > 1 else 'is'} unfinished"
    if count > MOST_COUNTED:
        told = f"more than {MOST_COUNTED:,} of its events are unfinished"
    return f"{schedule} cannot be deleted now: {told}. Pause it and let them end, or cancel them"
