"""What belongs to an edit of a policy, a repository or an assignment, whoever makes it: a page of the admin or the API.

The caller has checked the rows (`full_clean`), and holds a transaction in which all of it is done, or nothing.
"""

from collections.abc import Collection, Iterable
from functools import partial

from django.db import transaction
from django.db.models import Model, QuerySet

from jobs.breakers import verbs
from operations import rescheduling, rollouts
from schedules.models import Schedule
from sources import planning
from sources.backups import repositories
from sources.models import Backup, Policy, Repository
from sources.repository_breaker import guarded_by, try_again

SCHEDULE_FIELDS = ("name", "cron", "zone", "enabled", "priority", "retry_policy", "throttle")
"""Fields of a policy that are its schedule's."""

PLANNED_FROM = frozenset({
    "cron", "zone", "window", "excluded_dates", "only_if_it_fits", "enabled", "priority", "throttle", "seeding_limit",
    "repository",
})  # fmt: skip
"""A change of these moves next-backup dates or records on the backlog."""


def save_policy(policy: Policy, changed: Collection[str] | None) -> list[str]:
    """Save a policy with its schedule; what was computed from it is computed anew. Returns warnings, for people.

    `changed`: names of the fields, its schedule's included, that differ from what is stored; None: it is new.
    """
    if policy.pk:
        lock_policy(policy.pk)
    _save(policy.schedule, SCHEDULE_FIELDS, changed)
    policy.schedule = policy.schedule  # takes over the id of a new one
    _save(policy, _columns(policy, but=("id", "schedule")), changed)
    if changed is not None and not PLANNED_FROM.isdisjoint(changed):
        planning.replan(policy)
    else:
        planning.limit_seeding(policy)
    if changed is not None and "retry_policy" in changed:
        transaction.on_commit(partial(rescheduling.follow, policy.schedule))
    return [*policy.check_openings(), *map(str, rollouts.progress("policy", [policy.pk]).values())]


def lock_policy(policy_id: int) -> bool:
    """Lock a policy and then its schedule, until the transaction ends. Whoever edits both locks them in this order, so
    that two who edit one policy wait for each other once. Returns whether there is one."""
    locked = Policy.objects.filter(pk=policy_id).select_for_update(no_key=True, of=("self",)).order_by("pk")
    policy = locked.only("schedule_id").first()
    if policy is None:
        return False
    Schedule.objects.select_for_update(no_key=True, of=("self",)).only("pk").get(pk=policy.schedule_id)
    return True


def _save(row: Model, fields: Collection[str], changed: Collection[str] | None) -> None:
    """Save what an edit changed of these fields. The others are read again: they may have been edited since they were
    first read, and what is computed anew goes by them. A field that is none of these is left to whom it belongs, as a
    schedule's watermark to the emitter."""
    if not row.pk:
        row.save()
        return
    edited = [name for name in fields if changed is None or name in changed]
    if others := [name for name in fields if name not in edited]:
        row.refresh_from_db(fields=others)
    if edited:
        row.save(update_fields=edited)


def _columns(row: Model, but: Collection[str]) -> list[str]:
    return [field.name for field in row._meta.concrete_fields if field.name not in but]


@transaction.atomic
def delete_policies(policies: Iterable[Policy]) -> None:
    """Delete policies, each with its schedule. Raises: ProtectedError while one has assignments."""
    for policy in policies:
        lock_policy(policy.pk)
        schedule = policy.schedule_id
        policy.delete()
        Schedule.objects.filter(pk=schedule).delete()


def save_repository(repository: Repository, changed: Collection[str] | None, by: str) -> list[str]:
    """Save a repository and make its directory if it is missing. Returns warnings, for people.

    What is corrected is tried at once: a new location ends the wait of an open breaker. `changed` as for a policy;
    `by`: who edits it.
    """
    _save(repository, _columns(repository, but=("id",)), changed)
    warnings = []
    if reason := make_directory(repository.location):
        warnings.append(f"{repository.location} cannot be made: {reason}")
    if changed is not None:
        verbs.rename(guarded_by(repository))
        if "location" in changed and try_again(repository, by=by):
            warnings.append(f"{repository} was failing for everybody; one record is tried there now")
    return warnings


def make_directory(location: str) -> str | None:
    """Make the directory of a repository, with its parents, if it is missing. Returns why that is not possible."""
    return repositories.why("not_made", location)


@transaction.atomic
def delete_repositories(repositories: Iterable[Repository]) -> None:
    """Delete repositories, each with its breaker. Raises: ProtectedError while one has policies or backups."""
    for repository in repositories:
        guarded = guarded_by(repository)
        repository.delete()
        verbs.forget(guarded)


def backups_of(backups: QuerySet[Backup]) -> list[str]:
    """Why what these backups are of is not deleted, in a sentence; none when there are none.

    Its backups would be forgotten with it, and still lie in the repository: nobody could tell whose they are.
    """
    count = backups.count()
    if not count:
        return []
    return ["1 backup of it is recorded." if count == 1 else f"{count:,} backups of it are recorded."]


def emit_after_commit(assignment_ids: Iterable[int]) -> None:
    """Put what is due of these assignments on the backlog once they are committed: a new one is due at once."""
    ids = list(assignment_ids)
    transaction.on_commit(lambda: planning.emit_due(None, ids))
