"""Which throttles hold the records of a policy: its own, and for first backups the one of its seeding limit."""

from jobs import throttles
from jobs.models import Throttle
from sources.models import Policy


def lane_of(policy: Policy, *, first_backup: bool) -> int:
    """The lane of a policy's records."""
    return throttles.lane_of(policy.throttle_key(first_backup=first_backup))


def limit_seeding(policy: Policy) -> None:
    """Make the throttle that holds the policy's first backups to its `seeding_limit`, or bring it up to date.

    Without a limit it is left as it is: records that name it may still run. To be called last in an edit: claims from
    all its lanes wait for a changed throttle until the transaction ends.
    """
    make_seeding_throttle(policy)
    if policy.seeding_limit and policy.seeding_throttle:
        wanted = {"name": _seeding_name(policy), "max_in_flight": policy.seeding_limit}
        Throttle.objects.filter(pk=policy.seeding_throttle.pk).exclude(**wanted).update(**wanted)


def make_seeding_throttle(policy: Policy) -> None:
    """Make that throttle if it is missing. Nothing waits for it."""
    if policy.seeding_limit and policy.seeding_throttle is None:
        made = Throttle.objects.create(name=_seeding_name(policy), max_in_flight=policy.seeding_limit)
        policy.seeding_throttle = made
        policy.save(update_fields=["seeding_throttle"])


def _seeding_name(policy: Policy) -> str:
    return f"first backups of {policy.schedule.name[:60]} (policy {policy.pk})"
